"""The time axis: the regular grid that times lie on, and calendar features.

The step of a grid is a pandas offset (``"h"``, ``"MS"``) where rows have dates, and a whole number
where they have row numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.tseries.frequencies import to_offset

__all__ = [
    "CYCLES",
    "Step",
    "as_dates",
    "as_step",
    "calendar_features",
    "calendar_names",
    "infer_step",
    "place",
    "time_grid",
]

Array = NDArray[np.float64]
Positions = NDArray[np.int64]
Step = str | int

CYCLES = ("hour", "weekday", "yearday")
# Steps of uneven length, tried on rows a day or more apart; D is uneven where clocks change.
_CALENDAR_STEPS = ("D", "B", "W", "MS", "ME", "QS", "QE", "YS", "YE")
_DAY = 23 * 3600 * 10**9  # the shortest day there is, in nanoseconds
# A row far from the others (a mistyped year) must not fill the memory with missing rows.
_SPARSE_ROWS, _SPARSE_RATIO = 10_000, 50


def as_step(frequency: str) -> str:
    """The frequency as pandas itself spells it."""
    try:
        return str(to_offset(frequency).freqstr)
    except ValueError:
        raise ValueError(
            f"frequency={frequency!r} is not known: use a pandas offset such as 'h', '15min', 'D' or 'MS'"
        ) from None


def infer_step(times: pd.Index) -> Step:
    """The most common difference of times, or a calendar step (such as a month) if all rows follow it."""
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
    """Number of steps from the origin to each time, ``(n,)``.

    Args:
        times: increasing dates or whole numbers.
        step: of the grid.
        origin: a time on the grid; None for the first of ``times``.

    Raises:
        ValueError: a time is not on the grid, or nearly all points of the grid have no row.
    """
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


def time_grid(step: Step, n: int, start: Any = None, end: Any = None) -> pd.Index:
    """``n`` times of the grid from ``start`` on, or up to ``end``, that one included.

    Args:
        step: of the grid.
        n: how many times.
        start: the first of them; None if the last is given.
        end: the last of them.
    """
    if isinstance(step, int):
        first = int(start) if end is None else int(end) - step * (n - 1)
        return pd.RangeIndex(first, first + step * n, step)
    offset = to_offset(step)
    if end is None:
        return pd.date_range(start, periods=n, freq=offset)
    return pd.date_range(end=end, periods=n, freq=offset)


def _fixed(step: Step, times: pd.Index) -> int | None:
    """The step in nanoseconds (row numbers: as it is); None where its length varies."""
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


def as_dates(holidays: Iterable[Any]) -> tuple[str, ...]:
    """Days as ISO dates such as ``"2024-12-25"``, sorted, without duplicates."""
    days = set()
    for day in holidays:
        try:
            days.add(pd.Timestamp(day).date().isoformat())
        except (TypeError, ValueError):
            raise ValueError(
                f"holidays has {day!r}, expected a date such as '2024-12-25'"
            ) from None
    return tuple(sorted(days))


def calendar_names(calendar: Sequence[str], holidays: Sequence[str]) -> list[str]:
    """Names of the columns of :func:`calendar_features`, whose arguments these are.

    Args:
        calendar: any of :data:`CYCLES`.
        holidays: ISO dates.
    """
    names = [f"{cycle} {wave}" for cycle in calendar for wave in ("sin", "cos")]
    return [*names, "holiday"] if holidays else names


def calendar_features(times: pd.Index, calendar: Sequence[str], holidays: Sequence[str]) -> Array:
    """Sine and cosine of each cycle at the local times, ``(n, 2 cycles)``; one more column for holidays.

    Args:
        times: dates.
        calendar: any of :data:`CYCLES`.
        holidays: ISO dates on which the last column is 1; none for no such column.

    >>> calendar_features(pd.DatetimeIndex(["2024-01-01 06:00"]), ["hour"], ["2024-01-01"]).round(3)
    array([[1., 0., 1.]])
    """
    if not calendar and not holidays:
        return np.empty((len(times), 0))
    if not isinstance(times, pd.DatetimeIndex):
        raise ValueError(
            "calendar features and holidays need dates, and the rows are numbered: name the time column, "
            "give the frame an index of dates, or leave the features out"
        )
    day = (times.hour + times.minute / 60 + times.second / 3600).to_numpy() / 24
    year = np.where(times.is_leap_year, 366, 365)
    phase = {
        "hour": day,
        "weekday": (times.day_of_week.to_numpy() + day) / 7,
        "yearday": (times.day_of_year.to_numpy() - 1 + day) / year,
    }
    columns = [wave(2 * np.pi * phase[cycle]) for cycle in calendar for wave in (np.sin, np.cos)]
    if holidays:
        local = times.tz_localize(None).normalize()
        columns.append(local.isin(pd.DatetimeIndex(list(holidays))).astype(np.float64))
    return np.stack(columns, axis=1)
