"""Fitted estimators taken apart into a header and arrays.

What is kept is what prediction and ``update`` need: scales, mean function, network, kernel, noise
and the statistics in the latent space, from which the posterior is conditioned anew. No windows.
"""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any, Literal

import numpy as np
import torch
from pydantic import ValidationError
from torch import Tensor

from seqgp.artifact.container import Arrays
from seqgp.artifact.rebuild import CLASSES, assemble
from seqgp.artifact.schema import Estimator, GPParams, NetParams, Training, refusal
from seqgp.artifact.shelf import Shelf
from seqgp.estimator.base import SequenceRegressor
from seqgp.exceptions import ArtifactError
from seqgp.gp import GP, Statistics
from seqgp.inference import GridStatistics, Rows
from seqgp.means import LinearMean
from seqgp.training.noise import Calibration

__all__ = ["estimator_parts", "template_of"]


def template_of(model: SequenceRegressor) -> GPParams | NetParams:
    """The constructor's arguments of an estimator, as the header holds them."""
    kind = type(model).__name__
    if CLASSES.get(kind) is not type(model):
        raise ArtifactError(
            f"a {kind} cannot be saved: expected a SequenceGP, a SequenceNet or a Forecaster of these"
        )
    params: dict[str, Any] = {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in model.get_params(deep=False).items()
    }
    for name in ("encoder", "kernel"):
        if not isinstance(params.get(name, ""), str):
            raise ArtifactError(
                f"{name} is a {type(params[name]).__name__} object, and a model file holds numbers but "
                f"no code: use one of the {name}s that have a name, or keep this model in the program "
                "that defines it"
            )
    params["device"] = str(params["device"])
    if isinstance(params["random_state"], np.random.RandomState):
        params["random_state"] = None  # a generator has no seed to write down
    schema: type[GPParams] | type[NetParams] = GPParams if kind == "SequenceGP" else NetParams
    try:
        return schema.model_validate({"kind": kind} | params)
    except ValidationError as error:
        raise ArtifactError(f"the {kind} cannot be saved: {refusal(error)}") from error


def estimator_parts(model: SequenceRegressor) -> tuple[Estimator, Arrays]:
    """Header and arrays of a fitted estimator, which together make it again.

    Raises:
        ArtifactError: it is not fitted, or holds what a file cannot.
    """
    params = template_of(model)
    if not hasattr(model, "posterior_"):
        raise ArtifactError(f"the {type(model).__name__} is not fitted: call fit before save")
    lag, features = model.window_shape_
    vector = model.y_scaler_.shift.ndim == 0
    names = getattr(model, "feature_names_in_", None)
    inference, grid_size, _ = _statistics(model.statistics_)
    header = Estimator(
        kind="estimator",
        params=params,
        lag=lag,
        features=features,
        feature_names=None if names is None else tuple(map(str, names)),
        outputs=1 if vector else len(model.y_scaler_.shift),
        vector=vector,
        rows=model.n_rows_,
        inference=inference,
        grid_size=grid_size,
        history=tuple(model.history_.columns),
        correlated=model.correlated_,
        validation_rows=model.calibration_.rows,
        others=tuple(Training(**_training(other)) for other in model.others_),
        **_training(model),
    )
    arrays = _arrays(model)
    for k, other in enumerate(model.others_):
        arrays |= {f"others.{k}.{name}": value for name, value in _arrays(other).items()}
    if model.mixture_ is not None:
        arrays |= _said("mixture", model.mixture_)
    mean = model.mean_function_
    if isinstance(mean, LinearMean):
        parts = {field.name: getattr(mean, field.name) for field in fields(mean)}
        arrays |= {f"mean.{name}": value.cpu().numpy() for name, value in parts.items()}
    for name, scaler in (("x_scaler", model.x_scaler_), ("y_scaler", model.y_scaler_)):
        arrays |= {f"{name}.shift": scaler.shift, f"{name}.scale": scaler.scale}
    _check(model, header, arrays)
    return header, arrays


