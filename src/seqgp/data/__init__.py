"""Series in, windows out: views over time series, splits in time order, standardisation."""

from seqgp.data.scaling import Standardizer
from seqgp.data.splits import split_in_time
from seqgp.data.windows import TensorWindows, WindowSet

__all__ = ["Standardizer", "TensorWindows", "WindowSet", "split_in_time"]
