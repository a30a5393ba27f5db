"""Estimators put together again from a header and arrays.

Every size that a header claims is compared with an array before it is believed, so that a header alone
cannot ask for more memory than its file has.
"""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from seqgp.blueprint import Blueprint
from seqgp.calibration import Calibration, NoiseNet, ranks_kept, roughness_width
from seqgp.data import Standardizer
from seqgp.encoders import ENCODERS, Network
from seqgp.estimators import SequenceGP, SequenceNet
from seqgp.exceptions import ArtifactError
from seqgp.fitted import Fitted, Member, Record
from seqgp.gp import GP, GPS, Statistics
from seqgp.io import arguments, from_json
from seqgp.io.shelf import Shelf
from seqgp.likelihoods import LIKELIHOODS
from seqgp.means import MEANS, LinearMean, MeanFunction, ZeroMean
from seqgp.registry import Registry
from seqgp.saving import EstimatorHeader, FittedHeader, MemberHeader
from seqgp.training import Residual, Training

__all__ = ["restored_estimator", "restored_fitted", "unfitted"]

_ESTIMATORS: dict[str, type[SequenceGP] | type[SequenceNet]] = {
    "SequenceGP": SequenceGP,
    "SequenceNet": SequenceNet,
}
_REGISTRIES: dict[str, Registry[Any]] = {
    "encoder": ENCODERS,
    "gp": GPS,
    "likelihood": LIKELIHOODS,
}


def restored_estimator(header: Any, shelf: Shelf) -> SequenceGP | SequenceNet:
    """A fitted estimator.

    Args:
        header: of the estimator.
        shelf: the arrays.
    """
    found = from_json(EstimatorHeader, header, "estimator")
    fitted, names = found.fitted, found.feature_names
    model = unfitted(found.kind, found.options, shelf.numbers)
    model.fitted_ = restored_fitted(fitted, shelf, _device(str(model.device)))
    if (model.fitted_.blueprint.gp is None) != isinstance(model, SequenceNet):
        raise ArtifactError(f"what was fitted is not what a {found.kind} trains")
    model.window_shape_ = (fitted.lag, fitted.features)
    model.n_features_in_ = fitted.lag * fitted.features
    if names is not None:
        model.feature_names_in_ = np.array(names, dtype=object)
    return model


def unfitted(kind: str, header: Any, numbers: int) -> SequenceGP | SequenceNet:
    """An estimator with its options.

    Args:
        kind: name of its class.
        header: its options.
        numbers: in the file's arrays, which no option may ask for more than.
    """
    if kind not in _ESTIMATORS:
        raise ArtifactError(f"in its header, {kind!r:.100} is no estimator")
    cls = _ESTIMATORS[kind]
    options = {name: _option(value, name, numbers) for name, value in header.items()}
    model = cls(**arguments(cls, options, kind))
    model.blueprint()  # refuses options that are out of range
    return model


def restored_fitted(header: FittedHeader, shelf: Shelf, device: torch.device) -> Fitted:
    """A fitted model with its posteriors.

    Args:
        header: of the model.
        shelf: the arrays.
        device: where it is to be.
    """
    numbers = shelf.numbers
    data = {name: _option(value, name, numbers) for name, value in header.blueprint.items()}
    blueprint = from_json(Blueprint, data, "blueprint")
    if blueprint.mean not in MEANS or blueprint.members < 1:
        raise ArtifactError("it was fitted with options that are out of range")
    if blueprint.gp is not None and blueprint.gp.latent_dim * header.outputs > numbers:
        raise ArtifactError("its GP is larger than the file")
    x_scaler = _scaler("x_scaler", (header.features,), shelf)
    y_scaler = _scaler("y_scaler", () if header.vector else (header.outputs,), shelf)
    mean = _mean(blueprint.mean, header, shelf, device)
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


def _option(value: Any, name: str, numbers: int) -> Any:
    """An option as :func:`seqgp.saving.option_header` wrote it.

    A GP and a likelihood have parameters as soon as they are made, at most as many as the product of their
    sizes, which is compared with the ``numbers`` in the file; encoders have theirs when they are built.
    """
    if not isinstance(value, dict):
        return value
    if set(value) == {"training"}:
        found = from_json(Training, value["training"], name)
        found.check()
        return found
    for kind, registry in _REGISTRIES.items():
        if set(value) == {kind, "options"}:
            cls: Any = registry[value[kind]]
            given: dict[str, Any] = value["options"]
            sizes = [v for k, v in given.items() if type(v) is int and v > 1 and k != "grid_size"]
            if kind != "encoder" and math.prod(sizes) > numbers:
                raise ArtifactError(f"{name} asks for more numbers than the file has")
            options = {key: _option(each, key, numbers) for key, each in given.items()}
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
    if columns:
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
        if header.inference == "auto" or inference.size(d) != header.grid_size:
            raise ArtifactError(f"{header.inference} inference has no grid of {header.grid_size}")
        statistics = inference.from_arrays(take, header.rows, d, header.outputs)
        return Member.restored(network, layer, Statistics(inference, statistics), record)
    if header.inference != "plain" or header.grid_size is not None:
        raise ArtifactError(f"a plain network has no {header.inference!r:.100} inference")
    variance = take("variance", (header.outputs,))
    if not bool((variance > 0).all()):
        raise ArtifactError("its residual variance is not positive")
    return Member.restored(network, layer, Residual(variance, header.rows), record)


def _network(
    blueprint: Blueprint, header: FittedHeader, shelf: Shelf, device: torch.device
) -> Network:
    """The network; its weights have no memory of their own before the arrays are seen to fit."""
    layers = getattr(blueprint.encoder, "layers", 1)
    if isinstance(layers, int) and layers > len(shelf):
        raise ArtifactError(f"there are not enough arrays for {layers} layers")
    ends = "readout.weight" if blueprint.gp is None else "head.linear.weight"
    width = shelf.shape(f"network.{ends}")[-1]

    def build() -> Network:
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
        if not bool((noise.unit > 0).all()):
            raise ArtifactError("its noise network has a unit that is not positive")
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


def _mean(name: str, header: FittedHeader, shelf: Shelf, device: torch.device) -> MeanFunction:
    if name == "zero":
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
