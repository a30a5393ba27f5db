"""Models out of files: every size that a header claims is compared with an array before it is believed.

So a header alone cannot ask for more memory than its file has.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from seqgp.blueprint import Blueprint
from seqgp.calibration import Calibration, NoiseNet, ranks_kept, roughness_width
from seqgp.data import Standardizer
from seqgp.encoders import ENCODERS
from seqgp.estimators import SequenceGP, SequenceNet
from seqgp.exceptions import ArtifactError
from seqgp.fitted import Fitted, Member, Record
from seqgp.gp import GP, GPS, Statistics
from seqgp.io import Arrays, Shelf, arguments, from_json, read
from seqgp.likelihoods import LIKELIHOODS
from seqgp.means import LinearMean, MeanFunction, ZeroMean
from seqgp.registry import Registry
from seqgp.saving import FittedHeader, MemberHeader
from seqgp.training import Residual, Training

__all__ = ["info", "load", "load_estimator"]

# What building on a header that lies can come to. Not Exception: a bug elsewhere stays a bug.
_MISFITS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
)
_ESTIMATORS: dict[str, type[SequenceGP] | type[SequenceNet]] = {
    "SequenceGP": SequenceGP,
    "SequenceNet": SequenceNet,
}
_REGISTRIES: dict[str, Registry[Any]] = {"encoder": ENCODERS, "gp": GPS, "likelihood": LIKELIHOODS}


def load(path: str | os.PathLike[str]) -> Any:
    """The model that :func:`seqgp.save` wrote: it predicts bit for bit the same on the same machine.

    A model fitted on CUDA comes back on the CPU where there is no CUDA. Encoders, kernels and likelihoods
    from outside seqgp must be registered first, by importing the module that defines them.

    Args:
        path: the file.

    Raises:
        ArtifactError: there is no such file, or it is not a whole, unchanged model file that this
            version can read; nothing in it was executed.
    """
    header, arrays = _read(Path(path))
    shelf = Shelf(arrays)
    with _explained(path):
        model = load_estimator(header, shelf)
        shelf.close()
    return model


def info(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a file holds, as JSON can hold it, without building the model.

    Keys: ``kind``, ``format``, ``made``, ``bytes``, ``parameters`` (of the networks), ``options`` (of the
    estimator), ``rows``, ``lag``, ``features``, ``outputs``, ``inference``, ``grid_size``,
    ``validation_rows`` and ``members`` (the history at the best epoch of each, validation scores
    included); of a forecaster also ``forecaster`` (its own options) and ``data`` (what was done to it).

    Args:
        path: the file.

    Raises:
        ArtifactError: as :func:`load`.
    """
    text, arrays = _text(Path(path))
    header = json.loads(text)
    with _explained(path):
        model = header["model"]
        fitted = from_json(FittedHeader, model["fitted"], "fitted")
        found = {
            "kind": model["kind"],
            "format": header["format"],
            "made": header["made"],
            "bytes": Path(path).stat().st_size,
            "parameters": sum(v.size for name, v in arrays.items() if ".network." in name),
            "options": model["options"],
        }
        return found | {
            name: value
            for name, value in asdict(fitted).items()
            if name not in ("blueprint", "vector", "history")
        }


def load_estimator(header: Any, shelf: Shelf) -> SequenceGP | SequenceNet:
    """A fitted estimator.

    Args:
        header: of the estimator.
        shelf: the arrays.
    """
    kind = header["kind"]
    if kind not in _ESTIMATORS or set(header) != {"kind", "options", "feature_names", "fitted"}:
        raise ArtifactError(
            f"in its header, {kind!r:.100} is no estimator with options and numbers"
        )
    cls = _ESTIMATORS[kind]
    options = {name: _option(value, name) for name, value in header["options"].items()}
    model = cls(**arguments(cls, options, kind))
    model.blueprint()  # refuses options that are out of range
    fitted = from_json(FittedHeader, header["fitted"], "fitted")
    model.fitted_ = load_fitted(fitted, shelf, _device(str(model.device)))
    model.window_shape_ = (fitted.lag, fitted.features)
    model.n_features_in_ = fitted.lag * fitted.features
    if header["feature_names"] is not None:
        model.feature_names_in_ = np.array(header["feature_names"], dtype=object)
    return model


