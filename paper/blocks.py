"""Each quarter of a recording as the test part in turn."""

from __future__ import annotations

import numpy as np

from paper.table3 import FRACTIONS
from seqgp.data import WindowSet, split_in_time

__all__ = ["QUARTERS", "turned"]

QUARTERS = (1, 2, 3, 4)


def turned(windows: WindowSet, quarter: int) -> tuple[WindowSet, WindowSet, WindowSet]:
    """Training, validation and held-back windows; no two of them share a row.

    The rows are turned so that the quarter comes last; three quarters of the rest train and one validates,
    as in table 3. Rows that come later in time may train.
    """
    n, lag = len(windows), windows.lag
    order = np.roll(np.arange(n), -round(n * quarter / 4))
    if quarter < 4:
        order = order[lag:]  # what follows the held-back part in time overlaps with it
    first, second, third = (
        windows.subset(order[rows]) for rows in split_in_time(len(order), FRACTIONS, lag)
    )
    return first, second, third
