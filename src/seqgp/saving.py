"""Fitted models into files: numbers and a JSON header, no pickle, no code.

What is kept is what prediction and ``update`` need: options, scales, mean function, networks, GPs and their
statistics in the latent space, from which the posterior is conditioned anew. No windows. Options that are
objects are written by the name under which their class is registered.
"""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import gpytorch
import numpy as np
import torch

from seqgp._version import __version__
from seqgp.calibration import Calibration
from seqgp.encoders import ENCODERS, Encoder
from seqgp.estimators import SequenceGP, SequenceNet
from seqgp.exceptions import ArtifactError
from seqgp.fitted import Fitted, Member
from seqgp.gp import GP, GPS
from seqgp.io import Arrays, arguments, as_json, write
from seqgp.likelihoods import LIKELIHOODS, Likelihood
from seqgp.means import LinearMean
from seqgp.registry import Registry
from seqgp.training import Residual, Training

__all__ = [
    "EstimatorHeader",
    "FittedHeader",
    "MemberHeader",
    "Optioned",
    "Saveable",
    "estimator_parts",
    "fitted_parts",
    "options_header",
    "save",
]


@runtime_checkable
class Saveable(Protocol):
    """Anything that comes apart into a header, which JSON can hold, and arrays."""

    def parts(self) -> tuple[dict[str, Any], Arrays]: ...


class Optioned(Protocol):
    """Anything that knows its options as scikit-learn's estimators do."""

    def get_params(self, deep: bool = True) -> dict[str, Any]: ...


@dataclass(frozen=True)
class MemberHeader:
    """One training."""

    best_epoch: int
    pretrained_epochs: int
    seed: int
    best: dict[str, float | None]
    """The history at the best epoch, for people; null where a number is not finite."""
    nlml: float | None

    def __post_init__(self) -> None:
        if min(self.best_epoch, self.pretrained_epochs) < 0:
            raise ArtifactError("a training has fewer than no epochs")


@dataclass(frozen=True)
class FittedHeader:
    """A fitted model; its numbers are in the arrays."""

    blueprint: dict[str, Any]
    lag: int
    features: int
    outputs: int
    vector: bool
    """Whether the targets were ``(n,)``."""
    rows: int
    inference: str
    """What ``inference="auto"`` came to; "plain" where there is no GP."""
    grid_size: int | None
    """Points per dimension, for a grid: the default may change, a saved grid does not."""
    history: tuple[str, ...]
    """Columns of the training history."""
    validation_rows: int
    noise_steps: int
    """Of training the noise network; 0 where there is none."""
    members: tuple[MemberHeader, ...]

    def __post_init__(self) -> None:
        for name in ("lag", "features", "outputs", "rows"):
            if not 1 <= getattr(self, name) <= 2**40:
                raise ArtifactError(f"{name} is {getattr(self, name)}, expected a positive number")
        if min(self.validation_rows, self.noise_steps) < 0:
            raise ArtifactError("a number of rows or steps is negative")
        if self.vector and self.outputs != 1:
            raise ArtifactError(f"a vector of targets has one output, and there are {self.outputs}")
        names = set(self.history)
        if len(names) < len(self.history) or (names and "epoch" not in names):
            raise ArtifactError("its history has columns that no history has")
        if not self.members:
            raise ArtifactError("it has no training")


@dataclass(frozen=True)
class EstimatorHeader:
    """A fitted estimator."""

    kind: str
    options: dict[str, Any]
    feature_names: tuple[str, ...] | None
    """Of the columns, where ``fit`` was given names."""
    fitted: FittedHeader

    def __post_init__(self) -> None:
        columns = self.fitted.lag * self.fitted.features
        if self.feature_names is not None and len(self.feature_names) != columns:
            raise ArtifactError(f"it has {len(self.feature_names)} names of {columns} columns")


