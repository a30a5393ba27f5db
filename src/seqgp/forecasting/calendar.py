"""Calendar features: the hour, the day of the week and of the year as smooth cycles; holidays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = ["CYCLES", "as_dates", "calendar_features", "calendar_names"]

Array = NDArray[np.float64]
CYCLES = ("hour", "weekday", "yearday")


def as_dates(holidays: Iterable[Any]) -> tuple[str, ...]:
    """Days as ISO dates such as ``"2024-12-25"``, sorted, each once."""
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
    """Names of the features, in their order."""
    names = [f"{cycle} {wave}" for cycle in calendar for wave in ("sin", "cos")]
    return [*names, "holiday"] if holidays else names


def calendar_features(times: pd.Index, calendar: Sequence[str], holidays: Sequence[str]) -> Array:
    """Features ``(n, 2 cycles)`` of the local times, and ``(n, 1)`` more with holidays.

    >>> calendar_features(pd.DatetimeIndex(["2024-01-01 06:00"]), ["hour"], ["2024-01-01"]).round(3)
    array([[1., 0., 1.]])
    """
    if not calendar and not holidays:
        return np.empty((len(times), 0))
    if not isinstance(times, pd.DatetimeIndex):
        raise ValueError(
            "calendar features and holidays need dates, and the rows have numbers: name the time column, "
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
