"""Rows of a frame on a regular grid of times, and the windows cut from them.

A frame is read into a :class:`Table` once, and a table is cut into a :class:`Dataset` once. Training,
baselines, evaluation and updates work on parts of that dataset.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from seqgp.data import WindowSet
from seqgp.forecasting.times import CYCLES, Step, calendar_features, calendar_names, time_grid

__all__ = [
    "Dataset",
    "Layout",
    "Table",
    "as_names",
    "check_choice",
    "check_layout",
    "cut",
    "fill_gaps",
]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Positions = NDArray[np.int64]

MODES = ("regression", "autoregression", "simulation")


@dataclass(frozen=True)
class Layout:
    """The columns of a frame and how windows are cut from them, as the options of ``Forecaster`` say."""

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
    def features(self) -> list[str]:
        """Columns of a window."""
        past = self.past_inputs + (self.targets if self.feeds_back else ())
        return [*self.inputs, *calendar_names(self.calendar, self.holidays), *past]

    @property
    def feeds_back(self) -> bool:
        """Whether windows hold past targets."""
        return self.mode != "regression"

    @property
    def runs_freely(self) -> bool:
        """Whether forecasts of many steps feed predictions of one step back."""
        return self.feeds_back and self.horizon == 1

    @property
    def reach(self) -> int:
        """Steps from a window's last row to its target; 0 where all is known at the target's time."""
        return self.horizon if self.feeds_back or self.past_inputs else 0

    @property
    def need(self) -> int:
        """Rows before a row that are needed to predict it."""
        return self.lag + self.reach - 1

    def too_few_rows(self, rows: int) -> ValueError:
        """The error for a frame with so many rows, if those are fewer than training needs."""
        return ValueError(
            f"the data has {rows} rows up to its last target; lag={self.lag} and horizon={self.horizon} "
            f"need at least {self.need + 2}: use a shorter lag, or more rows"
        )

    @property
    def keep(self) -> int:
        """Newest rows to remember: a window, the rows that a gap in it is interpolated from, and the
        newest target known at the time of prediction."""
        return max(self.need + self.max_gap, self.horizon)


def as_names(what: str, names: Sequence[Any]) -> tuple[Any, ...]:
    """A list of names as a tuple; a single text is refused.

    Args:
        what: the option, for the message.
        names: its value.
    """
    if isinstance(names, str):
        raise ValueError(f"{what} is the text {names!r}, expected a list: write [{names!r}]")
    return tuple(names)


def check_choice(what: str, value: str, choices: Sequence[str]) -> None:
    """Refuse a value that is none of the choices.

    Args:
        what: the option, for the message.
        value: its value.
        choices: the values that it may have.
    """
    if value not in choices:
        raise ValueError(f"{what}={value!r} is not known: use one of {', '.join(choices)}")


def check_layout(layout: Layout, time: str | None) -> None:
    """Refuse options that do not go together.

    Args:
        layout: what the options define.
        time: column of times.
    """
    columns = [*layout.columns, *([] if time is None else [time])]
    check_choice("mode", layout.mode, MODES)
    for cycle in layout.calendar:
        check_choice("calendar", cycle, CYCLES)
    if not layout.targets:
        raise ValueError("target is empty: name at least one column to predict")
    for name in columns:
        if columns.count(name) > 1:
            raise ValueError(
                f"column {name!r} is named {columns.count(name)} times among target, inputs, "
                "past_inputs and time: name it once"
            )
    # Predictions of several targets are named after them, as in load.mean.
    if len(layout.targets) == 1 and re.fullmatch(r"mean|std|q[0-9.]+", layout.targets[0]):
        raise ValueError(
            f"target {layout.targets[0]!r} has the name of a column of predictions (mean, std, q0.025, "
            "...): rename it first"
        )
    if layout.mode == "regression" and not layout.features:
        raise ValueError(
            "mode='regression' has nothing to predict from: name inputs, past_inputs or calendar "
            "features, or use mode='autoregression'"
        )
    if layout.mode == "simulation" and layout.horizon != 1:
        raise ValueError(
            f"mode='simulation' feeds predictions of one step back: horizon={layout.horizon} must be 1"
        )


@dataclass(frozen=True)
class Table:
    """Rows on a regular grid of ``N`` times."""

    times: pd.Index
    values: Array
    """``(N, columns)``, columns as in :attr:`Layout.columns`, missing values as NaN."""
    given: Positions
    """Positions ``(n,)`` of the rows that the frame had; the others are skipped times."""
    step: Step

    def __len__(self) -> int:
        return len(self.values)

    def next_times(self, n: int) -> pd.Index:
        """The ``n`` times after the last row."""
        return time_grid(self.step, n + 1, start=self.times[-1])[1:]

    def head(self, n: int) -> Table:
        """The first ``n`` rows."""
        return Table(self.times[:n], self.values[:n], self.given[self.given < n], self.step)

    def followed_by(self, rows: Table) -> Table:
        """These rows and then ``rows``, which begin one step later; given are those of ``rows``."""
        times = self.times.append(rows.times).rename(rows.times.name)
        values = np.concatenate([self.values, rows.values])
        return Table(times, values, rows.given + len(self), self.step)

    def until_last_target(self, outputs: int) -> Table:
        """Without the rows at the end in which none of the ``outputs`` targets is known."""
        known = np.flatnonzero(np.isfinite(self.values[:, -outputs:]).any(1))
        return self.head(int(known[-1]) + 1 if len(known) else 0)


@dataclass(frozen=True)
class Dataset:
    """The rows of a table from ``first`` on, and the windows that predict them.

    The rows before ``first`` are context: windows reach into them. Every window of the table is
    held, missing values in it as zeros, so use only those that the masks mark.
    """

    layout: Layout
    table: Table
    first: int
    windows: WindowSet
    complete: Mask
    """Windows without a missing value, ``(n,)``."""
    observed: Mask
    """Windows whose targets are all known, ``(n,)``."""
    inputs: Array
    """Inputs of windows with short gaps interpolated, by row; see :func:`cut`."""
    past: Array
    """Past inputs and targets with short gaps interpolated, by row."""

    def __len__(self) -> int:
        return len(self.given)

    @property
    def given(self) -> Positions:
        """Positions of the rows from ``first`` on that the frame had."""
        return self.table.given[self.table.given >= self.first]

    @property
    def targets(self) -> Array:
        """Targets of all rows of the table ``(N, outputs)`` as they were given."""
        return self.table.values[:, -len(self.layout.targets) :]

    def complete_windows(self) -> WindowSet:
        """Windows of the rows that can be predicted."""
        return self.windows.subset(self.complete & (self.windows.time >= self.first))

    def training_windows(self) -> WindowSet:
        """Windows of the rows that can be predicted and whose targets are all known."""
        chosen = self.complete & self.observed & (self.windows.time >= self.first)
        return self.windows.subset(chosen)

    def head(self, stop: int) -> Dataset:
        """The rows before position ``stop`` of the table."""
        kept = self.windows.time < stop
        return replace(
            self,
            table=self.table.head(stop),
            windows=self.windows.subset(kept),
            complete=self.complete[kept],
            observed=self.observed[kept],
        )

    def since(self, first: int) -> Dataset:
        """The rows from position ``first`` of the table on; those before are context."""
        return replace(self, first=first)

    def until_last_target(self) -> Dataset:
        """Without the rows at the end that have no target: those are to be forecast."""
        return self.head(len(self.table.until_last_target(len(self.layout.targets))))

    def split(self, share: float) -> tuple[Dataset, Dataset]:
        """The rows up to the last target in two parts, in time; the second has the ``share`` given.

        No window is cut again: those of the second part reach into the first.
        """
        known = self.until_last_target()
        held = int(share * len(known))
        if not held:
            return known, known.since(len(known.table))
        given = known.given
        return known.head(int(given[-held - 1]) + 1), known.since(int(given[-held]))


def cut(table: Table, layout: Layout, first: int = 0) -> Dataset:
    """Cut every window of a table: row ``s`` of a window holds known inputs of time ``s + reach``, and
    the past of ``s``.

    A gap is interpolated only if the window has a value after it: the newest row of a window is always
    as given. So nothing in a window depends on what comes after it.

    Args:
        table: more than ``layout.need`` rows.
        layout: columns and shape of windows.
        first: the row from which on rows are predicted; those before are context.
    """
    outputs = len(layout.targets)
    cycles = calendar_features(table.times, layout.calendar, layout.holidays)
    filled = fill_gaps(table.values, layout.max_gap)
    inputs = _window_inputs(filled, cycles, layout)
    targets = np.nan_to_num(filled[:, -outputs:])
    windows = WindowSet(
        np.nan_to_num(inputs) if inputs.shape[1] else None,
        targets[:, 0] if outputs == 1 else targets,
        lag=layout.lag,
        horizon=layout.reach,
        mode="autoregression" if layout.feeds_back else "regression",
    )
    gaps = np.concatenate([[0], np.cumsum(~_all_known(inputs, filled, layout))])
    last = windows.time - layout.reach
    newest_given = _all_known(_window_inputs(table.values, cycles, layout), table.values, layout)
    complete = (gaps[last + 1] == gaps[last + 1 - layout.lag]) & newest_given[last]
    observed = np.asarray(np.isfinite(table.values[windows.time, -outputs:]).all(1))
    past = filled[:, len(layout.inputs) :]
    return Dataset(layout, table, first, windows, complete, observed, inputs, past)


def _window_inputs(values: Array, cycles: Array, layout: Layout) -> Array:
    """Inputs of windows ``(N, p)``: known ones and the calendar moved back by ``reach`` rows, then
    past inputs. What is moved is missing in the last ``reach`` rows, which are in no window."""
    k, q = len(layout.inputs), len(layout.past_inputs)
    known = np.concatenate([values[:, :k], cycles], axis=1)
    moved = np.full_like(known, np.nan)
    moved[: len(known) - layout.reach] = known[layout.reach :]
    return np.concatenate([moved, values[:, k : k + q]], axis=1)


def _all_known(inputs: Array, values: Array, layout: Layout) -> Mask:
    """Rows ``(N,)`` in which nothing that a window holds is missing."""
    known = np.asarray(np.isfinite(inputs).all(1))
    if layout.feeds_back:
        known &= np.isfinite(values[:, -len(layout.targets) :]).all(1)
    return known


def fill_gaps(values: Array, max_gap: int) -> Array:
    """Interpolate linearly in gaps of up to ``max_gap`` rows that are known on both sides.

    Args:
        values: ``(N, columns)``, missing values as NaN.
        max_gap: in rows; 0 for no interpolation.
    """
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
