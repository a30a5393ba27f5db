"""Public recordings by name, from a data folder or downloaded once and checked.

>>> [entry.name for entry in available()]
['actuator', 'drives']
"""

from seqgp.datasets.entry import Dataset, Entry, Status
from seqgp.datasets.files import DatasetError, File, WrongFileError
from seqgp.datasets.registry import available, load

__all__ = [
    "Dataset",
    "DatasetError",
    "Entry",
    "File",
    "Status",
    "WrongFileError",
    "available",
    "load",
]
