"""Evaluation beside two baselines, persistence (the newest known value) and ridge; backtests."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from seqgp.forecasting.frames import Dataset
from seqgp.forecasting.model import TrainedModel, dof_of
from seqgp.forecasting.predict import (
    Forecast,
    Predictions,
    column,
    follow_targets,
    predict,
    prediction_frame,
)
from seqgp.forecasting.reading import MissingValuesError
from seqgp.forecasting.state import ForecasterState
from seqgp.metrics import LEVELS, pit, scores, share_error

__all__ = ["Backtest", "Evaluation", "evaluate", "newest_known", "persistence_std", "run_backtest"]

Array = NDArray[np.float64]
_TAILS = {0.5: (0.25, 0.75), 0.8: (0.1, 0.9), 0.95: (0.025, 0.975)}  # of central intervals


@dataclass(frozen=True)
class Evaluation:
    """Predictions and true targets, with scores of the model and of two baselines on the same rows."""

    frame: pd.DataFrame
    """As ``predict`` returns it, with the true targets in columns of their own names."""
    metrics: dict[str, pd.DataFrame]
    """For each target, rows ``model``, ``persistence``, ``ridge``, columns as
    :func:`seqgp.metrics.scores` has them; then ``cov50_error``, ``cov80_error``, ``cov95_error``, the
    sampling errors of those coverages, see :func:`seqgp.metrics.share_error`."""
    pit: dict[str, Array]
    """For each target, the probability integral transform of the rows scored: uniform if the
    predictive distributions are right."""


@dataclass(frozen=True)
class Backtest:
    """Forecasts from many origins, and their scores."""

    forecasts: pd.DataFrame
    """One row for each origin and step: ``origin`` (the last known time), ``time``, ``step``, the
    true targets, and columns as :attr:`Forecast.frame` has them."""
    metrics: pd.DataFrame
    """Scores indexed by ``step``, the last row ``"all"``; with several targets by target and step."""
    skipped: int
    """Origins left out because values right before them are missing."""


def evaluate(
    model: TrainedModel, state: ForecasterState, data: Dataset, adaptive: bool = False
) -> Evaluation:
    """Predict rows and score the predictions where the target is known.

    Args:
        model: of the targets.
        state: with the baselines.
        data: the rows.
        adaptive: whether the model's quantiles, coverages and widths are those of adaptive quantiles.
    """
    layout, truth = data.layout, data.targets
    found = predict(model, state.carrier, data)
    compared = {
        "model": found,
        "persistence": _persistence(data, found.rows, state.persistence_std),
        "ridge": predict(state.ridge, state.carrier, data),
    }
    # Lower and upper ends (2, n, outputs) of adaptive intervals.
    ends: dict[float, Array] = {}
    if adaptive:
        ends = {level: follow_targets(found, data, _TAILS[level]) for level in LEVELS}
    frame = prediction_frame(data, found, _TAILS[0.95], ends.get(0.95))
    metrics, transforms = {}, {}
    for j, target in enumerate(layout.targets):
        frame[target] = truth[data.given, j]
        y = truth[found.rows, j]
        scored = np.isfinite(y) & np.isfinite(compared["persistence"].mean[:, j])
        if not scored.any():
            raise ValueError(
                f"no row has both a prediction and a true value of {target!r} to compare it with: give "
                f"rows with the target, and at least {layout.need + 1} of them in a row"
            )
        y = y[scored]
        table = {}
        for name, each in compared.items():
            dof = float(np.broadcast_to(each.dof, each.mean.shape[1:])[j])
            mean, std = each.mean[scored, j], each.std[scored, j]
            below = pit(y, mean, std, dof)
            own = {level: both[:, scored, j] for level, both in ends.items()}
            table[name] = scores(y, mean, std, state.target_std[j], dof)
            table[name] |= _coverage(y, below, own if name == "model" else {})
            if name == "model":
                transforms[target] = below
        metrics[target] = pd.DataFrame(table).T[[*table["persistence"]]].astype({"n": int})
    return Evaluation(frame, metrics, transforms)


def _persistence(data: Dataset, rows: NDArray[np.int64], std: Array) -> Predictions:
    """The newest target known at the time of each prediction, with the deviation it had in training.

    In simulation mode it is that at the start of the run, and the deviation grows as that of a
    random walk.
    """
    mean = newest_known(data.targets, data.layout.horizon)[rows]
    growth = np.ones((len(rows), 1))
    if data.layout.mode == "simulation" and len(rows):
        mean = np.broadcast_to(mean[0], mean.shape)
        growth = np.sqrt(rows - rows[0] + 1.0)[:, None]
    return Predictions(rows, mean, std * growth)


def _coverage(y: Array, below: Array, ends: dict[float, Array]) -> dict[str, float]:
    """Sampling errors of coverages; coverages and widths too of intervals with their own ``ends``."""
    found = {}
    for level in LEVELS:
        name = f"{100 * level:.0f}"
        inside = np.abs(below - 0.5) <= level / 2.0
        if level in ends:
            low, high = ends[level]
            inside = (low <= y) & (y <= high)
            found[f"cov{name}"] = float(inside.mean())
            found[f"width{name}"] = float(np.mean(high - low))
        found[f"cov{name}_error"] = share_error(inside, level)
    return found


def newest_known(targets: Array, horizon: int) -> Array:
    """The persistence forecast of each row: the newest target known ``horizon`` rows before it.

    Args:
        targets: ``(N, outputs)``, missing ones as NaN.
        horizon: in rows.
    """
    row = np.arange(len(targets))[:, None]
    newest = np.maximum.accumulate(np.where(np.isfinite(targets), row, -1))
    values = np.where(newest >= 0, np.take_along_axis(targets, np.maximum(newest, 0), 0), np.nan)
    late = np.full_like(values, np.nan)
    late[horizon:] = values[: max(len(values) - horizon, 0)]
    return late


def persistence_std(targets: Array, horizon: int) -> Array:
    """Standard deviation ``(outputs,)`` of the errors of the persistence forecast.

    Args:
        targets: ``(N, outputs)``, missing ones as NaN.
        horizon: in rows.
    """
    spread = np.nanstd(targets - newest_known(targets, horizon), axis=0)
    # A series whose steps are all alike has no spread; a density needs some.
    floor = 1e-6 * np.nanstd(targets, axis=0)
    errors: Array = np.maximum(spread, np.maximum(floor, np.finfo(float).tiny))
    return errors


class Rolling(Protocol):
    """A forecaster, as far as a backtest uses it."""

    model_: TrainedModel
    state_: ForecasterState

    @property
    def history_(self) -> pd.DataFrame: ...

    def fit(self, df: Dataset, /) -> Any: ...

    def update(self, df: Dataset, /) -> Any: ...

    @property
    def forecast(self) -> Callable[..., Forecast]: ...


def run_backtest(
    fresh: Rolling,
    data: Dataset,
    horizon: int,
    stride: int,
    refit: bool,
    start: float | str | pd.Timestamp,
    **options: Any,
) -> Backtest:
    """Forecast from a rolling origin; see :meth:`seqgp.Forecaster.backtest`.

    Args:
        fresh: not fitted, for rows whose times are their index.
        data: all rows.
        horizon: rows to forecast from each origin.
        stride: rows between origins.
        refit: whether to fit anew at each origin, or to update.
        start: the first origin: a share of the rows, or the first time to forecast.
        **options: of :meth:`seqgp.Forecaster.forecast`.
    """
    layout, times = data.layout, data.table.times
    rows = pd.DataFrame(data.table.values, times.rename(None), list(layout.columns))
    targets = list(layout.targets)
    origins = range(_first(times, start), len(rows) - horizon + 1, stride)
    if not origins:
        raise ValueError(
            f"no forecast of {horizon} rows fits after start={start!r} in {len(rows)} rows: start earlier, "
            "or use a shorter horizon"
        )
    scale: Array | None = None
    parts: list[pd.DataFrame] = []
    dofs: list[Array] = []
    known = 0  # rows that the forecaster has been given
    for origin in origins:
        if scale is None or refit:
            fresh.fit(data.head(origin))
            scale = fresh.state_.target_std if scale is None else scale
        elif np.isfinite(data.targets[known:origin]).any():
            fresh.update(data.head(origin).since(known))
        known = int(times.get_indexer(fresh.history_.index[-1:])[0]) + 1
        if known != origin:
            continue  # the newest row has no target to start from
        ahead = rows.iloc[origin : origin + horizon]
        try:
            frame = fresh.forecast(horizon, future=ahead[list(layout.inputs)], **options).frame
        except MissingValuesError:
            continue
        part = pd.DataFrame(
            {"origin": times[origin - 1], "time": ahead.index, "step": np.arange(1, horizon + 1)}
        )
        truth, frame = ahead[targets].reset_index(drop=True), frame.reset_index(drop=True)
        parts.append(pd.concat([part, truth, frame], axis=1))
        # Free runs are mixtures of many distributions: scored as Gaussians.
        dof = math.inf if layout.runs_freely else dof_of(fresh.model_)
        dofs.append(np.broadcast_to(dof, (horizon, len(targets))))
    if scale is None or not parts:
        raise ValueError(
            f"values are missing before every one of the {len(origins)} origins: use a shorter lag, "
            "another stride, or missing='interpolate'"
        )
    forecasts = pd.concat(parts, ignore_index=True)
    metrics = _metrics(forecasts, targets, scale, np.concatenate(dofs))
    return Backtest(forecasts, metrics, len(origins) - len(parts))


def _first(times: pd.Index, start: float | str | pd.Timestamp) -> int:
    """The row to forecast first."""
    if isinstance(start, float):
        if not 0.0 < start < 1.0:
            raise ValueError(
                f"start={start:g}, expected a share of the rows between 0 and 1, or a time"
            )
        return int(start * len(times))
    when: Any = start
    if isinstance(times, pd.DatetimeIndex):
        when = pd.Timestamp(start)
        if when.tzinfo is None and times.tz is not None:
            when = when.tz_localize(times.tz)
    return int(times.searchsorted(when))


def _metrics(
    forecasts: pd.DataFrame, targets: Sequence[str], scale: Array, dof: Array
) -> pd.DataFrame:
    """Scores of each target by step, then over all steps; ``dof`` is ``(rows, outputs)``."""
    tables = {}
    for target, unit, tails in zip(targets, scale, dof.T, strict=True):
        known = forecasts[forecasts[target].notna()]
        groups = [*known.groupby("step"), ("all", known)]
        tables[target] = (
            pd.DataFrame(
                {
                    name: scores(
                        group[target],
                        group[column(target, "mean", targets)],
                        group[column(target, "std", targets)],
                        float(unit),
                        tails[group.index],
                    )
                    for name, group in groups
                    if len(group)
                }
            )
            .T.astype({"n": int})
            .rename_axis("step")
        )
    if len(targets) == 1:
        return tables[targets[0]]
    return pd.concat(tables, names=["target", "step"])