def _training(model: SequenceRegressor) -> dict[str, Any]:
    """What the header has of one training."""
    return {
        "best_epoch": model.best_epoch_,
        "pretrained_epochs": model.pretrained_epochs_,
        "quieter": model.calibration_.quieter is not None,
        "seed": model.seed_,
        "noise_steps": model.calibration_.steps,
        "best": _at_best(model),
        "nlml": _finite(model.nlml_),
    }


def _arrays(model: SequenceRegressor) -> Arrays:
    """The arrays of one training."""
    _, _, tensors = _statistics(model.statistics_)
    tensors |= {f"network.{name}": value for name, value in model.network_.named_parameters()}
    if model.noise_shape_ is not None:
        tensors |= {f"noise.{name}": value for name, value in model.noise_shape_.named_parameters()}
    if isinstance(model.layer_, GP):
        tensors |= {f"gp.{name}": value for name, value in model.layer_.named_parameters()}
    arrays: Arrays = {name: value.detach().cpu().numpy() for name, value in tensors.items()}
    said = model.calibration_
    for name in ("trust", "slope", "share", "shift"):
        arrays[f"calibration.{name}"] = getattr(said, name)
    if said.quieter is not None:
        arrays["calibration.quieter"] = said.quieter
    arrays["history"] = model.history_.to_numpy(dtype=np.float64)
    return arrays | _said("calibration", said)


def _said(name: str, said: Calibration) -> Arrays:
    """Size and tails of errors, and the errors themselves."""
    # The inverse of the degrees of freedom is finite for a Gaussian too.
    arrays = {f"{name}.scale": said.scale, f"{name}.tail": 1.0 / said.dof}
    return arrays if said.scores is None else arrays | {f"{name}.scores": said.scores}


def _statistics(
    statistics: Any,
) -> tuple[Literal["exact", "grid", "readout"], int | None, dict[str, Tensor]]:
    """The inference that made the statistics, its grid's size, and the tensors."""
    value = statistics.value if isinstance(statistics, Statistics) else statistics
    if isinstance(value, Rows):
        return "exact", None, {"statistics.H": value.H, "statistics.y": value.y}
    if isinstance(value, GridStatistics):
        parts = {f"statistics.{name}": getattr(value, name) for name in ("nodes", "b", "yy")}
        return "grid", value.spec.size, parts
    noise, _ = value
    return "readout", None, {"statistics.noise": noise}


def _check(model: SequenceRegressor, header: Estimator, arrays: Arrays) -> None:
    """Refuse a model that the parts do not make again: one whose options were changed after fit."""
    try:
        shelf = Shelf(arrays)
        twin = assemble(header, shelf, model.posterior_.noise.device)
        shelf.close()
    except ValueError as error:
        raise ArtifactError(
            f"the {type(model).__name__} cannot be saved: {error}; if its options were changed after "
            "fit, change them back"
        ) from error
    if not isinstance(model.layer_, GP) or not isinstance(twin.layer_, GP):
        return
    # Kernels of one shape may differ in more than parameters: compare what they say of some points.
    d = model.layer_.latent_dim
    points = torch.linspace(-1.0, 1.0, 5 * d, dtype=torch.float64).reshape(5, d)
    points = points.to(model.posterior_.noise.device)
    kernels: tuple[Any, Any] = model.layer_.kernel, twin.layer_.kernel
    with torch.no_grad():
        ours, theirs = (kernel(points).to_dense() for kernel in kernels)
    if not torch.equal(ours, theirs):
        raise ArtifactError(
            f"the trained kernel is not the one that kernel={header.params.model_dump()['kernel']!r} "
            "names, so it cannot be saved: give the kernel by name before fit, and leave it"
        )


def _at_best(model: SequenceRegressor) -> dict[str, float | None]:
    history = model.history_
    rows = history[history["epoch"] == model.best_epoch_] if len(history) else history
    return {str(name): _finite(rows[name].iloc[-1]) for name in rows} if len(rows) else {}


def _finite(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None
