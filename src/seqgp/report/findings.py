"""What the report is about, computed once: scores of the right rows, the model, the latent space."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from seqgp.estimators import SequenceGP
from seqgp.forecasting import (
    Evaluation,
    Forecaster,
    ForecasterState,
    InputsOnly,
    MissingValuesError,
)
from seqgp.forecasting.columns import read_columns
from seqgp.forecasting.predict import column
from seqgp.forecasting.times import time_grid
from seqgp.gp import GP
from seqgp.kernels import lengthscale
from seqgp.means import LinearMean
from seqgp.plots.style import thin

__all__ = ["Findings", "Latent", "Learned", "gather"]

Array = NDArray[np.float64]

_LEAST_NEW = 30  # rows after the training data that are enough for scores of their own
_LEAST_AHEAD, _MOST_AHEAD = 24, 200  # steps of the forecast shown, by length of a window
_MOST_WINDOWS = 3000  # in the latent space


@dataclass(frozen=True)
class Learned:
    """What training and calibration found; arrays ``(outputs,)``, in the targets' units."""

    kind: str
    """Class of the estimator."""
    options: dict[str, Any]
    """Its constructor arguments."""
    history: pd.DataFrame
    """Training curves by epoch."""
    best_epoch: int
    members: int
    """Size of the ensemble."""
    validation_rows: int
    """Rows that the calibration was fitted on; 0 if there was none."""
    scale: Array
    """Calibration factor on the standard deviation."""
    dof: Array
    """Degrees of freedom of Student's t, infinite for a Gaussian."""
    shift: Array
    """Correction of the mean for distribution shift; 0 if there is none."""
    heteroscedastic: NDArray[np.bool_]
    """Whether the noise depends on the window."""
    noise: Array | None
    """Standard deviation of the GP's noise; None without a GP."""
    signal: Array | None
    """Standard deviation of the GP's prior; None if the kernel has no such parameter."""
    lengthscales: Array | None
    """``(outputs, d)``; None if the kernel has none."""
    columns: dict[str, tuple[float, float]]
    """Mean and standard deviation in training by column."""

    @property
    def constant_width(self) -> bool:
        """Whether all intervals of a target have the same width."""
        return self.noise is None and not self.heteroscedastic.any()


@dataclass(frozen=True)
class Latent:
    """Windows of the data in the latent space, evenly thinned."""

    H: Array
    """``(n, d)``."""
    y: Array
    """Measured targets ``(n, outputs)``, NaN where not known."""
    std: Array
    """Predicted standard deviation ``(n, outputs)``, in the targets' units."""
    part: Array | None
    """What the best member adds to the linear mean ``(n, outputs)``; None without such a mean."""
    windows: int
    """Number of windows before thinning."""


@dataclass(frozen=True)
class Findings:
    """A fitted forecaster and what was found on the rows given."""

    forecaster: Forecaster
    learned: Learned
    evaluation: Evaluation
    given: pd.DataFrame
    """The rows scored, and those before them that the first windows need."""
    rows: int
    """Number of rows before training data was left out."""
    left_out: int
    """Rows left out because the model was trained on them."""
    seen: int | None
    """Rows scored although the model was trained on them; None if that is unknown."""
    ahead: pd.DataFrame | None
    """A multi-step forecast of the last rows, beside the truth; None if the model cannot make one."""
    latent: Latent | None
    """None for a model without a GP."""

    @property
    def targets(self) -> tuple[str, ...]:
        """The predicted columns."""
        return self.forecaster.layout.targets

    @property
    def state(self) -> ForecasterState:
        """The forecaster's fitted state."""
        return self.forecaster.state_

    def column(self, frame: pd.DataFrame, target: str, name: str) -> pd.Series[float]:
        """Values of ``mean``, ``std`` or a quantile such as ``q0.025`` of a target."""
        return frame[column(target, name, self.targets)]


