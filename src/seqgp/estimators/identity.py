"""What makes a fit the fit it is: if all of this is the same, so are its numbers."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from torch import nn

from seqgp._version import __version__
from seqgp.data import WindowSet

__all__ = ["identity"]

_UNSEEN = ("device", "progress")  # the device is told as it was resolved; a bar changes no number


def identity(
    estimator: BaseEstimator,
    device: torch.device,
    rows: dict[str, NDArray[Any] | WindowSet],
) -> dict[str, str]:
    """Options, data (all of it, by digest), device and versions, each as a short text.

    Args:
        estimator: whose options they are.
        device: as it was resolved.
        rows: windows and targets by name.
    """
    return {
        "estimator": type(estimator).__name__,
        **_options(estimator),
        **{name: f"{tuple(values.shape)} #{_data(values)}" for name, values in rows.items()},
        "device": device.type,
        "seqgp": __version__,
        "torch": torch.__version__,
    }


def _options(owner: Any) -> dict[str, str]:
    """Options by name, those of options that are objects by nested names."""
    found: dict[str, str] = {}
    for name, value in owner.get_params(deep=False).items():
        if name in _UNSEEN:
            continue
        if hasattr(value, "get_params"):
            nested = _options(value)
            found[name] = type(value).__name__
            found |= {f"{name}__{own}": text for own, text in nested.items()}
        else:
            found[name] = _option(value)
    return found


def _option(value: Any) -> str:
    if isinstance(value, nn.Module):
        state = {name: each.cpu().numpy() for name, each in value.state_dict().items()}
        digest = _digest(str(value).encode(), *(part for each in state.items() for part in each))
        return f"{type(value).__name__} #{digest}"
    if isinstance(value, np.random.RandomState):
        return "RandomState"  # drawn from once, for the seed, which the checkpoint has
    return repr(value.item() if isinstance(value, np.generic) else value)


def _data(values: NDArray[Any] | WindowSet) -> str:
    if isinstance(values, WindowSet):
        return _digest(values.series, values.starts)
    return _digest(values)


def _digest(*parts: NDArray[Any] | str | bytes) -> str:
    found = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            found.update(f"{part.dtype}{part.shape}".encode())
            found.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
        else:
            found.update(part.encode() if isinstance(part, str) else part)
    return found.hexdigest()[:16]
