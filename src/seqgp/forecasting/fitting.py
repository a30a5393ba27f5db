"""What ``Forecaster.fit`` does with a table: report on it, train on its windows, fit the rivals."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from seqgp.data import WindowSet
from seqgp.encoders import LSTM
from seqgp.estimators import SequenceGP, SequenceRegressor
from seqgp.forecasting.baselines import fit_linear, persistence_errors
from seqgp.forecasting.multistep import fit_multistep
from seqgp.forecasting.reading import known_part
from seqgp.forecasting.state import DataReport, ForecasterState
from seqgp.forecasting.table import Cut, Layout, Table, cut, fill_gaps, joined
from seqgp.forecasting.timeline import Step, following
from seqgp.training import Training

__all__ = [
    "Fitted",
    "default_model",
    "fit_table",
    "longest_run",
    "update_model",
    "validation_windows",
]

Array = NDArray[np.float64]

_HELD = 0.2  # share of the windows, the last, on which a model for free runs is chosen
_LEAST_HELD = 10
_STEPS_A_FIT = 12_000_000  # rows of windows seen in all epochs: a minute on two cores


@dataclass(frozen=True)
class Fitted:
    """The trained model and the state beside it."""

    model: Any
    state: ForecasterState


def default_model(windows: WindowSet) -> SequenceGP:
    """A GP-LSTM for those windows: the more there are, the fewer passes over them."""
    epochs = int(np.clip(_STEPS_A_FIT // (len(windows) * windows.lag), 5, 50))
    return SequenceGP(
        LSTM(hidden=64), training=Training(epochs=epochs, patience=10, lr=3e-3), random_state=0
    )


def fit_table(
    table: Table,
    layout: Layout,
    step: Step,
    model: SequenceRegressor | None,
    validation: WindowSet | None,
    stop: Callable[[], bool] | None,
    checkpoint: str | os.PathLike[str] | None,
) -> Fitted:
    """Train on every complete window of the table's known part that has its target."""
    if checkpoint is not None and layout.mode == "simulation":
        raise ValueError(
            "checkpoint is of one training, and mode='simulation' trains several models after one "
            "another: leave checkpoint out, or use mode='autoregression'"
        )
    _check_columns(table, layout)
    whole, table = table, known_part(table, layout)
    if len(table) < layout.need + 2:
        raise ValueError(
            f"the data has {len(table)} rows up to its last target; lag={layout.lag} and "
            f"horizon={layout.horizon} need at least {layout.need + 2}: use a shorter lag, or more rows"
        )
    pieces = cut(table, layout)
    used = pieces.complete & pieces.observed
    if used.sum() < 2:
        raise ValueError(
            f"of {len(used)} windows of {layout.lag} rows only {int(used.sum())} have no missing value, "
            "expected at least 2: use a shorter lag, fill the gaps (missing='interpolate' does so up "
            "to max_gap rows), or leave out columns with many gaps"
        )
    windows = pieces.windows.subset(used)
    estimator = default_model(windows) if model is None else clone(model)
    scores: dict[str, float] = {}
    if layout.mode == "simulation":
        train, held = _hold_out(windows) if validation is None else (windows, validation)
        found = fit_multistep(estimator, train, longest_run(held), stop=stop)
        estimator, scores = found.model, found.scores
    else:
        estimator.fit(windows, validation=validation, stop=stop, checkpoint=checkpoint)

    y = windows.y.reshape(len(windows), -1)
    last = table.times[-1]
    zone = table.times.tz if isinstance(table.times, pd.DatetimeIndex) else None
    dated = isinstance(table.times, pd.DatetimeIndex)
    state = ForecasterState(
        kind="time" if dated else "row",
        step=step,
        end=last.isoformat() if dated else int(last),
        timezone=None if zone is None else str(zone),
        history=_newest(table, layout),
        target_mean=y.mean(0),
        target_std=y.std(0),
        persistence_std=persistence_errors(table.targets(layout), layout.horizon),
        ridge=fit_linear(windows, y),
        carrier=None,
        report=_report(whole, table, layout, step, pieces),
        simulation_scores=scores,
    )
    return Fitted(estimator, _with_carrier(state, table, layout, pieces))


