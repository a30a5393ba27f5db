"""What the report is about, computed once: scores on the right rows, and the latent space."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from seqgp.estimator import SequenceGP
from seqgp.estimator.base import SequenceRegressor
from seqgp.estimator.rows import windows_on
from seqgp.forecasting import (
    Evaluation,
    Forecaster,
    ForecasterState,
    InputsOnly,
    MissingValuesError,
)
from seqgp.forecasting.columns import read_columns
from seqgp.forecasting.times import time_grid
from seqgp.means import LinearMean
from seqgp.plots.canvas import thin
from seqgp.training import encode

__all__ = ["Findings", "Latent", "gather"]

Array = NDArray[np.float64]

_LEAST_NEW = 30  # rows after the known ones that are worth a report of their own
_LEAST_AHEAD, _MOST_AHEAD = 24, 200  # rows forecast at once, by length of a window
_MOST_WINDOWS = 3000  # looked at in the latent space


@dataclass(frozen=True)
class Latent:
    """Windows of the data in the latent space, evenly thinned."""

    H: Array
    """``(n, d)``."""
    y: Array
    """Targets ``(n, outputs)``, NaN where not known."""
    std: Array
    """Predicted deviation ``(n, outputs)``, on the targets' scale."""
    part: Array | None
    """What the GP adds to the linear mean ``(n, outputs)``; None without such a mean."""
    windows: int
    """How many windows there were."""


@dataclass(frozen=True)
class Findings:
    """A fitted forecaster and what was found on the rows given."""

    forecaster: Forecaster
    estimator: SequenceRegressor
    """Its model; of one that hides past targets, the one inside."""
    evaluation: Evaluation
    given: pd.DataFrame
    """The rows scored, and those before them that the first windows need."""
    rows: int
    """How many there were before any were left out."""
    left_out: int
    """Rows left out because the model was trained on them."""
    seen: int | None
    """Rows scored although the model was trained on them; None where that cannot be known."""
    ahead: pd.DataFrame | None
    """A forecast of the last rows at once, beside the truth; None where the model cannot make one."""
    latent: Latent | None
    """None for a model without a GP."""

    @property
    def targets(self) -> tuple[str, ...]:
        """The columns predicted."""
        return self.forecaster.layout.targets

    @property
    def state(self) -> ForecasterState:
        """What the forecaster knows beside its model."""
        return self.forecaster.state_


def gather(forecaster: Forecaster, df: pd.DataFrame) -> Findings:
    """Evaluate on the rows of ``df``; on those after the training data alone where there are enough."""
    end = forecaster.history_.index[-1]
    state, layout = forecaster.state_, forecaster.layout
    times = forecaster.reader.times(df)
    # Numbers that pandas gave to rows without any say nothing about which rows they are.
    named = state.kind == "time" or not isinstance(times, pd.RangeIndex) or times[0] != 0
    later = np.asarray(times > end)
    known = np.isfinite(read_columns(df, layout.targets)).any(1)
    given = df
    if named and (later & known).sum() >= _LEAST_NEW:
        start = time_grid(state.step, layout.need, end=end)[0] if layout.need else end
        given = df[np.asarray(times >= start) if layout.need else later]
    evaluation = forecaster.evaluate(given)
    if given is not df:  # the rows before were needed for the first windows only
        evaluation = replace(evaluation, frame=evaluation.frame[evaluation.frame.index > end])
    return Findings(
        forecaster=forecaster,
        estimator=forecaster.estimator_,
        evaluation=evaluation,
        given=given,
        rows=len(df),
        left_out=int((~later).sum()) if given is not df else 0,
        seen=_seen(forecaster, evaluation) if named else None,
        ahead=_ahead(forecaster, given, evaluation),
        latent=_latent(forecaster, given),
    )


def _seen(forecaster: Forecaster, evaluation: Evaluation) -> int:
    """Rows predicted that lie in the training data."""
    state = forecaster.state_
    known = forecaster.history_.index
    first: Any = (
        pd.Timestamp(state.report.first) if state.kind == "time" else int(state.report.first)
    )
    frame = evaluation.frame.dropna(subset=[evaluation.frame.columns[0]])
    return int(((frame.index >= first) & (frame.index <= known[-1])).sum())


def _ahead(forecaster: Forecaster, df: pd.DataFrame, evaluation: Evaluation) -> pd.DataFrame | None:
    """The rows at the end, forecast from those before them."""
    layout = forecaster.layout
    steps = min(max(layout.lag, _LEAST_AHEAD), _MOST_AHEAD, len(df) // 3)
    runs = layout.mode == "autoregression" and layout.horizon == 1
    if not runs or steps < 2 or len(df) - steps < layout.need:
        return None
    try:
        frame = forecaster.forecast(steps, future=df.iloc[-steps:], df=df.iloc[:-steps]).frame
    except MissingValuesError:
        return None
    return frame.join(evaluation.frame[list(layout.targets)])


def _latent(forecaster: Forecaster, df: pd.DataFrame) -> Latent | None:
    model, estimator = forecaster.model_, forecaster.estimator_
    if not isinstance(estimator, SequenceGP):
        return None
    layout = forecaster.layout
    data = forecaster.reader.dataset(df)
    rows = data.complete_windows()
    windows = rows.subset(thin(len(rows), _MOST_WINDOWS))
    X = model.hide_targets(windows) if isinstance(model, InputsOnly) else windows[:]
    _, std = estimator.predict(X, return_std=True)
    H = encode(
        estimator.network_, windows_on(estimator.posterior_.noise.device, X, estimator.x_scaler_)
    )
    shape = (len(X), len(layout.targets))
    part = None
    if isinstance(estimator.mean_function_, LinearMean):
        with torch.no_grad():
            mean, _ = estimator.posterior_.predict(H)
        used = estimator.calibration_.slope * estimator.y_scaler_.scale
        part = mean.cpu().numpy().reshape(shape) * used
    return Latent(
        H=H.cpu().numpy(),
        y=data.targets[windows.time],
        std=np.reshape(std, shape),
        part=part,
        windows=len(rows),
    )