def load_fitted(header: FittedHeader, shelf: Shelf, device: torch.device) -> Fitted:
    """A fitted model with its posteriors.

    Args:
        header: of the model.
        shelf: the arrays.
        device: where it is to be.
    """
    for name in ("lag", "features", "outputs", "rows"):
        if not 1 <= getattr(header, name) <= 2**40:
            raise ArtifactError(f"{name} is {getattr(header, name)}, expected a positive number")
    if not header.members:
        raise ArtifactError("it has no training")
    data = {name: _option(value, name) for name, value in header.blueprint.items()}
    blueprint = from_json(Blueprint, data, "blueprint")
    x_scaler = _scaler("x_scaler", (header.features,), shelf)
    y_scaler = _scaler("y_scaler", () if header.vector else (header.outputs,), shelf)
    if header.vector and header.outputs != 1:
        raise ArtifactError(f"a vector of targets has one output, and there are {header.outputs}")
    mean = _mean(header, shelf, device)
    members = []
    for k, each in enumerate(header.members):
        own = shelf.under(f"members.{k}.")
        members.append(_member(blueprint, header, each, own, device))
        own.close()
    width = members[0].network.width
    return Fitted(
        blueprint=blueprint,
        members=tuple(members),
        mean=mean,
        calibration=_calibration(header, width, shelf, device),
        x_scaler=x_scaler,
        y_scaler=y_scaler,
        rows=header.rows,
    )


def _option(value: Any, name: str) -> Any:
    """An option as :func:`seqgp.saving.option_header` wrote it."""
    if not isinstance(value, dict):
        return value
    if set(value) == {"training"}:
        found = from_json(Training, value["training"], name)
        found.check()
        return found
    for kind, registry in _REGISTRIES.items():
        if set(value) == {kind, "options"}:
            cls: Any = registry[value[kind]]
            options = {key: _option(each, key) for key, each in value["options"].items()}
            return cls(**arguments(cls, options, name))
    raise ArtifactError(f"in its header, {name} is {value!r:.100}, which is no option")


def _member(
    blueprint: Blueprint,
    header: FittedHeader,
    training: MemberHeader,
    shelf: Shelf,
    device: torch.device,
) -> Member:
    columns = list(header.history)
    values = shelf.take("history", (None, len(columns)), finite=False)
    history = pd.DataFrame(values.copy(), columns=columns)
    if "epoch" in columns:
        history = history.astype({"epoch": "int64"})
    network = _network(blueprint, header, shelf, device)
    record = Record(history, training.best_epoch, training.pretrained_epochs, training.seed)

    def take(name: str, shape: tuple[int, ...]) -> Tensor:
        return shelf.tensor(f"statistics.{name}", shape, device)

    layer = blueprint.layer(header.outputs, header.inference, header.grid_size).to(device)
    if isinstance(layer, GP):
        _fill(layer, "layer", shelf, device)
        inference = layer.inference_for(header.rows)
        d = layer.latent_dim
        statistics = inference.from_arrays(take, header.rows, d, header.outputs)
        return Member.restored(network, layer, Statistics(inference, statistics), record)
    if header.inference != "plain":
        raise ArtifactError(f"a plain network has no {header.inference!r} inference")
    residual = Residual(take("variance", (header.outputs,)), header.rows)
    return Member.restored(network, layer, residual, record)


def _network(blueprint: Blueprint, header: FittedHeader, shelf: Shelf, device: torch.device) -> Any:
    """The network; its weights have no memory of their own before the arrays are seen to fit."""
    layers = getattr(blueprint.encoder, "layers", 1)
    if isinstance(layers, int) and layers > len(shelf):
        raise ArtifactError(f"there are not enough arrays for {layers} layers")
    ends = "readout.weight" if blueprint.gp is None else "head.linear.weight"
    width = shelf.shape(f"network.{ends}")[-1]

    def build() -> Any:
        encoder = blueprint.encoder.build(header.features, header.lag)
        return blueprint.network(encoder, width, header.outputs)

    with torch.random.fork_rng(devices=[]):
        with torch.device("meta"):
            outline = build().state_dict()
        values = {
            name: shelf.tensor(f"network.{name}", tuple(value.shape), device, value.dtype)
            for name, value in outline.items()
        }
        network = build()
    network.load_state_dict(values)
    return network.to(device).eval()


