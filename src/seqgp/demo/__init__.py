"""A forecast from start to end in two minutes on two cores: data, models, table, picture, report."""

from seqgp.demo.data import (
    GEF_2012,
    DataFile,
    DatasetError,
    Series,
    WrongFileError,
    cache_folder,
    data_folder,
    hourly_load,
    load_series,
    read_gef,
    simulated_series,
)
from seqgp.demo.run import Demo, run_demo

__all__ = [
    "GEF_2012",
    "DataFile",
    "DatasetError",
    "Demo",
    "Series",
    "WrongFileError",
    "cache_folder",
    "data_folder",
    "hourly_load",
    "load_series",
    "read_gef",
    "run_demo",
    "simulated_series",
]
