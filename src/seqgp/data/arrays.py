"""Arrays of windows and targets as a scikit-learn user passes them, checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["as_targets", "as_windows", "check_finite"]

Array = NDArray[Any]


def as_windows(X: Array, lag: int | None) -> Array:
    """``(n, T, p)`` from flattened ``(n, T p)``, time first, by ``lag = T`` (none: ``p = 1``)."""
    steps = X.shape[1] if lag is None else lag
    if X.shape[1] % steps:
        raise ValueError(
            f"X has {X.shape[1]} columns, which lag={lag} does not divide: a flattened window "
            "has lag * p columns, time first"
        )
    check_finite("X", X)
    return X.reshape(len(X), steps, -1)


def as_targets(y: Any, n: int) -> Array:
    """Finite float64 targets ``(n,)`` or ``(n, outputs)`` that vary."""
    if y is None:
        raise ValueError(
            "fit requires y to be passed, but the target y is None: pass one target per window"
        )
    try:
        targets = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"y is not numeric ({error}): pass numbers, one row per window") from error
    if targets.ndim not in {1, 2}:
        raise ValueError(f"y has shape {targets.shape}, expected ({n},) or ({n}, outputs)")
    if len(targets) != n:
        raise ValueError(
            f"inconsistent lengths: X has {n} windows and y has {len(targets)} rows, expected as "
            "many of one as of the other. Cut both from the same rows"
        )
    check_finite("y", targets)
    return targets


def check_finite(name: str, values: Array) -> None:
    """Refuse NaN and infinity with their number and the first row that has one."""
    bad = ~np.isfinite(values)
    if bad.any():
        first = int(np.argwhere(bad)[0][0])
        kind = "NaN" if np.isnan(values).any() else "infinity (inf)"
        raise ValueError(
            f"Input {name} contains {kind}: {int(bad.sum())} of {values.size} values are not finite, "
            f"the first in row {first}, expected none. Drop those rows, or fill the gaps first"
        )
