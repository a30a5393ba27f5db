"""What a fitted :class:`seqgp.Forecaster` knows besides its model: plain numbers, text and arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from seqgp.forecasting.frames import Table
from seqgp.forecasting.model import Linear
from seqgp.forecasting.times import time_grid

__all__ = ["DataReport", "ForecasterState"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class DataReport:
    """What ``fit`` found in the data and what it did about it; ``asdict`` gives JSON."""

    rows: int
    """Rows of the frame given."""
    first: str
    """Time (or number) of the first row; ``last`` is that of the last row with a target."""
    last: str
    step: str
    """Time between rows, or the difference of row numbers."""
    rows_without_target_at_end: int
    """Left out of training: rows to be forecast."""
    missing_times: int
    """Times that the frame skips; they became rows in which everything is missing."""
    missing_values: dict[str, int]
    """Missing values in each column, without those of skipped times."""
    interpolated_values: dict[str, int]
    """Values of each column interpolated for use in windows, at skipped times too."""
    constant_columns: list[str]
    features: list[str]
    """Columns of a window, calendar features and past targets included."""
    windows: int
    """Windows that fit between the first and the last row."""
    windows_incomplete: int
    """Of those, windows left out because a value in them is missing."""
    windows_without_target: int
    """Of the complete ones, windows left out because the target is missing."""
    windows_used: int
    updated_rows: int = 0
    """Rows added by ``update`` since; ``updated_windows`` are the windows they added."""
    updated_windows: int = 0


@dataclass(frozen=True)
class ForecasterState:
    """All that ``fit`` learned except the model."""

    kind: str
    """``"time"``: rows have dates; ``"row"``: rows have whole numbers."""
    step: str | int
    """Between rows: a pandas offset such as ``"h"``, or a difference of row numbers."""
    end: str | int
    """The last known row: an ISO date, or a number."""
    timezone: str | None
    history: Array
    """``(k, columns)``: the newest rows, up to ``end``, one step apart, missing values as NaN;
    columns are inputs, past inputs, targets."""
    target_mean: Array
    """Mean of the training targets, ``(outputs,)``."""
    target_std: Array
    """Their standard deviation, by which standardised scores are scaled."""
    persistence_std: Array
    """Deviation of training targets from the newest value known when they are predicted."""
    ridge: Linear
    """The linear baseline, on the same windows."""
    carrier: Linear | None
    """A linear autoregression of the past inputs, which free runs feed back; None without them."""
    report: DataReport
    simulation_scores: dict[str, float] = field(default_factory=dict)
    """In simulation mode: RMSE of a free run over validation rows, for each way of training."""

    def __post_init__(self) -> None:
        number = {"time": str, "row": int}.get(self.kind)
        if number is None or type(self.step) is not number or type(self.end) is not number:
            raise ValueError(
                f"kind={self.kind!r}, step={self.step!r}, end={self.end!r}; expected text for kind='time', "
                "integers for kind='row'"
            )
        outputs = self.target_mean.shape
        widths = {self.target_std.shape, self.persistence_std.shape, self.ridge.intercept.shape}
        if len(outputs) != 1 or widths != {outputs} or self.history.ndim != 2:
            raise ValueError(
                f"history has shape {self.history.shape}, targets' numbers {outputs} and {widths}; "
                "expected (rows, columns) and one shape (outputs,)"
            )

    def known_rows(self) -> Table:
        """The newest known rows: ``history`` with its times."""
        end: Any = self.end
        if self.kind == "time":
            end = pd.Timestamp(end)
            end = end if self.timezone is None else end.tz_convert(self.timezone)
        times = time_grid(self.step, len(self.history), end=end)
        return Table(times, self.history, np.arange(len(times)), self.step)
