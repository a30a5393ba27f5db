"""Public recordings by name, from a data folder or downloaded once and checked.

>>> [entry.name for entry in available() if entry.name.startswith("gef")]
['gef-power', 'gef-wind']

A recording with holes, or of several drives or farms, comes in gap-free runs; ``data.runs()`` gives
them as ``WindowSet`` takes them. Folders in comma2k19's layout and the paper's own ``car_sensors.h5``
are read by ``paper.datasets.comma2k19`` and ``paper.datasets.car_h5``.
"""

from paper.datasets.entry import Dataset, Entry, Status
from paper.datasets.files import DatasetError, File, WrongFileError
from paper.datasets.registry import available, load
from paper.datasets.rows import Rows

__all__ = [
    "Dataset",
    "DatasetError",
    "Entry",
    "File",
    "Rows",
    "Status",
    "WrongFileError",
    "available",
    "load",
]
