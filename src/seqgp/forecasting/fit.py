"""What ``Forecaster.fit`` and ``update`` do with a dataset."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from seqgp.data import WindowSet
from seqgp.estimators import SequenceRegressor
from seqgp.forecasting.evaluate import persistence_std
from seqgp.forecasting.frames import Dataset, Layout, Table, fill_gaps
from seqgp.forecasting.model import (
    Linear,
    TrainedModel,
    default_model,
    fit_linear,
    train,
    update,
)
from seqgp.forecasting.simulate import fit_multistep
from seqgp.forecasting.state import DataReport, ForecasterState

__all__ = ["fit_dataset", "update_dataset"]

Array = NDArray[np.float64]


def fit_dataset(
    data: Dataset,
    model: SequenceRegressor | None = None,
    validation: WindowSet | None = None,
    stop: Callable[[], bool] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> tuple[TrainedModel, ForecasterState]:
    """Train on every complete window whose targets are known, and fit the baselines on the same windows.

    Args:
        data: all rows up to its end.
        model: the options to train with; None for the default model.
        validation: windows to choose the epoch and to calibrate on; None for the last of ``data``.
        stop: asked now and then whether to end training early.
        checkpoint: file to resume training from.
    """
    layout, known = data.layout, data.until_last_target()
    if data.first:
        raise ValueError(
            f"the data begins at row {data.first} of a table, and is to be fitted on from its first row: "
            "give the first part of a split"
        )
    if checkpoint is not None and layout.mode == "simulation":
        raise ValueError(
            "checkpoint is of one training, and mode='simulation' trains several models after one "
            "another: leave checkpoint out, or use mode='autoregression'"
        )
    if len(known.table) < layout.need + 2:
        raise layout.too_few_rows(len(known.table))
    windows = known.training_windows()
    if len(windows) < 2:
        raise ValueError(
            f"of {len(known.windows)} windows of {layout.lag} rows only {len(windows)} have no missing "
            "value, expected at least 2: use a shorter lag, fill the gaps (missing='interpolate' does so "
            "up to max_gap rows), or leave out columns with many gaps"
        )
    template = default_model(windows) if model is None else model
    simulation_scores: dict[str, float] = {}
    trained: TrainedModel
    if layout.mode == "simulation":
        found = fit_multistep(template, windows, validation, stop=stop)
        trained, simulation_scores = found.model, found.scores
    else:
        trained = train(template, windows, None, validation, stop, checkpoint)
    y = windows.y.reshape(len(windows), -1)
    times = known.table.times
    zone = times.tz if isinstance(times, pd.DatetimeIndex) else None
    state = ForecasterState(
        kind="time" if isinstance(times, pd.DatetimeIndex) else "row",
        step=known.table.step,
        end=_end(times),
        timezone=None if zone is None else str(zone),
        history=_history(known.table, layout),
        target_mean=y.mean(0),
        target_std=y.std(0),
        persistence_std=persistence_std(known.targets, layout.horizon),
        ridge=fit_linear(windows, y),
        carrier=_carrier(known),
        report=_report(data, known),
        simulation_scores=simulation_scores,
    )
    return trained, state


def update_dataset(model: TrainedModel, state: ForecasterState, data: Dataset) -> ForecasterState:
    """Condition the model on the windows of new rows, and return the state from then on.

    Args:
        model: trained; it is changed.
        state: before.
        data: the new rows, with the known ones as context.
    """
    end = state.known_rows().times[-1]
    if data.first >= len(data.table) or data.table.times[data.first] <= end:
        raise ValueError(f"the data has no row after {end}, up to which rows are known already")
    data = data.until_last_target()
    if not len(data):
        raise ValueError("no row of the data has a target: there is nothing to update with")
    windows = data.training_windows()
    if len(windows):
        update(model, windows)
    report = replace(
        state.report,
        updated_rows=state.report.updated_rows + len(data),
        updated_windows=state.report.updated_windows + len(windows),
    )
    history = _history(data.table, data.layout)
    return replace(state, end=_end(data.table.times), history=history, report=report)


def _end(times: pd.Index) -> str | int:
    last = times[-1]
    return last.isoformat() if isinstance(times, pd.DatetimeIndex) else int(last)


def _history(table: Table, layout: Layout) -> Array:
    return table.values[-layout.keep :].copy()


def _carrier(data: Dataset) -> Linear | None:
    """A linear autoregression of the past inputs, if free runs are to feed these back."""
    layout = data.layout
    k, q = len(layout.inputs), len(layout.past_inputs)
    if not q or not layout.runs_freely:
        return None
    past = data.table.values[data.windows.time, k : k + q]
    used = data.complete & np.isfinite(past).all(1)
    return fit_linear(data.windows.subset(used), past[used])


def _report(data: Dataset, known: Dataset) -> DataReport:
    table, layout = known.table, known.layout
    filled = np.isfinite(fill_gaps(table.values, layout.max_gap)) & ~np.isfinite(table.values)
    missing = np.isnan(table.values[table.given])
    spread = np.nanmax(table.values, axis=0) - np.nanmin(table.values, axis=0)
    return DataReport(
        rows=len(data),
        first=str(table.times[0]),
        last=str(table.times[-1]),
        step=str(table.step),
        rows_without_target_at_end=len(data) - len(known),
        missing_times=len(table) - len(known),
        missing_values={
            name: int(n) for name, n in zip(layout.columns, missing.sum(0), strict=True)
        },
        interpolated_values={
            name: int(n) for name, n in zip(layout.columns, filled.sum(0), strict=True)
        },
        constant_columns=[
            name for name, size in zip(layout.columns, spread, strict=True) if size == 0
        ],
        features=layout.features,
        windows=len(known.windows),
        windows_incomplete=int((~known.complete).sum()),
        windows_without_target=int((known.complete & ~known.observed).sum()),
        windows_used=int((known.complete & known.observed).sum()),
    )