def _calibration(
    header: FittedHeader, width: int, shelf: Shelf, device: torch.device
) -> Calibration:
    names = ("shift", "scale", "trust", "tail")
    shift, scale, trust, tail = (
        shelf.take(f"calibration.{name}", (header.outputs,)) for name in names
    )
    if not ((scale > 0).all() and (tail >= 0).all() and (tail < 0.5).all()):
        raise ArtifactError("its calibration has a scale or tails that no calibration has")
    with np.errstate(divide="ignore"):
        dof = 1.0 / tail
    scores = None
    if header.validation_rows:
        kept = len(ranks_kept(header.validation_rows))
        scores = shelf.take("calibration.scores", (kept, header.outputs))
    noise = None
    if header.noise_steps:
        rough = roughness_width(header.lag, header.features)
        with torch.device("meta"):
            noise = NoiseNet(width + rough + header.outputs, header.outputs)
        _fill(noise, "noise", shelf, device)
        noise.requires_grad_(False)
    return Calibration(
        shift=shift,
        scale=scale,
        trust=trust,
        dof=dof,
        noise=noise,
        steps=header.noise_steps,
        rows=header.validation_rows,
        scores=scores,
    )


def _scaler(name: str, shape: tuple[int, ...], shelf: Shelf) -> Standardizer:
    shift = shelf.take(f"{name}.shift", shape)
    return Standardizer(shift, shelf.take(f"{name}.scale", shape))


def _mean(header: FittedHeader, shelf: Shelf, device: torch.device) -> MeanFunction:
    if header.mean == "zero":
        return ZeroMean(header.outputs, device)
    k, outputs = header.lag * header.features, header.outputs
    shapes: dict[str, tuple[int, ...]] = {
        "centre": (k,),
        "weight": (k, outputs),
        "intercept": (outputs,),
        "vectors": (k, k),
        "axis_variance": (k, outputs),
        "intercept_variance": (outputs,),
    }
    names = [field.name for field in fields(LinearMean)]
    mean = LinearMean(*(shelf.tensor(f"mean.{name}", shapes[name], device) for name in names))
    if float(torch.minimum(mean.axis_variance.min(), mean.intercept_variance.min())) < 0.0:
        raise ArtifactError("its mean function has a negative variance")
    return mean


def _fill(module: nn.Module, prefix: str, shelf: Shelf, device: torch.device) -> None:
    """Set all parameters from the arrays named after them."""
    values = {
        name: shelf.tensor(f"{prefix}.{name}", tuple(parameter.shape), device, parameter.dtype)
        for name, parameter in module.named_parameters()
    }
    if any(parameter.is_meta for parameter in module.parameters()):
        module.to_empty(device=device)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(values[name])


def _device(wanted: str) -> torch.device:
    """The device of the fit where it is there too, else the CPU: a model outlives its machine."""
    if not torch.cuda.is_available() or not (wanted == "auto" or wanted.startswith("cuda")):
        return torch.device("cpu")
    try:
        device = torch.device("cuda" if wanted == "auto" else wanted)
    except RuntimeError as error:
        raise ArtifactError(f"the device {wanted!r:.50} is not known") from error
    there = device.index is None or device.index < torch.cuda.device_count()
    return device if there else torch.device("cuda")


def _read(path: Path) -> tuple[Any, Arrays]:
    """The model's header, and the arrays."""
    text, arrays = _text(path)
    with _explained(path):
        return json.loads(text)["model"], arrays


def _text(path: Path) -> tuple[str, Arrays]:
    text, arrays = read(path)
    if "checkpoint" in json.loads(text):
        raise ArtifactError(
            f"{path} is a checkpoint of a fit that has not ended, expected a model file: pass it as "
            "checkpoint to fit, with the same options and data, to go on"
        )
    return text, arrays


@contextmanager
def _explained(path: str | os.PathLike[str]) -> Iterator[None]:
    try:
        yield
    except _MISFITS as error:
        text = " ".join(str(error).split())[:500]
        raise ArtifactError(f"{path} is not a valid model file: {text}") from error
