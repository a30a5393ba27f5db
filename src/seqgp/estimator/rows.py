"""Windows and targets as they come, checked; and as training has them, on a device."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data
from torch import Tensor

from seqgp.data import Standardizer, TensorWindows, WindowSet
from seqgp.data.arrays import as_targets, as_windows

__all__ = ["pair_of", "part_of", "rows_of", "windows_on"]

Array = NDArray[np.float64]


def rows_of(
    model: Any, X: Any, y: Any, reset: bool, targets: bool = True
) -> tuple[Array | WindowSet, Array]:
    """Checked windows and targets; the shape of a window is learnt on ``reset``, else compared."""
    windows: Array | WindowSet
    if isinstance(X, WindowSet):
        windows, y = X, X.y if y is None else y
        if reset:
            model.n_features_in_ = X.lag * X.features
    else:
        lag = model.lag if reset or model.lag is not None else model.window_shape_[0]
        X = np.asarray(X) if isinstance(X, list | tuple) else X
        if getattr(X, "ndim", 2) == 3:
            n, steps, _ = X.shape
            if model.lag not in {None, steps}:
                raise ValueError(
                    f"X has windows of {steps} steps, but lag={model.lag}: leave lag out for "
                    "three-dimensional X, or set it to the windows' length"
                )
            X, lag = np.reshape(X, (n, -1)), steps
        elif getattr(X, "ndim", 2) > 3:
            raise ValueError(
                f"X has shape {X.shape}, expected (n, T, p), or (n, T*p) with lag=T: "
                "reshape it to one window per row"
            )
        # Finiteness is checked by as_windows, whose message says where and what to do.
        try:
            flat = validate_data(model, X, reset=reset, dtype=np.float64, ensure_all_finite=False)
        except ValueError as error:
            if "convert" not in str(error):
                raise
            raise ValueError(
                f"X is not numeric ({error}): pass numbers; encode text or dates first"
            ) from error
        windows = as_windows(flat, lag)
    shape = tuple(windows.shape[1:])
    if reset:
        model.window_shape_ = shape
    elif shape != model.window_shape_:
        raise ValueError(
            f"X has windows of shape {shape} (steps, features), expected {model.window_shape_} as "
            "in fit: cut them with the same lag and columns"
        )
    return windows, as_targets(y, len(windows)) if targets else np.empty(0)


def pair_of(validation: Any) -> tuple[Any, Any]:
    """Windows and targets of validation rows, given as a pair or as a WindowSet."""
    if isinstance(validation, WindowSet):
        return validation, None
    try:
        X, y = validation
    except (TypeError, ValueError):
        raise ValueError(
            "validation must be a pair (X, y) or a WindowSet with its own targets"
        ) from None
    return X, y


def windows_on(
    device: torch.device, windows: Array | WindowSet, scaler: Standardizer
) -> Tensor | TensorWindows:
    """Standardised float32 windows on the device; a WindowSet stays a view there."""
    if isinstance(windows, WindowSet):
        return windows.map_features(scaler.transform).tensor(torch.float32, device)
    return torch.as_tensor(scaler.transform(windows), dtype=torch.float32, device=device)


def part_of(windows: Tensor | TensorWindows, rows: Tensor) -> Tensor | TensorWindows:
    """Some of the rows, without materialising what is a view."""
    return windows[rows] if isinstance(windows, Tensor) else windows.subset(rows)