def validation_windows(rows: Table, table: Table, layout: Layout, step: Step) -> WindowSet:
    """Windows of validation rows; where these follow the training table, the first begin in it."""
    known = known_part(table, layout)
    given, first = len(rows.own), 0
    if len(known) and rows.times[0] == following(known.times[-1], step, 1)[0]:
        rows, first = joined(known, rows), len(known)
    if len(rows) > layout.need:
        pieces = cut(rows, layout)
        chosen = pieces.complete & pieces.observed & (pieces.windows.time >= first)
        if chosen.any():
            return pieces.windows.subset(chosen)
    raise ValueError(
        f"validation has {given} rows and no complete window of {layout.lag} rows with its target: give "
        "more rows, or leave validation out"
    )


def update_model(
    model: Any, state: ForecasterState, layout: Layout, known: Table, new: Table
) -> ForecasterState:
    """Condition the model on the windows of the ``new`` rows after ``known``; the state from then on."""
    table = joined(known, new)
    added = 0
    if len(table) > layout.need:
        pieces = cut(table, layout)
        used = pieces.complete & pieces.observed & (pieces.windows.time >= len(known))
        added = int(used.sum())
        if added and hasattr(model, "update"):  # a plain network has no posterior
            model.update(pieces.windows.subset(used))
    end = table.times[-1]
    report = replace(
        state.report,
        updated_rows=state.report.updated_rows + len(new.own),
        updated_windows=state.report.updated_windows + added,
    )
    return replace(
        state,
        end=end.isoformat() if state.kind == "time" else int(end),
        history=_newest(table, layout),
        report=report,
    )


def _newest(table: Table, layout: Layout) -> Array:
    return table.values[len(table) - min(layout.keep, len(table)) :].copy()


def _with_carrier(
    state: ForecasterState, table: Table, layout: Layout, pieces: Cut
) -> ForecasterState:
    """With a linear model of the past inputs, where runs of many steps will ask for one."""
    k, q = len(layout.inputs), len(layout.past_inputs)
    if not q or not layout.feeds_back or layout.horizon > 1:
        return state
    past = table.values[pieces.windows.time, k : k + q]
    used = pieces.complete & np.isfinite(past).all(1)
    return replace(state, carrier=fit_linear(pieces.windows.subset(used), past[used]))


def _check_columns(table: Table, layout: Layout) -> None:
    for name, values in zip(layout.columns, table.values.T, strict=True):
        if not np.isfinite(values).any():
            raise ValueError(
                f"column {name!r} has no value at all in {len(table.own)} rows: leave it out, or check "
                "how the file was read"
            )


def _report(whole: Table, table: Table, layout: Layout, step: Step, pieces: Cut) -> DataReport:
    filled = np.isfinite(fill_gaps(table.values, layout.max_gap)) & ~np.isfinite(table.values)
    missing = np.isnan(table.values[table.own])
    spread = np.nanmax(table.values, axis=0) - np.nanmin(table.values, axis=0)
    named = dict(zip(layout.columns, range(len(layout.columns)), strict=True))
    return DataReport(
        rows=len(whole.own),
        first=str(table.times[0]),
        last=str(table.times[-1]),
        step=str(step),
        rows_without_target_at_end=len(whole.own) - len(table.own),
        missing_times=len(table) - len(table.own),
        missing_values={name: int(missing[:, j].sum()) for name, j in named.items()},
        interpolated_values={name: int(filled[:, j].sum()) for name, j in named.items()},
        constant_columns=[name for name, j in named.items() if spread[j] == 0],
        features=layout.features,
        windows=len(pieces.complete),
        windows_incomplete=int((~pieces.complete).sum()),
        windows_without_target=int((pieces.complete & ~pieces.observed).sum()),
        windows_used=int((pieces.complete & pieces.observed).sum()),
    )


def longest_run(windows: WindowSet) -> WindowSet:
    """The longest part without a gap in time."""
    borders = np.flatnonzero(np.diff(windows.time) != 1) + 1
    runs = np.split(np.arange(len(windows)), borders)
    longest = max(runs, key=len)
    if len(longest) < _LEAST_HELD:
        raise ValueError(
            f"the longest stretch of validation rows without a gap has {len(longest)} windows, expected "
            f"at least {_LEAST_HELD}: use more rows, a shorter lag, or missing='interpolate'"
        )
    return windows.subset(longest)


def _hold_out(windows: WindowSet) -> tuple[WindowSet, WindowSet]:
    """The windows before the held ones, and the held ones: a stretch of the last without a gap."""
    tail = windows.subset(slice(len(windows) - max(int(_HELD * len(windows)), 1), None))
    held = longest_run(tail)
    return windows.subset(windows.time < held.time[0]), held
