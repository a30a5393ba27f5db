"""Checks of series, and of windows and targets as arrays."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "as_finite",
    "as_series",
    "as_targets",
    "as_windows",
    "check_alike",
    "check_finite",
    "check_int",
]

Array = NDArray[Any]


def check_int(name: str, value: Any, least: int) -> int:
    """The value as an int, refused when it is no integer or below ``least``."""
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} is {value!r}; expected an integer >= {least}.") from None
    if isinstance(value, bool | np.bool_) or number < least:
        raise ValueError(f"{name} is {value!r}; expected an integer >= {least}.")
    return number


def as_series(name: str, values: Any, dtype: np.dtype[Any]) -> list[Array]:
    """A list of checked ``(N,)`` or ``(N, k)`` arrays from one array or several."""
    several = isinstance(values, list | tuple)
    items = list(values) if several else [values]
    if not items:
        raise ValueError(f"{name} is an empty list; expected at least one series.")
    series = []
    for k, item in enumerate(items):
        label = f"{name} of series {k}" if several else name
        array = np.asarray(item)
        if array.ndim not in (1, 2) or 0 in array.shape[1:]:
            hint = (
                "A list means several series; make one series an array with np.asarray."
                if several and array.ndim == 0
                else "Pass the series itself, time first: WindowSet cuts the windows."
            )
            raise ValueError(f"{label} has shape {array.shape}; expected (N,) or (N, k). {hint}")
        series.append(as_finite(label, array, dtype))
    shapes = {array.shape[1:] for array in series}
    if len(shapes) > 1:
        raise ValueError(
            f"{name} has series of different widths: {[array.shape for array in series]}; "
            "expected the same columns in every series."
        )
    return series


def as_finite(label: str, array: Array, dtype: np.dtype[Any]) -> Array:
    """The array as ``dtype``, refused when it is not numbers or not finite."""
    if array.dtype.kind not in "biufO":
        raise ValueError(
            f"{label} has dtype {array.dtype}; expected numbers. Encode or drop such columns."
        )
    try:
        with np.errstate(over="ignore"):  # what overflows becomes inf, and is reported below
            numbers = array.astype(dtype, copy=False)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{label} has entries that are not numbers ({error}); expected numbers. "
            "Encode or drop such columns."
        ) from None
    bad = ~np.isfinite(numbers)
    if bad.any():
        nan = int(np.isnan(numbers).sum())
        first = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"{label} has {nan} NaN and {int(bad.sum()) - nan} infinite values as {dtype}, the "
            f"first at row {first[0]}{f', column {first[1]}' if len(first) > 1 else ''}; expected "
            "finite numbers. Fill the gaps, or cut the series there and pass the pieces as a list."
        )
    return numbers


def check_alike(x_list: list[Array] | None, y_list: list[Array]) -> None:
    """Refuse inputs and targets that differ in their number of series or of rows."""
    if x_list is None:
        return
    if len(x_list) != len(y_list):
        raise ValueError(
            f"inputs has {len(x_list)} series and targets has {len(y_list)}; expected one target "
            "series for each input series."
        )
    for k, (x, y) in enumerate(zip(x_list, y_list, strict=True)):
        if len(x) != len(y):
            raise ValueError(
                f"series {k} has {len(x)} input rows and {len(y)} target rows; expected the same "
                "number. Align the two in time first."
            )


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
