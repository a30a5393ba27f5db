"""Windows and targets as a scikit-learn user passes them, checked against the fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from seqgp.data import WindowSet
from seqgp.data.checks import as_targets, as_windows

__all__ = ["as_pair", "checked_targets", "checked_windows"]

Array = NDArray[np.float64]


def checked_windows(
    estimator: BaseEstimator, X: Any, lag: int | None, window: tuple[int, int] | None
) -> Array | WindowSet:
    """Windows ``(n, T, p)``; in ``fit`` scikit-learn also keeps the names of columns.

    Args:
        estimator: on which scikit-learn keeps ``n_features_in_`` and ``feature_names_in_``.
        X: ``(n, T, p)``, flattened ``(n, T p)``, or a WindowSet.
        lag: T, for flattened windows.
        window: shape ``(T, p)`` of the windows in ``fit``, or None in ``fit`` itself.
    """
    windows: Array | WindowSet
    if isinstance(X, WindowSet):
        windows = X
        if window is None:
            estimator.n_features_in_ = X.lag * X.features
    else:
        steps = lag if window is None or lag is not None else window[0]
        X = np.asarray(X) if isinstance(X, list | tuple) else X
        if getattr(X, "ndim", 2) == 3:
            n, T, _ = X.shape
            if lag not in {None, T}:
                raise ValueError(
                    f"X has windows of {T} steps, but lag={lag}: leave lag out for "
                    "three-dimensional X, or set it to the windows' length"
                )
            X, steps = np.reshape(X, (n, -1)), T
        elif getattr(X, "ndim", 2) > 3:
            raise ValueError(
                f"X has shape {X.shape}, expected (n, T, p), or (n, T*p) with lag=T: "
                "reshape it to one window per row"
            )
        # Finiteness is checked by as_windows, whose message says where and what to do.
        try:
            flat = validate_data(
                estimator, X, reset=window is None, dtype=np.float64, ensure_all_finite=False
            )
        except ValueError as error:
            if "convert" not in str(error):
                raise
            raise ValueError(
                f"X is not numeric ({error}): pass numbers; encode text or dates first"
            ) from error
        windows = as_windows(flat, steps)
    shape = tuple(windows.shape[1:])
    if window is not None and shape != window:
        raise ValueError(
            f"X has windows of shape {shape} (steps, features), expected {window} as "
            "in fit: cut them with the same lag and columns"
        )
    return windows


def checked_targets(X: Any, y: Any, n: int, shape: tuple[int, ...] | None = None) -> Array:
    """Targets ``(n,)`` or ``(n, outputs)``; a WindowSet brings its own.

    Args:
        X: windows as they were passed.
        y: targets as they were passed, or None.
        n: number of windows.
        shape: of a row's targets in ``fit``, to compare with.
    """
    targets = as_targets(X.y if isinstance(X, WindowSet) and y is None else y, n)
    if shape is not None and targets.shape[1:] != shape:
        raise ValueError(
            f"y has shape {targets.shape}, expected (n, {', '.join(map(str, shape))}) as in fit"
        )
    return targets


def as_pair(validation: Any) -> tuple[Any, Any]:
    """Windows and targets of a validation set, given as a pair or as a WindowSet."""
    if isinstance(validation, WindowSet):
        return validation, None
    try:
        X, y = validation
    except (TypeError, ValueError):
        raise ValueError(
            "validation must be a pair (X, y) or a WindowSet with its own targets"
        ) from None
    return X, y
