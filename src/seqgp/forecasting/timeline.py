"""Times of rows: read from a frame, checked, and placed on a regular grid.

A step is a pandas offset (``"h"``, ``"MS"``) where rows have dates, and a whole number where they
have row numbers.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types
from pandas.tseries.frequencies import to_offset

from seqgp.forecasting.columns import no_such_column

__all__ = ["as_step", "ending", "following", "infer_step", "place", "read_times", "starting"]

Step = str | int
Positions = NDArray[np.int64]

# Steps of uneven length, tried on rows a day or more apart; D is uneven where clocks change.
_CALENDAR_STEPS = ("D", "B", "W", "MS", "ME", "QS", "QE", "YS", "YE")
_DAY = 23 * 3600 * 10**9  # the shortest day there is, in nanoseconds
# A row far from the others (a mistyped year) must not fill the memory with missing rows.
_SPARSE_ROWS, _SPARSE_RATIO = 10_000, 50


def read_times(df: pd.DataFrame, time: str | None) -> pd.Index:
    """Increasing dates or whole numbers ``(n,)`` of the rows, one each.

    They are the column ``time``, else the index where that holds dates or whole numbers, else
    the rows' positions.
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
            f"time {times[i]} stands twice, the second time in data row {i + 1}: keep one row for "
            "each time (several series side by side need a column each)"
        )
    if not times.is_monotonic_increasing:
        i = int(np.flatnonzero(times[1:] < times[:-1])[0]) + 1
        raise ValueError(
            f"times are not sorted: {times[i]} in data row {i + 1} comes after {times[i - 1]}. "
            "Sort the rows by time"
        )
    return times


def _parsed(values: pd.Series[Any], what: str) -> pd.Index:
    if types.is_integer_dtype(values.dtype):
        whole: pd.Index = pd.Index(values.to_numpy(np.int64))
        return whole
    if types.is_numeric_dtype(values.dtype):
        raise ValueError(
            f"{what} holds {values.dtype} numbers, expected dates or whole numbers without gaps: give "
            "dates, or leave the time column out and rows are counted"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # pandas' remarks on formats; we check below
        try:
            parsed = pd.to_datetime(values, errors="coerce")
        except ValueError:  # offsets from UTC that change, as with summer time
            parsed = pd.to_datetime(values, errors="coerce", utc=True)
    bad = parsed.isna().to_numpy()
    if bad.any():
        i = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"{what} has {values.iloc[i]!r} in data row {i + 1}, expected a date: write all times in one "
            "form such as 2024-01-31 13:00"
        )
    return pd.DatetimeIndex(parsed)


def as_step(frequency: str) -> str:
    """The pandas offset's own spelling."""
    try:
        return str(to_offset(frequency).freqstr)
    except ValueError:
        raise ValueError(
            f"frequency={frequency!r} is not known: use a pandas offset such as 'h', '15min', 'D' or 'MS'"
        ) from None


def infer_step(times: pd.Index) -> Step:
    """The most common step; a calendar step (months, working days) where all rows follow one."""
    if len(times) < 2:
        raise ValueError(
            f"the data has {len(times)} row, expected at least 2 to tell the time step"
        )
    if not isinstance(times, pd.DatetimeIndex):
        numbers: NDArray[np.int64] = times.to_numpy(np.int64)
        return _most_common(numbers[1:] - numbers[:-1])
    ticks: NDArray[np.int64] = times.as_unit("ns").asi8
    gaps = ticks[1:] - ticks[:-1]
    if gaps.min() != gaps.max() and gaps.min() >= _DAY:
        for name in _CALENDAR_STEPS:
            if pd.date_range(times[0], times[-1], freq=name).equals(times):
                return name
    step = pd.Timedelta(_most_common(gaps), unit="ns")
    if times.tz is None and step % pd.Timedelta(days=1) == pd.Timedelta(0):
        return as_step(f"{step.days}D")
    return str(to_offset(step).freqstr)


def place(times: pd.Index, step: Step, origin: Any = None) -> Positions:
    """Steps from ``origin`` (else from the first) to each of ``times``, ``(n,)``."""
    start = times[0] if origin is None else origin
    fixed = _fixed(step, times)
    if fixed is None:
        grid = pd.date_range(start, times[-1], freq=to_offset(str(step)))
        positions = grid.get_indexer(times).astype(np.int64)
        off = positions < 0
    else:
        if isinstance(times, pd.DatetimeIndex):
            away = (times - start).as_unit("ns").asi8
        else:
            away = times.to_numpy(np.int64) - start
        positions, rest = np.divmod(away, fixed)
        off = rest != 0
    if off.any():
        i = int(np.flatnonzero(off)[0])
        before = times[i - 1] if i else start
        raise ValueError(
            f"time {times[i]} in data row {i + 1} (after {before}) is not on the grid of step {step}: "
            "resample the data to one frequency, or set frequency to the one it has"
        )
    if len(times) >= 3 and (usual := _most_common(positions[1:] - positions[:-1])) != 1:
        raise ValueError(
            f"rows are mostly {usual} steps of {step} apart, expected one step of {step} (the frequency "
            "given, or that of the data at fit): resample to it, or fit on data like this"
        )
    length = int(positions[-1]) + 1
    if length > _SPARSE_RATIO * len(times) + _SPARSE_ROWS:
        raise ValueError(
            f"{len(times)} rows from {start} to {times[-1]} cover {length} steps of {step}, "
            "nearly all of them missing: check the first and last times, or set frequency"
        )
    return positions


def starting(start: Any, step: Step, n: int) -> pd.Index:
    """The ``n`` times of the grid from ``start`` on."""
    if isinstance(step, int):
        return pd.RangeIndex(int(start), int(start) + step * n, step)
    return pd.date_range(start, periods=n, freq=to_offset(step))


def following(start: Any, step: Step, n: int) -> pd.Index:
    """The ``n`` times of the grid after ``start``."""
    return starting(start, step, n + 1)[1:]


def ending(end: Any, step: Step, n: int) -> pd.Index:
    """The ``n`` times of the grid up to ``end``."""
    if isinstance(step, int):
        return pd.RangeIndex(int(end) - step * (n - 1), int(end) + step, step)
    return pd.date_range(end=end, periods=n, freq=to_offset(step))


def _fixed(step: Step, times: pd.Index) -> int | None:
    """The step as nanoseconds (or as it is, for row numbers); None where its length varies."""
    if isinstance(step, int) and not isinstance(times, pd.DatetimeIndex):
        return step
    if isinstance(step, int) or not isinstance(times, pd.DatetimeIndex):
        got, wanted = ("numbers", "dates") if isinstance(step, str) else ("dates", "numbers")
        raise ValueError(
            f"the rows have {got}, and a step of {step} is for {wanted}: name the time column, or give an "
            "index of dates (without dates, leave frequency out)"
        )
    offset = to_offset(step)
    if isinstance(offset, pd.offsets.Day) and times.tz is None:
        return int(pd.Timedelta(days=offset.n).as_unit("ns").value)
    return int(offset.nanos) if isinstance(offset, pd.offsets.Tick) else None


def _most_common(values: NDArray[np.int64]) -> int:
    found, counts = np.unique(values, return_counts=True)
    return int(found[np.argmax(counts)])
