"""The list of data sets: one module each, one line here."""

from __future__ import annotations

from seqgp.datasets import actuator, drives
from seqgp.datasets.entry import Dataset, Entry

__all__ = ["ENTRIES", "available", "load"]

ENTRIES: dict[str, Entry] = {entry.name: entry for entry in (actuator.ENTRY, drives.ENTRY)}


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
