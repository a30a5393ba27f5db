"""Columns of a frame as numbers and times, with errors that name the column, the value and the row."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

__all__ = ["no_such_column", "read_columns", "read_times"]

Array = NDArray[np.float64]


def read_columns(df: pd.DataFrame, names: Sequence[str], optional: Collection[str] = ()) -> Array:
    """Columns ``(n, len(names))`` as float64, missing values as NaN.

    Args:
        df: the frame.
        names: its columns to read.
        optional: those of them that may be absent; all their values are missing then.

    Raises:
        ValueError: a column is absent, or a value in it is no finite number.
    """
    values = np.full((len(df), len(names)), np.nan)
    for j, name in enumerate(names):
        if name in df.columns:
            values[:, j] = _numbers(df[name], name)
        elif name not in optional:
            raise no_such_column(name, df.columns, "column")
    return values


def read_times(df: pd.DataFrame, time: str | None) -> pd.Index:
    """Times of the rows ``(n,)``: dates or whole numbers, strictly increasing.

    Args:
        df: the frame.
        time: its column of times, or the name of its index. With None, the index is used if it holds
            dates or whole numbers, and otherwise the rows are numbered from 0.

    Raises:
        ValueError: there are no rows or no such column, a value is no time, or times are not sorted.
    """
    if len(df) == 0:
        raise ValueError("the data has no rows: give at least one")
    if time is not None and time in df.columns:
        times = _parsed(df[time], f"time column {time!r}")
    elif time is not None and df.index.name != time:
        raise no_such_column(time, df.columns, "time column")
    elif isinstance(df.index, pd.PeriodIndex):
        times = df.index.to_timestamp()
    elif time is not None or isinstance(df.index, pd.DatetimeIndex):
        times = _parsed(df.index.to_series(), "the index")
    elif types.is_integer_dtype(df.index.dtype):
        times = df.index
    else:
        times = pd.RangeIndex(len(df))
    twice = times.duplicated()
    if twice.any():
        i = int(np.flatnonzero(twice)[0])
        raise ValueError(
            f"time {times[i]} appears twice, the second time in data row {i + 1}: keep one row for "
            "each time (several series need a column each)"
        )
    if not times.is_monotonic_increasing:
        i = int(np.flatnonzero(times[1:] < times[:-1])[0]) + 1
        raise ValueError(
            f"times are not sorted: {times[i]} in data row {i + 1} comes after {times[i - 1]}. "
            "Sort the rows by time"
        )
    return times.rename(df.index.name if time is None else time)


def no_such_column(name: str, columns: Iterable[Any], what: str) -> ValueError:
    """The error for a missing column: what the frame has, and the most similar name.

    Args:
        name: the column asked for.
        columns: those of the frame.
        what: what kind of column it is, for the message.
    """
    there = [str(column) for column in columns]
    near = difflib.get_close_matches(name, there, n=1)
    listed = ", ".join(there[:20]) + (f", and {len(there) - 20} more" if len(there) > 20 else "")
    return ValueError(
        f"no {what} {name!r} in the data"
        + (f" (did you mean {near[0]!r}?)" if near else "")
        + f": it has {listed or 'no columns'}"
    )


def _numbers(column: pd.Series[Any] | pd.DataFrame, name: str) -> Array:
    if isinstance(column, pd.DataFrame):
        raise ValueError(f"column {name!r} appears {column.shape[1]} times in the data: keep one")
    if types.is_datetime64_any_dtype(column.dtype) or types.is_complex_dtype(column.dtype):
        raise ValueError(
            f"column {name!r} holds {column.dtype} values, expected numbers: leave it out, or name it as "
            "the time column if it is one"
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


def _parsed(values: pd.Series[Any], what: str) -> pd.Index:
    if types.is_integer_dtype(values.dtype):
        whole: pd.Index = pd.Index(values.to_numpy(np.int64))
        return whole
    if types.is_numeric_dtype(values.dtype):
        raise ValueError(
            f"{what} holds {values.dtype} numbers, expected dates or whole numbers without gaps: give "
            "dates, or name no time column, and the rows are numbered"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # pandas' remarks on formats; checked below
        try:
            parsed = pd.to_datetime(values, errors="coerce")
        except ValueError:  # offsets from UTC that change, as with summer time
            parsed = pd.to_datetime(values, errors="coerce", utc=True)
    bad = parsed.isna().to_numpy()
    if bad.any():
        i = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"{what} has {values.iloc[i]!r} in data row {i + 1}, expected a date: write all times in one "
            "format such as 2024-01-31 13:00"
        )
    return pd.DatetimeIndex(parsed)
