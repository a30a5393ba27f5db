"""The tasks of tables 2 and 3: their windows, and how these are split.

Modes: ``regression`` predicts from inputs alone, ``autoregression`` from past targets too, and
``simulation`` (table 2) feeds predictions back as past targets. A window ends at t and its target is
one step later; forecasts of the wind are known ahead, so there the window ends with the forecasts
for the target's own hour.

Splits are in time. Drives and Actuator, the paper's protocol: the first 45% of the windows train, the
next 45% test, the last 10% validate. The others: the first 56.25% train, the next 18.75% validate (a
quarter of what is not the test part, as in the paper), the last 25% test, with a gap of one window
between two parts.
"""

from __future__ import annotations

import numpy as np

from paper import datasets
from seqgp import WindowSet, split_in_time

__all__ = ["QUARTERS", "SYSID", "Parts", "lag_of", "parts", "rotated", "windows_of"]

Parts = tuple[WindowSet, WindowSet, WindowSet]
"""Training, validation and test windows."""

SYSID = ("drives", "actuator")
QUARTERS = (1, 2, 3, 4)
_FRACTIONS = (0.5625, 0.1875, 0.25)
_LAG = {
    "drives": 48,
    "actuator": 32,
    "gef-power": 48,
    "gef-wind": 48,
    "car-speed": 32,
    "car-yaw": 32,
    "car-lanes": 16,
    "car-lead": 16,
}
_SYSID_LAG_WITH_PAST_TARGETS = 10


def lag_of(dataset: str, mode: str) -> int:
    """Steps of a window."""
    if dataset in SYSID and mode == "autoregression":
        return _SYSID_LAG_WITH_PAST_TARGETS
    return _LAG[dataset]


def windows_of(dataset: str, mode: str, model: str = "") -> WindowSet:
    """All windows of a recording, in time order.

    Args:
        dataset: its name.
        mode: ``"regression"``, ``"autoregression"`` or ``"simulation"``.
        model: ``"persistence"`` always sees past targets; other models see those of the mode.
    """
    data = datasets.load(dataset)
    lag = lag_of(dataset, mode)
    inputs, targets = data.runs(lag + 1)
    if dataset == "gef-wind":
        # Row s then has the forecasts for s + 1, which are known at s; the last hour has none.
        inputs = [np.concatenate([x[1:], x[-1:]]) for x in inputs]
    past = mode != "regression" or model == "persistence"
    windows = WindowSet(inputs, targets, lag=lag, mode="autoregression" if past else "regression")
    if dataset == "gef-wind":  # targets in the hours that the competition gave for training
        usage = data.marks["usage"].reshape(len(inputs), -1)
        windows = windows.subset(usage[windows.series_index, windows.time] == "Training")
    return windows


def parts(dataset: str, mode: str, model: str = "") -> Parts:
    """Training, validation and test windows; arguments as :func:`windows_of` takes them."""
    windows = windows_of(dataset, mode, model)
    if dataset in SYSID:
        train, test, validation = split_in_time(windows, (0.45, 0.45, 0.10))
    else:
        # Farms are split each at the same hour; other recordings are one after the other in time.
        rows = windows if dataset == "gef-wind" else len(windows)
        train, validation, test = split_in_time(rows, _FRACTIONS, gap=windows.lag)
    return windows.subset(train), windows.subset(validation), windows.subset(test)


def rotated(windows: WindowSet, quarter: int) -> Parts:
    """Blocked cross-validation: training and validation windows, and one quarter as the test part.

    Rows are rotated so that the quarter comes last; three quarters of the rest train and one validates,
    and no row is part of windows of two parts. Rows that come later in time may train.

    Args:
        windows: of one recording, in time order.
        quarter: 1 to 4, the part held back.
    """
    n, lag = len(windows), windows.lag
    order = np.roll(np.arange(n), -round(n * quarter / 4))
    if quarter < 4:
        order = order[lag:]  # what follows the held-back part in time overlaps with it
    first, second, third = (
        windows.subset(order[rows]) for rows in split_in_time(len(order), _FRACTIONS, lag)
    )
    return first, second, third
