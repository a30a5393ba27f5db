"""Backtests: the forecasts that a forecaster would have made, from a rolling origin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from seqgp.forecasting.model import dof_of
from seqgp.forecasting.predict import column
from seqgp.forecasting.reading import MissingValuesError
from seqgp.metrics import scores

if TYPE_CHECKING:
    from seqgp.forecasting.forecaster import Forecaster

__all__ = ["Backtest", "run_backtest"]

Array = NDArray[np.float64]


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


def run_backtest(
    forecaster: Forecaster,
    df: pd.DataFrame,
    horizon: int,
    stride: int,
    refit: bool,
    start: float | str | pd.Timestamp,
    **options: Any,
) -> Backtest:
    """Forecast from a rolling origin; see :meth:`seqgp.Forecaster.backtest`.

    Args:
        forecaster: with the options to fit with; it is not changed.
        df: all rows.
        horizon: rows to forecast from each origin.
        stride: rows between origins.
        refit: whether to fit anew at each origin, or to update.
        start: the first origin: a share of the rows, or the first time to forecast.
        **options: of :meth:`seqgp.Forecaster.forecast`.
    """
    data = forecaster.read(df)
    layout, times, step = data.layout, data.table.times, data.table.step
    rows = pd.DataFrame(data.table.values, times.rename(None), list(layout.columns))
    targets = list(layout.targets)
    origins = range(_first(times, start), len(rows) - horizon + 1, stride)
    if not origins:
        raise ValueError(
            f"no forecast of {horizon} rows fits after start={start!r} in {len(rows)} rows: start earlier, "
            "or use a shorter horizon"
        )
    # The copy is given the rows of the table, whose times are their index.
    copy = type(forecaster)(
        **forecaster.params() | {"time": None, "frequency": step if isinstance(step, str) else None}
    )
    scale: Array | None = None
    parts: list[pd.DataFrame] = []
    dofs: list[Array] = []
    known = 0  # rows that the copy has been given
    for origin in origins:
        if scale is None or refit:
            copy.fit(data.head(origin))
            scale = copy.state_.target_std if scale is None else scale
        elif np.isfinite(data.targets[known:origin]).any():
            copy.update(data.head(origin).since(known))
        known = int(times.get_indexer(copy.history_.index[-1:])[0]) + 1
        if known != origin:
            continue  # the newest row has no target to start from
        ahead = rows.iloc[origin : origin + horizon]
        try:
            frame = copy.forecast(horizon, future=ahead[list(layout.inputs)], **options).frame
        except MissingValuesError:
            continue
        part = pd.DataFrame(
            {"origin": times[origin - 1], "time": ahead.index, "step": np.arange(1, horizon + 1)}
        )
        truth, frame = ahead[targets].reset_index(drop=True), frame.reset_index(drop=True)
        parts.append(pd.concat([part, truth, frame], axis=1))
        # Free runs are mixtures of many distributions: scored as Gaussians.
        dof = math.inf if layout.runs_freely else dof_of(copy.model_)
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
