"""A forecast from start to end in two minutes on two cores: data, models, table, picture, report."""

from seqgp.demo.data import Series, load_series, simulated_series
from seqgp.demo.run import Demo, run_demo

__all__ = ["Demo", "Series", "load_series", "run_demo", "simulated_series"]
