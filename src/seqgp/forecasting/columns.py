"""Columns of a frame as numbers, with errors that name the column, the value and the row."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

__all__ = ["no_such_column", "read_columns"]

Array = NDArray[np.float64]


def read_columns(df: pd.DataFrame, names: Sequence[str], optional: Collection[str] = ()) -> Array:
    """Columns ``(n, len(names))`` as float64, missing values as NaN.

    A column of ``optional`` that is not there is all missing.
    """
    values = np.full((len(df), len(names)), np.nan)
    for j, name in enumerate(names):
        if name in df.columns:
            values[:, j] = _numbers(df[name], name)
        elif name not in optional:
            raise no_such_column(name, df.columns, "column")
    return values


def no_such_column(name: str, columns: Iterable[Any], what: str) -> ValueError:
    """The error for a column that is not there: what there is, and the nearest name."""
    there = [str(column) for column in columns]
    near = difflib.get_close_matches(name, there, n=1)
    listed = ", ".join(there[:20]) + (f", and {len(there) - 20} more" if len(there) > 20 else "")
    return ValueError(
        f"no {what} {name!r} in the data"
        + (f" (did you mean {near[0]!r}?)" if near else "")
        + f": it has {listed or 'no columns'}"
    )


def _numbers(column: Any, name: str) -> Array:
    if isinstance(column, pd.DataFrame):
        raise ValueError(f"column {name!r} stands {column.shape[1]} times in the data: keep one")
    if types.is_datetime64_any_dtype(column.dtype) or types.is_complex_dtype(column.dtype):
        raise ValueError(
            f"column {name!r} holds {column.dtype} values, expected numbers: leave it out, or name it as "
            "the time column if it is that"
        )
    if types.is_numeric_dtype(column.dtype):
        numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        parsed = pd.to_numeric(column, errors="coerce").to_numpy(np.float64, na_value=np.nan)
        empty = column.isna().to_numpy() | (column.astype(str).str.strip() == "").to_numpy()
        bad = np.isnan(parsed) & ~empty
        if bad.any():
            i = int(np.flatnonzero(bad)[0])
            raise ValueError(
                f"column {name!r} has {str(column.iloc[i])!r} in data row {i + 1} "
                f"({int(bad.sum())} such values), expected numbers: correct them, leave them empty "
                "if they are missing, or leave the column out"
            )
        numbers = parsed
    if np.isinf(numbers).any():
        i = int(np.flatnonzero(np.isinf(numbers))[0])
        raise ValueError(
            f"column {name!r} has an infinite value in data row {i + 1}: correct it, or leave it empty "
            "if it is missing"
        )
    return np.asarray(numbers, dtype=np.float64)
