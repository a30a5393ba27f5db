"""Checks of series ``(N,)`` or ``(N, k)`` before windows are cut from them."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["as_finite", "as_series", "check_alike", "check_int"]

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
