"""Forecasts from a rolling origin: what a forecaster would have said, time after time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from seqgp.forecasting.results import Backtest, column
from seqgp.forecasting.running import MissingValuesError
from seqgp.forecasting.simulation import tails_of
from seqgp.forecasting.table import read_table
from seqgp.forecasting.timeline import infer_step, read_times
from seqgp.metrics import scores

if TYPE_CHECKING:
    from seqgp.forecasting.forecaster import Forecaster

__all__ = ["run_backtest"]

Array = NDArray[np.float64]


def run_backtest(
    forecaster: Forecaster,
    df: pd.DataFrame,
    horizon: int,
    stride: int,
    refit: bool,
    start: Any,
    **options: Any,
) -> Backtest:
    """See :meth:`seqgp.Forecaster.backtest`; ``options`` go to ``forecast``."""
    layout = forecaster.layout
    times = read_times(df, forecaster.time)
    step = forecaster.frequency or infer_step(times)
    table = read_table(df, layout, step, times)
    rows = pd.DataFrame(table.values, table.times, list(layout.columns))
    targets = list(layout.targets)
    origins = range(_first(rows.index, start), len(rows) - horizon + 1, stride)
    if not origins:
        raise ValueError(
            f"no forecast of {horizon} rows fits after start={start!r} in {len(rows)} rows: start earlier, "
            "or use a shorter horizon"
        )
    # A copy on rows that are complete in time already, so the index is their time.
    copy = type(forecaster)(
        **forecaster.params() | {"time": None, "frequency": step if isinstance(step, str) else None}
    )
    scale: Any = None
    parts: list[pd.DataFrame] = []
    tails: list[Array] = []
    free = layout.feeds_back and layout.horizon == 1  # a mixture of draws, scored as a Gaussian
    for origin in origins:
        if scale is None or refit:
            copy.fit(rows.iloc[:origin])
            scale = copy.state_.target_std if scale is None else scale
        else:
            new = rows.loc[copy.history_.index[-1] :].iloc[1:]
            new = new.iloc[: origin - len(rows) + len(new)]
            if new[targets].notna().to_numpy().any():
                copy.update(new)
        if copy.history_.index[-1] != rows.index[origin - 1]:
            continue  # the newest row has no target to start from
        ahead = rows.iloc[origin : origin + horizon]
        try:
            frame = copy.forecast(horizon, future=ahead[list(layout.inputs)], **options).frame
        except MissingValuesError:
            continue
        part = pd.DataFrame(
            {
                "origin": rows.index[origin - 1],
                "time": ahead.index,
                "step": np.arange(1, horizon + 1),
            }
        )
        parts.append(
            pd.concat(
                [part, ahead[targets].reset_index(drop=True), frame.reset_index(drop=True)], axis=1
            )
        )
        dof = math.inf if free else tails_of(copy.model_)
        tails.append(np.broadcast_to(dof, (horizon, len(targets))))
    if not parts:
        raise ValueError(
            f"values are missing before every one of the {len(origins)} origins: use a shorter lag, "
            "another stride, or missing='interpolate'"
        )
    forecasts = pd.concat(parts, ignore_index=True)
    metrics = _metrics(forecasts, targets, scale, np.concatenate(tails))
    return Backtest(forecasts, metrics, len(origins) - len(parts))


def _first(times: pd.Index, start: Any) -> int:
    """The row to forecast first."""
    if isinstance(start, float):
        if not 0.0 < start < 1.0:
            raise ValueError(
                f"start={start:g}, expected a share of the rows between 0 and 1, or a time"
            )
        return int(start * len(times))
    if isinstance(times, pd.DatetimeIndex):
        start = pd.Timestamp(start)
        if start.tzinfo is None and times.tz is not None:
            start = start.tz_localize(times.tz)
    return int(times.searchsorted(start))


def _metrics(
    forecasts: pd.DataFrame, targets: Sequence[str], scale: Any, dof: Array
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