def gather(forecaster: Forecaster, df: pd.DataFrame) -> Findings:
    """Evaluate a fitted forecaster on a table.

    Args:
        forecaster: fitted.
        df: rows with its columns, targets included. If enough of them come after the training data,
            only those are scored.
    """
    end = forecaster.history_.index[-1]
    state, layout = forecaster.state_, forecaster.layout
    times = forecaster.reader.times(df)
    # A default index of pandas does not identify the rows.
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
        learned=_learned(forecaster),
        evaluation=evaluation,
        given=given,
        rows=len(df),
        left_out=int((~later).sum()) if given is not df else 0,
        seen=_seen(forecaster, evaluation) if named else None,
        ahead=_ahead(forecaster, given, evaluation),
        latent=_latent(forecaster, given),
    )


def _seen(forecaster: Forecaster, evaluation: Evaluation) -> int:
    """Number of predicted rows that lie in the training data."""
    state = forecaster.state_
    known = forecaster.history_.index
    first: Any = (
        pd.Timestamp(state.report.first) if state.kind == "time" else int(state.report.first)
    )
    frame = evaluation.frame.dropna(subset=[evaluation.frame.columns[0]])
    return int(((frame.index >= first) & (frame.index <= known[-1])).sum())


def _ahead(forecaster: Forecaster, df: pd.DataFrame, evaluation: Evaluation) -> pd.DataFrame | None:
    """A forecast of the last rows from those before them."""
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


def _learned(forecaster: Forecaster) -> Learned:
    """The one place that reads parameters from the estimator."""
    estimator, layout = forecaster.estimator_, forecaster.layout
    shape = (len(layout.targets),)
    fitted, best = estimator.fitted_, estimator.fitted_.members[0]
    target, inputs, calibration = fitted.y_scaler, fitted.x_scaler, fitted.calibration
    unit = np.broadcast_to(target.scale, shape)
    noise = signal = lengthscales = None
    if isinstance(best.layer, GP):
        gp = best.layer
        noise = np.sqrt(np.broadcast_to(gp.noise.detach().cpu().numpy(), shape)) * unit
        variance = getattr(gp.kernel, "outputscale", None)
        if variance is not None:
            signal = np.sqrt(np.broadcast_to(variance.detach().cpu().numpy(), shape)) * unit
        lengths = lengthscale(gp.kernel)
        if lengths is not None:
            lengthscales = np.broadcast_to(lengths.cpu().numpy(), (*shape, lengths.shape[-1]))
    scaling = zip(layout.features, inputs.shift, inputs.scale, strict=True)
    columns = {name: (float(mean), float(std)) for name, mean, std in scaling}
    for name, mean, std in zip(
        layout.targets, np.broadcast_to(target.shift, shape), unit, strict=True
    ):
        columns[name] = (float(mean), float(std))
    hidden = ", past targets hidden" if isinstance(forecaster.model_, InputsOnly) else ""
    return Learned(
        kind=f"{type(estimator).__name__}{hidden}",
        options=estimator.get_params(deep=False),
        history=estimator.history_,
        best_epoch=best.record.best_epoch,
        members=len(fitted.members),
        validation_rows=calibration.rows,
        scale=np.sqrt(np.broadcast_to(calibration.scale, shape)),
        dof=np.broadcast_to(estimator.dof_, shape),
        shift=np.broadcast_to(calibration.shift, shape) * unit,
        heteroscedastic=(calibration.noise is not None) & (calibration.trust > 0),
        noise=noise,
        signal=signal,
        lengthscales=lengthscales,
        columns=columns,
    )


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
    fitted, best = estimator.fitted_, estimator.fitted_.members[0]
    encoded = best.encode(fitted.inputs(X))
    shape = (len(X), len(layout.targets))
    part = None
    if isinstance(fitted.mean, LinearMean):
        part = best.predict(encoded).mean.cpu().numpy().reshape(shape) * fitted.y_scaler.scale
    return Latent(
        H=encoded.latent.cpu().numpy(),
        y=data.targets[windows.time],
        std=np.reshape(std, shape),
        part=part,
        windows=len(rows),
    )
