"""Frames to datasets: at ``fit``, and of a forecaster that knows earlier rows."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from seqgp.data import WindowSet
from seqgp.forecasting.columns import read_columns, read_times
from seqgp.forecasting.frames import Dataset, Layout, Table, cut, fill_gaps
from seqgp.forecasting.times import Step, infer_step, place, time_grid

__all__ = ["MissingValuesError", "Reader", "as_dataset", "training_dataset"]


class MissingValuesError(ValueError):
    """A forecast cannot start, or not go on, because a value it needs is missing."""


def training_dataset(
    df: pd.DataFrame, layout: Layout, time: str | None, frequency: str | None
) -> Dataset:
    """Read and cut a frame to fit on.

    Args:
        df: the frame.
        layout: its columns, and the shape of windows.
        time: column of times, see :func:`seqgp.forecasting.columns.read_times`.
        frequency: pandas offset between rows; None for the most common step.
    """
    times = read_times(df, time)
    table = _read_table(df, layout, frequency or infer_step(times), times)
    for name, values in zip(layout.columns, table.values.T, strict=True):
        if not np.isfinite(values).any():
            raise ValueError(
                f"column {name!r} has no value at all in {len(df)} rows: leave it out, or check how the "
                "file was read"
            )
    if len(table) <= layout.need:
        raise layout.too_few_rows(len(table))
    return cut(table, layout)


def as_dataset(
    rows: pd.DataFrame | Dataset, layout: Layout, read: Callable[[pd.DataFrame], Dataset]
) -> Dataset:
    """Read a frame; a dataset is returned as it is.

    Args:
        rows: the frame or the dataset.
        layout: that a dataset must have.
        read: reads a frame.
    """
    if not isinstance(rows, Dataset):
        return read(rows)
    if rows.layout != layout:
        raise ValueError(
            "the data was read by a forecaster with other columns or windows: read it with this one"
        )
    return rows


@dataclass(frozen=True)
class Reader:
    """Reads frames for a forecaster that knows earlier rows."""

    layout: Layout
    time: str | None
    """Column of times, see :func:`seqgp.forecasting.columns.read_times`."""
    known: Table
    """The newest known rows."""

    def times(self, df: pd.DataFrame, continues: bool = False) -> pd.Index:
        """Times of the kind that the known rows have, in their time zone.

        Args:
            df: the frame.
            continues: whether rows numbered from 0, without a time column, follow the known ones.
        """
        times, known = read_times(df, self.time), self.known.times
        got, wanted = (
            "dates" if isinstance(each, pd.DatetimeIndex) else "numbers" for each in (times, known)
        )
        if got != wanted:
            raise ValueError(
                f"the rows have {got}, and the data at fit had {wanted}: give a time column or index as "
                "then"
            )
        if not isinstance(times, pd.DatetimeIndex) or not isinstance(known, pd.DatetimeIndex):
            numbered = self.time is None and isinstance(times, pd.RangeIndex) and times[0] == 0
            return self.known.next_times(len(df)) if numbered and continues else times
        if (times.tz is None) != (known.tz is None):
            raise ValueError(
                f"the times' zone is {times.tz or 'not given'}, and at fit it was "
                f"{known.tz or 'not given'}: convert them (tz_localize, tz_convert)"
            )
        return times if known.tz is None else times.tz_convert(known.tz)

    def dataset(self, df: pd.DataFrame, optional: Collection[str] = ()) -> Dataset:
        """Rows to predict; if they directly continue the known ones, these are their context.

        Args:
            df: the frame.
            optional: columns that may be absent.
        """
        table, first = self._with_context(df, optional)
        layout = self.layout
        if len(table) <= layout.need:
            raise ValueError(
                f"the data has {len(df)} rows and does not continue the known data, which ends at "
                f"{self.known.times[-1]}; lag={layout.lag} and horizon={layout.horizon} need at least "
                f"{layout.need + 1} rows: give more rows before those to predict"
            )
        return cut(table, layout, first)

    def validation_windows(self, df: pd.DataFrame) -> WindowSet:
        """Windows of validation rows; if these directly continue the known ones, the first begin there."""
        table, first = self._with_context(df)
        if len(table) > self.layout.need:
            windows = cut(table, self.layout, first).training_windows()
            if len(windows):
                return windows
        raise ValueError(
            f"validation has {len(df)} rows and no complete window of {self.layout.lag} rows with its "
            "target: give more rows, or leave validation out"
        )

    def new_dataset(self, df: pd.DataFrame) -> Dataset:
        """Rows after the known ones, which are their context; rows in between are missing."""
        end = self.known.times[-1]
        times = self.times(df, continues=True)
        if times[0] <= end:
            raise ValueError(
                f"the data begins at {times[0]}, and rows up to {end} are known already: give only the "
                "rows after that"
            )
        new = _read_table(df, self.layout, self.known.step, times, end)
        return cut(self.known.followed_by(new), self.layout, len(self.known))

    def starting_from(self, df: pd.DataFrame) -> Reader:
        """A reader that knows the newest rows of a frame instead, up to the last target."""
        layout = self.layout
        table = _read_table(df, layout, self.known.step, self.times(df))
        table = table.until_last_target(len(layout.targets))
        if len(table) < layout.need:
            raise ValueError(
                f"there are {len(table)} rows up to the last target, expected at least {layout.need} to "
                f"start from (lag={layout.lag}, horizon={layout.horizon}): give more rows"
            )
        n = max(len(table) - layout.keep, 0)
        kept = Table(table.times[n:], table.values[n:], np.arange(len(table) - n), table.step)
        return replace(self, known=kept)

    def forecast_dataset(self, steps: int | None, future: pd.DataFrame | None) -> Dataset:
        """The rows after the known ones, with known inputs alone.

        Args:
            steps: how many rows; None for as many as ``future`` has.
            future: the known inputs of those rows.
        """
        layout, known = self.layout, self.known
        end, k = known.times[-1], len(layout.inputs)
        _check_reach(layout, steps)
        if future is None and k:
            times = known.next_times(steps or 1)
            raise ValueError(
                f"the forecast needs {_listed(layout.inputs)} in advance: give future, a frame with such "
                f"columns for the {steps} rows from {times[0]} to {times[-1]}"
            )
        positions, inputs = np.empty(0, dtype=np.int64), np.empty((0, k))
        if future is not None and (steps is None or k):
            times = self.times(future, continues=True)
            later = np.asarray(times > end)
            if not later.any():
                raise ValueError(
                    f"future ends at {times[-1]}, and the known data at {end}: give the rows after that"
                )
            positions = place(times[later], known.step, end) - 1
            inputs = read_columns(future.loc[later], layout.inputs)
        steps = int(positions[-1]) + 1 if steps is None else steps
        values = np.full((steps, len(layout.columns)), np.nan)
        inside = positions < steps
        values[positions[inside], :k] = inputs[inside]
        times = known.next_times(steps).rename(self.time)
        table = known.followed_by(Table(times, values, np.arange(steps), known.step))
        missing = np.argwhere(np.isnan(fill_gaps(table.values, layout.max_gap)[len(known) :, :k]))
        if len(missing):
            row, column = missing[0].tolist()
            raise MissingValuesError(
                f"the forecast needs {_listed(layout.inputs)} for {steps} rows from {times[0]} to "
                f"{times[-1]}, and {layout.inputs[column]!r} is missing at {times[row]}: give future a "
                "value there, or forecast fewer steps"
            )
        return cut(table, layout, len(known))

    def _with_context(self, df: pd.DataFrame, optional: Collection[str] = ()) -> tuple[Table, int]:
        """The rows, after the known ones if they directly continue them, and where they begin."""
        times = self.times(df)
        table = _read_table(df, self.layout, self.known.step, times, optional=optional)
        if times[0] == self.known.next_times(1)[0]:
            return self.known.followed_by(table), len(self.known)
        return table, 0


def _read_table(
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
        start = time_grid(step, 2, start=origin)[1]
    values = np.full((int(positions[-1]) + 1, len(layout.columns)), np.nan)
    values[positions] = read_columns(df, layout.columns, optional)
    grid = time_grid(step, len(values), start=start).rename(times.name)
    return Table(grid, values, positions, step)


def _check_reach(layout: Layout, steps: int | None) -> None:
    """Refuse more steps than single predictions reach, where they cannot be fed back."""
    if steps is None or steps <= layout.horizon:
        return
    why = None
    if layout.mode == "regression" and layout.past_inputs:
        why = "past inputs are not known any further"
    elif layout.reach and layout.horizon > 1:
        why = f"it predicts {layout.horizon} steps ahead at once"
    if why is not None:
        raise ValueError(
            f"{steps} steps are asked for, and this forecaster reaches {layout.horizon} ({why}): ask for "
            f"at most {layout.horizon}, or fit one with a longer horizon"
            + ("" if layout.mode == "regression" else ", or with horizon=1, which runs on freely")
        )


def _listed(names: Collection[str]) -> str:
    return ", ".join(map(repr, names))
