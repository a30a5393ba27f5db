"""Frames to datasets: at ``fit``, and of a forecaster that knows earlier rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pandas as pd

from seqgp.data import WindowSet
from seqgp.forecasting.columns import read_columns, read_times
from seqgp.forecasting.frames import Dataset, Layout, Table, cut, fill_gaps
from seqgp.forecasting.times import Step, following, infer_step, place, starting

__all__ = [
    "MissingValuesError",
    "forecast_dataset",
    "new_dataset",
    "newest_rows",
    "prediction_dataset",
    "times_like",
    "training_dataset",
    "validation_windows",
]


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


def prediction_dataset(
    df: pd.DataFrame,
    known: Table,
    layout: Layout,
    time: str | None,
    optional: Collection[str] = (),
) -> Dataset:
    """Read rows to predict; if they directly continue the known ones, these are their context.

    Args:
        df: the frame.
        known: the newest known rows.
        layout: columns, and the shape of windows.
        time: column of times.
        optional: columns that may be absent.
    """
    table, first = _with_context(df, known, layout, time, optional)
    if len(table) <= layout.need:
        raise ValueError(
            f"the data has {len(df)} rows and does not continue the known data, which ends at "
            f"{known.times[-1]}; lag={layout.lag} and horizon={layout.horizon} need at least "
            f"{layout.need + 1} rows: give more rows before those to predict"
        )
    return cut(table, layout, first)


def validation_windows(
    df: pd.DataFrame, known: Table, layout: Layout, time: str | None
) -> WindowSet:
    """Read validation rows and cut windows; if the rows follow the known ones, the first begin in those.

    Args:
        df: the frame.
        known: the training rows up to the last target.
        layout: columns, and the shape of windows.
        time: column of times.
    """
    table, first = _with_context(df, known, layout, time)
    if len(table) > layout.need:
        windows = cut(table, layout, first).training_windows()
        if len(windows):
            return windows
    raise ValueError(
        f"validation has {len(df)} rows and no complete window of {layout.lag} rows with its target: give "
        "more rows, or leave validation out"
    )


def new_dataset(df: pd.DataFrame, known: Table, layout: Layout, time: str | None) -> Dataset:
    """Read rows after the known ones, which are their context; rows in between are missing.

    Args:
        df: the frame.
        known: the newest known rows.
        layout: columns, and the shape of windows.
        time: column of times.
    """
    end = known.times[-1]
    times = times_like(df, known, time, continues=True)
    if times[0] <= end:
        raise ValueError(
            f"the data begins at {times[0]}, and rows up to {end} are known already: give only the rows "
            "after that"
        )
    table = known.followed_by(_read_table(df, layout, known.step, times, end))
    return cut(table, layout, len(known))


def newest_rows(df: pd.DataFrame, known: Table, layout: Layout, time: str | None) -> Table:
    """Read the rows to start a forecast from: the newest up to the last target.

    Args:
        df: the frame.
        known: the rows known so far, which have the same step.
        layout: columns, and the shape of windows.
        time: column of times.
    """
    table = _read_table(df, layout, known.step, times_like(df, known, time))
    targets = table.rows_with_target(len(layout.targets))
    table = table.head(int(targets[-1]) + 1 if len(targets) else 0)
    if len(table) < layout.need:
        raise ValueError(
            f"there are {len(table)} rows up to the last target, expected at least {layout.need} to start "
            f"from (lag={layout.lag}, horizon={layout.horizon}): give more rows"
        )
    n = max(len(table) - layout.keep, 0)
    return Table(table.times[n:], table.values[n:], np.arange(len(table) - n), known.step)


def forecast_dataset(
    known: Table,
    layout: Layout,
    steps: int | None,
    future: pd.DataFrame | None,
    time: str | None,
) -> Dataset:
    """The rows after the known ones, of which known inputs alone are known.

    Args:
        known: the rows to start from.
        layout: columns, and the shape of windows.
        steps: how many rows to forecast; None for as many as ``future`` has.
        future: the known inputs of those rows.
        time: its column of times.
    """
    end = known.times[-1]
    _check_reach(layout, steps)
    positions, numbers = np.empty(0, dtype=np.int64), np.empty((0, len(layout.inputs)))
    if future is None and layout.inputs:
        times = following(end, known.step, steps or 1)
        raise ValueError(
            f"the forecast needs {_listed(layout.inputs)} in advance: give future, a frame with such "
            f"columns for the {steps} rows from {times[0]} to {times[-1]}"
        )
    if future is not None and (steps is None or layout.inputs):
        times = times_like(future, known, time, continues=True)
        later = np.asarray(times > end)
        if not later.any():
            raise ValueError(
                f"future ends at {times[-1]}, and the known data at {end}: give the rows after that"
            )
        positions = place(times[later], known.step, end) - 1
        numbers = read_columns(future.loc[later], layout.inputs)
    steps = int(positions[-1]) + 1 if steps is None else steps
    values = np.full((steps, len(layout.columns)), np.nan)
    inside = positions < steps
    values[positions[inside], : len(layout.inputs)] = numbers[inside]
    times = following(end, known.step, steps).rename(time)
    ahead = Table(times, values, np.arange(steps), known.step)
    table = known.followed_by(ahead)
    filled = fill_gaps(table.values, layout.max_gap)[len(known) :, : len(layout.inputs)]
    if np.isnan(filled).any():
        row, column = (int(i) for i in np.argwhere(np.isnan(filled))[0])
        raise MissingValuesError(
            f"the forecast needs {_listed(layout.inputs)} for {steps} rows from "
            f"{times[0]} to {times[-1]}, and {layout.inputs[column]!r} is missing at "
            f"{times[row]}: give future a value there, or forecast fewer steps"
        )
    return cut(table, layout, len(known))


def times_like(
    df: pd.DataFrame, known: Table, time: str | None, continues: bool = False
) -> pd.Index:
    """Read times of the kind that the known rows have, in their time zone.

    Args:
        df: the frame.
        known: rows with dates or with numbers.
        time: column of times.
        continues: whether rows numbered from 0, without a time column, are those after the known ones.
    """
    times = read_times(df, time)
    got, wanted = (
        "dates" if isinstance(each, pd.DatetimeIndex) else "numbers"
        for each in (times, known.times)
    )
    if got != wanted:
        raise ValueError(
            f"the rows have {got}, and the data at fit had {wanted}: give a time column or index as then"
        )
    zone = known.times.tz if isinstance(known.times, pd.DatetimeIndex) else None
    if not isinstance(times, pd.DatetimeIndex):
        numbered = time is None and isinstance(times, pd.RangeIndex) and times[0] == 0
        if numbered and continues:
            return following(known.times[-1], known.step, len(df))
        return times
    if (times.tz is None) != (zone is None):
        raise ValueError(
            f"the times' zone is {times.tz or 'not given'}, and at fit it was {zone or 'not given'}: "
            "convert them (tz_localize, tz_convert)"
        )
    return times if zone is None else times.tz_convert(zone)


def _with_context(
    df: pd.DataFrame,
    known: Table,
    layout: Layout,
    time: str | None,
    optional: Collection[str] = (),
) -> tuple[Table, int]:
    """The rows of ``df``, after the known ones if they directly continue them, and where they begin."""
    times = times_like(df, known, time)
    table = _read_table(df, layout, known.step, times, optional=optional)
    if times[0] == following(known.times[-1], known.step, 1)[0]:
        return known.followed_by(table), len(known)
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
        start = following(origin, step, 1)[0]
    values = np.full((int(positions[-1]) + 1, len(layout.columns)), np.nan)
    values[positions] = read_columns(df, layout.columns, optional)
    grid = starting(start, step, len(values)).rename(times.name)
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


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))
