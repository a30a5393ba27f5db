"""Public recordings by name, from a data folder or downloaded once and checked.

>>> [entry.name for entry in available() if entry.name.startswith("gef")]
['gef-power', 'gef-wind']

A recording with gaps, or of several drives or farms, is cut into gap-free runs, which ``data.runs()``
returns as ``WindowSet`` takes them. Folders in comma2k19's layout and the paper's own
``car_sensors.h5`` are read by :mod:`paper.datasets.comma2k19` and :mod:`paper.datasets.car_h5`.
"""

from paper.datasets import car, car_r3, gef, sysid
from paper.datasets.recording import Dataset, Entry, Rows, Status

__all__ = ["ENTRIES", "Dataset", "Entry", "Rows", "Status", "available", "load"]

ENTRIES: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        sysid.ACTUATOR,
        sysid.DRIVES,
        gef.POWER,
        gef.WIND,
        car.SPEED,
        car.YAW,
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
