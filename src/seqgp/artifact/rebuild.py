"""Estimators put together again from a header and arrays.

Every size that the header claims is compared with an array in the file before anything of that
size is made, so that a header alone cannot ask for more memory than its file has.
"""

from __future__ import annotations

import copy
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from seqgp.artifact.schema import Estimator, GPParams, NetParams, Training
from seqgp.artifact.shelf import Shelf
from seqgp.data import Standardizer
from seqgp.estimator import SequenceGP, SequenceNet
from seqgp.estimator.base import SequenceRegressor
from seqgp.estimator.options import check_options
from seqgp.exceptions import ArtifactError
from seqgp.gp import GP, Statistics
from seqgp.inference import GridStatistics, Rows
from seqgp.inference.grid import GridSpec
from seqgp.inference.grid.cost import MAX_DIM
from seqgp.means import LinearMean, MeanFunction, ZeroMean
from seqgp.roughness import roughness_width
from seqgp.training.noise import Calibration, NoiseShape, ranks_kept

__all__ = ["CLASSES", "assemble", "rebuild_estimator", "unfitted"]

CLASSES: dict[str, type[SequenceRegressor]] = {
    "SequenceGP": SequenceGP,
    "SequenceNet": SequenceNet,
}


def unfitted(params: GPParams | NetParams) -> SequenceRegressor:
    """The estimator with those arguments."""
    options = params.model_dump()
    model = CLASSES[options.pop("kind")](**options)
    check_options(options)
    return model


def rebuild_estimator(header: Estimator, shelf: Shelf) -> SequenceRegressor:
    """The fitted estimator, with its posterior, where it was fitted or else on the CPU."""
    model = assemble(header, shelf, _device(header.params.device))
    for one in model._all():
        one._condition()
    return model


def assemble(header: Estimator, shelf: Shelf, device: torch.device) -> SequenceRegressor:
    """The fitted estimator on the device, but for its posterior."""
    model = unfitted(header.params)
    model.window_shape_ = (header.lag, header.features)
    model.n_features_in_ = header.lag * header.features
    if header.feature_names is not None:
        model.feature_names_in_ = np.array(header.feature_names, dtype=object)
    model.n_rows_ = header.rows
    model.correlated_ = header.correlated
    model.x_scaler_ = _scaler("x_scaler", (header.features,), shelf)
    model.y_scaler_ = _scaler("y_scaler", () if header.vector else (header.outputs,), shelf)
    model.mean_function_ = _mean(header, shelf, device)
    model.others_, model.mixture_ = (), None
    others = [copy.copy(model) for _ in header.others]
    for k, (one, training) in enumerate(zip(others, header.others, strict=True)):
        own = shelf.under(f"others.{k}.")
        _trained(one, header, training, own, device)
        own.close()
    if others:
        if not isinstance(header.params, GPParams) or not header.validation_rows:
            raise ArtifactError("it has several trainings where there is only one")
        model.others_, model.mixture_ = tuple(others), _said("mixture", header, shelf)
    _trained(model, header, header, shelf, device)
    return model


def _trained(
    model: SequenceRegressor,
    header: Estimator,
    training: Training,
    shelf: Shelf,
    device: torch.device,
) -> None:
    """Make of ``model`` that training."""
    model.best_epoch_ = training.best_epoch
    model.history_ = _history(header, shelf)
    model.pretrained_epochs_, model.seed_ = training.pretrained_epochs, training.seed
    model.calibration_ = _calibration(header, training, shelf)
    model.statistics_ = _statistics(header, shelf, device)
    model.network_ = _network(model, header, shelf, device)
    model.noise_shape_ = _noise_shape(header, training, shelf, device)
    model.layer_ = model._new_layer(header.outputs, header.inference, header.grid_size)
    if isinstance(model.layer_, GP):
        model.layer_.to(device)
        _fill(model.layer_, "gp", shelf, device)


def _history(header: Estimator, shelf: Shelf) -> pd.DataFrame:
    columns = list(header.history)
    values = shelf.take("history", (None, len(columns)), finite=False)
    frame = pd.DataFrame(values.copy(), columns=columns)
    return frame.astype({"epoch": "int64"}) if "epoch" in columns else frame