def save(model: SequenceGP | SequenceNet | Saveable, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to one file, from which :func:`seqgp.load` makes it again.

    The file holds numbers and a JSON header (safetensors, no pickle) and all that is needed to
    predict and to ``update``; the training windows are not in it. It is written in one stroke: on
    any failure a file that was there before stays as it was. A ``random_state`` that is a generator
    comes back as None.

    Args:
        model: a fitted estimator or forecaster.
        path: the file to write.

    Raises:
        ArtifactError: the model is not fitted, or holds code (an encoder or a kernel that has no
            registered name), or the path cannot be a file.
        OSError: the disk is full, or not ours to write to.
    """
    if isinstance(model, SequenceGP | SequenceNet):
        header, arrays = estimator_parts(model)
    elif isinstance(model, Saveable):
        header, arrays = model.parts()
    else:
        raise _unknown(model)
    made = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "seqgp": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "gpytorch": gpytorch.__version__,
    }
    write(Path(path), {"made": made, "model": header}, arrays)


def estimator_parts(model: SequenceGP | SequenceNet) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of a fitted estimator.

    Raises:
        ArtifactError: it is not fitted, or holds what a file cannot.
    """
    kind = type(model).__name__
    if type(model) not in (SequenceGP, SequenceNet):
        raise _unknown(model)
    options = options_header(model)
    try:
        model.blueprint()
    except ValueError as error:
        raise ArtifactError(f"the {kind} could not be loaded again: {error}") from error
    if not hasattr(model, "fitted_"):
        raise ArtifactError(f"the {kind} is not fitted: call fit before save")
    names = getattr(model, "feature_names_in_", None)
    header, arrays = fitted_parts(model.fitted_, model.window_shape_)
    names = None if names is None else tuple(map(str, names))
    return as_json(EstimatorHeader(kind, options, names, header)), arrays


def fitted_parts(fitted: Fitted, window: tuple[int, int]) -> tuple[FittedHeader, Arrays]:
    """Header and arrays of a fitted model.

    Args:
        fitted: the model.
        window: shape ``(T, p)`` of its windows.
    """
    blueprint, scaler, calibration = fitted.blueprint, fitted.y_scaler, fitted.calibration
    layer, statistics = fitted.members[0].layer, fitted.members[0].statistics
    outputs = len(calibration.scale)
    header = FittedHeader(
        blueprint={
            "encoder": option_header("encoder", blueprint.encoder),
            "gp": option_header("gp", blueprint.gp),
            "readout": blueprint.readout,
            "mean": blueprint.mean,
            "training": option_header("training", blueprint.training),
            "members": int(blueprint.members),
            "calibrate": bool(blueprint.calibrate),
        },
        lag=window[0],
        features=window[1],
        outputs=outputs,
        vector=scaler.shift.ndim == 0,
        rows=fitted.rows,
        inference=layer.inference if isinstance(layer, GP) else "plain",
        grid_size=statistics.inference.size(layer.latent_dim) if isinstance(layer, GP) else None,
        history=tuple(map(str, fitted.members[0].record.history.columns)),
        validation_rows=calibration.rows,
        noise_steps=calibration.steps,
        members=tuple(_member_header(member) for member in fitted.members),
    )
    arrays = _calibration_arrays(calibration)
    if isinstance(fitted.mean, LinearMean):
        for field in fields(fitted.mean):
            arrays[f"mean.{field.name}"] = getattr(fitted.mean, field.name).cpu().numpy()
    for name, each in (("x_scaler", fitted.x_scaler), ("y_scaler", scaler)):
        arrays |= {f"{name}.shift": each.shift, f"{name}.scale": each.scale}
    for k, member in enumerate(fitted.members):
        arrays |= {f"members.{k}.{name}": value for name, value in _member_arrays(member).items()}
    for name, value in arrays.items():
        if not name.endswith(".history") and not np.isfinite(value).all():
            raise ArtifactError(f"{name} has values that are NaN or infinite: fit with a lower lr")
    return header, arrays


def options_header(holder: Optioned) -> dict[str, Any]:
    """The arguments of an object's constructor, as JSON can hold them.

    Args:
        holder: an estimator, or an option that has options of its own.

    Raises:
        ArtifactError: one is not of the type that is declared, for which loading asks.
    """
    given = holder.get_params(deep=False)
    header = {name: option_header(name, value) for name, value in given.items()}
    plain = {name: given[name] if isinstance(v, dict) else v for name, v in header.items()}
    arguments(type(holder), plain, type(holder).__name__)
    return header


def option_header(name: str, value: Any) -> Any:
    """One option, as JSON can hold it; an object by the registered name of its class.

    Args:
        name: of the option, for messages.
        value: as it was given.
    """
    if isinstance(value, np.random.RandomState):
        return None  # a generator has no seed to write down
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, Training):
        return {"training": as_json(options_header(value))}
    registries: list[tuple[type[Any], str, Registry[Any]]] = [
        (Encoder, "encoder", ENCODERS),
        (GP, "gp", GPS),
        (Likelihood, "likelihood", LIKELIHOODS),
    ]
    for base, kind, registry in registries:
        if isinstance(value, base):
            known = registry.name_of(type(value))
            if known is None:
                raise _no_name(name, value)
            return {kind: known, "options": as_json(options_header(value))}
    if value is None or isinstance(value, bool | int | float | str | np.generic | Mapping):
        return as_json(value)
    raise _no_name(name, value)


def _unknown(model: object) -> ArtifactError:
    return ArtifactError(
        f"a {type(model).__name__} cannot be saved: expected a SequenceGP, a SequenceNet or a Forecaster"
    )


def _no_name(name: str, value: Any) -> ArtifactError:
    return ArtifactError(
        f"{name} is a {type(value).__name__} object that has no registered name, and a model file holds "
        f"numbers but no code: use one of the {name}s that have a name, register its class (see "
        "docs/extending.md), or keep this model in the program that defines it"
    )


def _member_header(member: Member) -> MemberHeader:
    record = member.record
    rows = record.history
    rows = rows[rows["epoch"] == record.best_epoch] if len(rows) else rows
    best = {str(name): _finite(rows[name].iloc[-1]) for name in rows} if len(rows) else {}
    nlml = _finite(float(member.posterior.nlml))
    return MemberHeader(record.best_epoch, record.pretrained_epochs, record.seed, best, nlml)


def _member_arrays(member: Member) -> Arrays:
    tensors = {f"network.{name}": value for name, value in member.network.state_dict().items()}
    tensors |= {f"layer.{name}": value for name, value in member.layer.named_parameters()}
    statistics = member.statistics
    if isinstance(statistics, Residual):
        found = {"variance": statistics.variance}
    else:
        found = statistics.inference.arrays(statistics.value)
    tensors |= {f"statistics.{name}": value for name, value in found.items()}
    arrays = {name: value.detach().cpu().numpy() for name, value in tensors.items()}
    return arrays | {"history": member.record.history.to_numpy(dtype=np.float64)}


def _calibration_arrays(calibration: Calibration) -> Arrays:
    arrays = {
        "calibration.shift": calibration.shift,
        "calibration.scale": calibration.scale,
        "calibration.trust": calibration.trust,
        # The inverse of the degrees of freedom is finite for a Gaussian too.
        "calibration.tail": 1.0 / calibration.dof,
    }
    if calibration.scores is not None:
        arrays["calibration.scores"] = calibration.scores
    if calibration.noise is not None:
        state = calibration.noise.named_parameters()
        arrays |= {f"noise.{name}": value.detach().cpu().numpy() for name, value in state}
    return arrays


def _finite(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None
