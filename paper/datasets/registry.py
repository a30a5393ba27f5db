"""The list of data sets: one line here for each."""

from __future__ import annotations

from paper.datasets import actuator, car_r3, car_speed, car_yaw, drives, gef_power, gef_wind
from paper.datasets.entry import Dataset, Entry

__all__ = ["ENTRIES", "available", "load"]

ENTRIES: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        actuator.ENTRY,
        drives.ENTRY,
        gef_power.ENTRY,
        gef_wind.ENTRY,
        car_speed.ENTRY,
        car_yaw.ENTRY,
        car_r3.LANES,
        car_r3.LEAD,
    )
}


def available() -> list[Entry]:
    """Every data set that :func:`load` knows, on this machine or not."""
    return list(ENTRIES.values())


def load(name: str) -> Dataset:
    """The data set of that name: from ``SEQGP_DATA``, else the cache, else downloaded once.

    Raises:
        ValueError: there is no data set of that name.
        DatasetError: a file is missing and could not be downloaded, or is not the right one.
    """
    if name not in ENTRIES:
        raise ValueError(f"data set {name!r} is not known: use one of {', '.join(ENTRIES)}")
    return ENTRIES[name].load()