def _calibration(header: Estimator, training: Training, shelf: Shelf) -> Calibration:
    said = _said("calibration", header, shelf)
    trust, slope, share, shift = (
        shelf.take(f"calibration.{name}", (header.outputs,))
        for name in ("trust", "slope", "share", "shift")
    )
    if not all(((part >= 0) & (part <= 1)).all() for part in (slope, share)):
        raise ArtifactError("its calibration has a slope or share that is not from 0 to 1")
    quieter = shelf.take("calibration.quieter", (header.outputs,)) if training.quieter else None
    if quieter is not None and not (quieter >= 1.0).all():
        raise ArtifactError("its calibration makes the signal louder, which no calibration does")
    return replace(
        said,
        trust=trust,
        slope=slope,
        share=share,
        shift=shift,
        steps=training.noise_steps,
        quieter=quieter,
    )


def _said(name: str, header: Estimator, shelf: Shelf) -> Calibration:
    """Size and tails of errors, and the errors themselves."""
    scale, tail = (shelf.take(f"{name}.{part}", (header.outputs,)) for part in ("scale", "tail"))
    if not ((scale > 0).all() and (tail >= 0).all() and (tail < 0.5).all()):
        raise ArtifactError("its calibration has a scale or tails that no calibration has")
    with np.errstate(divide="ignore"):
        dof = 1.0 / tail
    scores = None
    if header.validation_rows:
        kept = len(ranks_kept(header.validation_rows))
        scores = shelf.take(f"{name}.scores", (kept, header.outputs))
    none = Calibration.none(header.outputs)
    return replace(none, scale=scale, dof=dof, rows=header.validation_rows, scores=scores)


def _scaler(name: str, shape: tuple[int, ...], shelf: Shelf) -> Standardizer:
    shift = shelf.take(f"{name}.shift", shape)
    return Standardizer(shift, shelf.take(f"{name}.scale", shape))


def _mean(header: Estimator, shelf: Shelf, device: torch.device) -> MeanFunction:
    if header.params.mean == "zero":
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
    return LinearMean(*(shelf.tensor(f"mean.{name}", shapes[name], device) for name in names))


def _statistics(header: Estimator, shelf: Shelf, device: torch.device) -> Any:
    def take(name: str, *shape: int) -> Tensor:
        return shelf.tensor(f"statistics.{name}", shape, device)

    n, outputs = header.rows, header.outputs
    if not isinstance(header.params, GPParams):
        if header.inference != "readout":
            raise ArtifactError(f"a {header.params.kind} has no {header.inference} inference")
        return take("noise", outputs), n
    d = header.params.latent_dim
    if header.inference == "exact":
        return Statistics(Rows(take("H", n, d), take("y", n, outputs)), squeeze=False)
    if header.inference != "grid" or header.grid_size is None or d > MAX_DIM:
        raise ArtifactError(
            f"{header.inference} inference with grid_size={header.grid_size} in {d} dimensions does "
            "not exist"
        )
    spec = GridSpec(d, header.grid_size)
    nodes = take("nodes", *(spec.nodes,) * d)
    b = take("b", outputs, *(spec.size,) * d)
    return Statistics(
        GridStatistics(spec, nodes, b, take("yy", outputs, outputs), n), squeeze=False
    )


def _width(header: Estimator) -> int:
    """Features that the encoder gives."""
    window = header.lag * header.features if header.params.skip else 0
    return header.params.hidden + window


def _noise_shape(
    header: Estimator, training: Training, shelf: Shelf, device: torch.device
) -> NoiseShape | None:
    if not training.noise_steps:
        return None
    with torch.device("meta"):
        rough = roughness_width(header.lag, header.features)
        inputs = _width(header) + rough + header.outputs
        shape = NoiseShape(inputs, header.outputs)
    _fill(shape, "noise", shelf, device)
    return shape


def _network(
    model: SequenceRegressor, header: Estimator, shelf: Shelf, device: torch.device
) -> nn.Sequential:
    """The network, whose weights have no memory of their own before the arrays are seen to fit."""
    if header.params.layers > len(shelf):
        raise ArtifactError(f"there are not enough arrays for {header.params.layers} layers")
    with torch.device("meta"):
        encoder = model._new_encoder(header.lag, header.features)
        network = nn.Sequential(encoder, model._new_head(_width(header), header.outputs))
    _fill(network, "network", shelf, device)
    return network


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
