"""Rows of a frame on a regular grid of times, and the windows cut from them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from seqgp.data import WindowSet
from seqgp.forecasting.calendar import calendar_features, calendar_names
from seqgp.forecasting.columns import read_columns
from seqgp.forecasting.timeline import Step, following, place, starting

__all__ = ["Cut", "Layout", "Table", "cut", "fill_gaps", "joined", "read_table", "window_inputs"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Layout:
    """Which columns there are and how windows are cut from them."""

    targets: tuple[str, ...]
    inputs: tuple[str, ...]
    past_inputs: tuple[str, ...]
    calendar: tuple[str, ...]
    holidays: tuple[str, ...]
    lag: int
    horizon: int
    mode: str
    max_gap: int
    """Longest gap, in rows, that is interpolated; 0 for none."""

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns read from a frame, targets last."""
        return self.inputs + self.past_inputs + self.targets

    @property
    def feeds_back(self) -> bool:
        """Whether windows hold past targets."""
        return self.mode != "regression"

    @property
    def reach(self) -> int:
        """Steps from a window's last row to its target; 0 where all is known at the target's time."""
        return self.horizon if self.feeds_back or self.past_inputs else 0

    @property
    def need(self) -> int:
        """Rows before a row that its prediction takes."""
        return self.lag + self.reach - 1

    @property
    def keep(self) -> int:
        """Newest rows to remember: what a window takes, what a gap in it is filled from, and the
        newest target at the time of prediction."""
        return max(self.need + self.max_gap, self.horizon)

    @property
    def features(self) -> list[str]:
        """Columns of a window."""
        past = self.past_inputs + (self.targets if self.feeds_back else ())
        return [*self.inputs, *calendar_names(self.calendar, self.holidays), *past]


@dataclass(frozen=True)
class Table:
    """Rows one step apart: ``N`` times and ``values`` ``(N, columns)`` with NaN where missing."""

    times: pd.Index
    values: Array
    own: NDArray[np.int64]
    """Positions ``(n,)`` of the rows of the frame it was read from."""

    def __len__(self) -> int:
        return len(self.values)

    def targets(self, layout: Layout) -> Array:
        """``(N, outputs)`` as they were given."""
        return self.values[:, len(layout.inputs) + len(layout.past_inputs) :]


def joined(before: Table, rows: Table) -> Table:
    """``rows`` right after ``before``; its own rows are those of ``rows``."""
    times = before.times.append(rows.times)
    return Table(times, np.concatenate([before.values, rows.values]), rows.own + len(before))


def read_table(
    df: pd.DataFrame,
    layout: Layout,
    step: Step,
    times: pd.Index,
    origin: Any = None,
    optional: Collection[str] = (),
) -> Table:
    """The rows of ``df`` at ``times``, on the grid from the first of them, or from after ``origin``."""
    positions = place(times, step, origin)
    start = times[0]
    if origin is not None:
        positions = positions - 1
        start = following(origin, step, 1)[0]
    values = np.full((int(positions[-1]) + 1, len(layout.columns)), np.nan)
    values[positions] = read_columns(df, layout.columns, optional)
    return Table(starting(start, step, len(values)), values, positions)


@dataclass(frozen=True)
class Cut:
    """Every window of a table; missing values in them are zeros, so use only what is marked."""

    windows: WindowSet
    complete: Mask
    """Windows without a missing value, ``(n,)``."""
    observed: Mask
    """Windows whose targets are all known, ``(n,)``."""


def cut(table: Table, layout: Layout) -> Cut:
    """Windows whose row ``s`` holds known inputs of time ``s + reach``, and the past of ``s``.

    A gap may be interpolated only where the window has a value after it: the newest row of a
    window is always as given. So nothing in a window depends on what comes after it.
    """
    filled = fill_gaps(table.values, layout.max_gap)
    inputs = window_inputs(table.times, filled, layout)
    targets = np.nan_to_num(filled[:, -len(layout.targets) :])
    windows = WindowSet(
        np.nan_to_num(inputs) if inputs.shape[1] else None,
        targets[:, 0] if len(layout.targets) == 1 else targets,
        lag=layout.lag,
        horizon=layout.reach,
        mode="autoregression" if layout.feeds_back else "regression",
    )
    holes = np.concatenate([[0], np.cumsum(~_finite(inputs, filled, layout))])
    last = windows.time - layout.reach
    given = _finite(window_inputs(table.times, table.values, layout), table.values, layout)
    complete = (holes[last + 1] == holes[last + 1 - layout.lag]) & given[last]
    observed = np.asarray(np.isfinite(table.targets(layout)[windows.time]).all(1))
    return Cut(windows, complete, observed)


def window_inputs(times: pd.Index, values: Array, layout: Layout) -> Array:
    """Inputs of windows ``(N, p)``: known ones and the calendar moved back by ``reach`` rows, then
    past inputs. The last ``reach`` rows of what is moved have nothing, and are in no window."""
    k, q = len(layout.inputs), len(layout.past_inputs)
    cycles = calendar_features(times, layout.calendar, layout.holidays)
    known = np.concatenate([values[:, :k], cycles], axis=1)
    moved = np.full_like(known, np.nan)
    moved[: len(known) - layout.reach] = known[layout.reach :]
    return np.concatenate([moved, values[:, k : k + q]], axis=1)


def _finite(inputs: Array, values: Array, layout: Layout) -> Mask:
    """Rows ``(N,)`` where all that a window holds is there."""
    fine = np.asarray(np.isfinite(inputs).all(1))
    if layout.feeds_back:
        fine &= np.isfinite(values[:, -len(layout.targets) :]).all(1)
    return fine


def fill_gaps(values: Array, max_gap: int) -> Array:
    """``(N, columns)``: gaps of up to ``max_gap`` rows, known on both sides, filled by a line."""
    if not max_gap:
        return values
    filled = values.copy()
    row = np.arange(len(values))
    for j, column in enumerate(values.T):
        known = np.isfinite(column)
        if known.all() or not known.any():
            continue
        before = np.maximum.accumulate(np.where(known, row, -1))
        behind = np.minimum.accumulate(np.where(known, row, len(row))[::-1])[::-1]
        short = (before >= 0) & (behind < len(row)) & (behind - before - 1 <= max_gap) & ~known
        filled[short, j] = np.interp(row[short], row[known], column[known])
    return filled
