"""Frames given to a fitted forecaster, as tables that fit the data it knows."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pandas as pd

from seqgp.data.checks import check_int
from seqgp.forecasting.columns import read_columns
from seqgp.forecasting.running import MissingValuesError
from seqgp.forecasting.state import ForecasterState
from seqgp.forecasting.table import Layout, Table, fill_gaps, joined, read_table
from seqgp.forecasting.timeline import ending, following, place, read_times

__all__ = [
    "frame_table",
    "future_table",
    "history_table",
    "known_part",
    "newest_table",
    "times_like",
]


def known_part(table: Table, layout: Layout) -> Table:
    """Without the rows at the end that have no target: those are to be forecast."""
    known = np.flatnonzero(np.isfinite(table.targets(layout)).any(1))
    n = int(known[-1]) + 1 if len(known) else 0
    return Table(table.times[:n], table.values[:n], table.own[table.own < n])


def history_table(state: ForecasterState) -> Table:
    """The newest known rows."""
    end: Any = state.end
    if state.kind == "time":
        end = pd.Timestamp(end)
        end = end if state.timezone is None else end.tz_convert(state.timezone)
    times = ending(end, state.step, len(state.history))
    return Table(times, state.history, np.arange(len(times)))


def times_like(
    df: pd.DataFrame, time: str | None, state: ForecasterState, after: Any = None
) -> pd.Index:
    """The times of a frame, of the kind met at fit.

    Where rows have numbers, a frame numbered from 0 may be said to come ``after`` a row.
    """
    times = read_times(df, time)
    dated = isinstance(times, pd.DatetimeIndex)
    if dated != (state.kind == "time"):
        got, wanted = ("dates", "row numbers") if dated else ("no dates", "dates")
        raise ValueError(
            f"the rows have {got}, and the data at fit had {wanted}: give a time column or index as then"
        )
    if not isinstance(times, pd.DatetimeIndex):
        fresh = time is None and isinstance(times, pd.RangeIndex) and times[0] == 0
        return following(after, state.step, len(df)) if fresh and after is not None else times
    if (times.tz is None) != (state.timezone is None):
        raise ValueError(
            f"the times' zone is {times.tz or 'not given'}, and at fit it was "
            f"{state.timezone or 'not given'}: convert them (tz_localize, tz_convert)"
        )
    return times if state.timezone is None else times.tz_convert(state.timezone)


def frame_table(
    df: pd.DataFrame,
    layout: Layout,
    state: ForecasterState,
    time: str | None,
    optional: Collection[str] = (),
) -> tuple[Table, int]:
    """The rows of ``df``, after the history where they continue it, and where they begin."""
    known = history_table(state)
    times = times_like(df, time, state)
    table, first = read_table(df, layout, state.step, times, optional=optional), 0
    if times[0] == following(known.times[-1], state.step, 1)[0]:
        table, first = joined(known, table), len(known)
    if len(table) <= layout.need:
        raise ValueError(
            f"the data has {len(df)} rows and does not continue the known data, which ends at "
            f"{known.times[-1]}; lag={layout.lag} and horizon={layout.horizon} need at least "
            f"{layout.need + 1} rows: give more rows before those to predict"
        )
    return table, first


def newest_table(
    df: pd.DataFrame, layout: Layout, state: ForecasterState, time: str | None
) -> Table:
    """The newest rows of ``df`` up to its last target, from which a forecast starts."""
    rows = read_table(df, layout, state.step, times_like(df, time, state))
    table = known_part(rows, layout)
    if len(table) < layout.need:
        raise ValueError(
            f"there are {len(table)} rows up to the last target, expected at least {layout.need} to start "
            f"from (lag={layout.lag}, horizon={layout.horizon}): give more rows"
        )
    n = max(len(table) - layout.keep, 0)
    return Table(table.times[n:], table.values[n:], np.arange(len(table) - n))


def future_table(
    known: Table,
    layout: Layout,
    state: ForecasterState,
    steps: int | None,
    future: pd.DataFrame | None,
    time: str | None,
) -> Table:
    """``known`` and the ``steps`` rows after it (None: all of ``future``), with their known inputs."""
    end = known.times[-1]
    if steps is not None:
        steps = check_int("horizon", steps, least=1)
        if layout.reach and layout.horizon > 1 and steps > layout.horizon:
            raise _too_far(layout, steps)
        if layout.mode == "regression" and layout.past_inputs and steps > layout.horizon:
            raise _too_far(layout, steps)
    if future is None or (steps is not None and not layout.inputs):
        if layout.inputs:
            times = following(end, state.step, steps or 1)
            raise ValueError(
                f"the forecast needs {_listed(layout.inputs)} in advance: give future, a frame with such "
                f"columns for the {steps} rows from {times[0]} to {times[-1]}"
            )
        positions, numbers = np.empty(0, dtype=np.int64), np.empty((0, 0))
    else:
        times = times_like(future, time, state, after=end)
        later = np.asarray(times > end)
        if not later.any():
            raise ValueError(
                f"future ends at {times[-1]}, and the known data at {end}: give the rows after that"
            )
        positions = place(times[later], state.step, end) - 1
        numbers = read_columns(future.loc[later], layout.inputs)
    steps = int(positions[-1]) + 1 if steps is None else steps
    values = np.full((steps, len(layout.columns)), np.nan)
    inside = positions < steps
    values[positions[inside], : len(layout.inputs)] = numbers[inside]
    table = joined(known, Table(following(end, state.step, steps), values, np.arange(steps)))
    ahead = fill_gaps(table.values, layout.max_gap)[len(known) :, : len(layout.inputs)]
    if np.isnan(ahead).any():
        row, column = (int(i) for i in np.argwhere(np.isnan(ahead))[0])
        raise MissingValuesError(
            f"the forecast needs {_listed(layout.inputs)} for {steps} rows from "
            f"{table.times[len(known)]} to {table.times[-1]}, and {layout.inputs[column]!r} is missing at "
            f"{table.times[len(known) + row]}: give future a value there, or forecast fewer steps"
        )
    return table


def _too_far(layout: Layout, steps: int) -> ValueError:
    why = (
        "past inputs are not known any further"
        if layout.mode == "regression"
        else f"it predicts {layout.horizon} steps ahead at once"
    )
    return ValueError(
        f"{steps} steps are asked for, and this forecaster reaches {layout.horizon} ({why}): ask for at "
        f"most {layout.horizon}, or fit one with a longer horizon"
        + ("" if layout.mode == "regression" else ", or with horizon=1, which runs on freely")
    )


def _listed(names: Collection[str]) -> str:
    return ", ".join(map(repr, names))
