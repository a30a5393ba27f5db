"""``Forecaster``: a frame with times in, forecasts with error bars out."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import pandas as pd
from sklearn.exceptions import NotFittedError

from seqgp.data.checks import check_int
from seqgp.estimators import SequenceRegressor
from seqgp.exceptions import ArtifactError
from seqgp.forecasting.evaluate import Backtest, Evaluation, evaluate, run_backtest
from seqgp.forecasting.files import forecaster_parts
from seqgp.forecasting.fit import fit_dataset, update_dataset
from seqgp.forecasting.frames import Dataset, Layout, as_names, check_choice, check_layout
from seqgp.forecasting.model import TrainedModel, estimator_of, interval_radius
from seqgp.forecasting.predict import (
    SAMPLES,
    Forecast,
    check_kind,
    check_quantiles,
    follow_targets,
    forecast_rows,
    predict,
    prediction_frame,
)
from seqgp.forecasting.reading import Reader, as_dataset, training_dataset
from seqgp.forecasting.state import DataReport, ForecasterState
from seqgp.forecasting.times import as_dates, as_step
from seqgp.io import Arrays
from seqgp.saving import save

__all__ = ["Forecaster"]

_INTERVAL = (0.025, 0.975)


class Forecaster:
    """Forecasts of one or several columns of a time series, with calibrated error bars.

    The prediction for a time ``τ`` comes from a window of ``lag`` rows: in autoregression the
    targets and ``past_inputs`` up to ``τ - horizon``, and ``inputs`` and calendar features, known in
    advance, up to ``τ``.

    Args:
        target: column to predict, or several.
        inputs: columns known in advance, such as a plan or a weather forecast.
        past_inputs: columns known only up to the present.
        time: column of times; by default the index, if it has dates or whole numbers, and otherwise the
            rows are numbered.
        lag: rows in a window.
        horizon: steps ahead that one prediction looks. Forecasts of many steps feed predictions of
            one step back, so they need 1.
        mode: ``"autoregression"``; ``"regression"``: from inputs alone; ``"simulation"``:
            autoregression trained for long free runs, as in system identification.
        calendar: any of ``"hour"``, ``"weekday"``, ``"yearday"``, as sines and cosines.
        holidays: days marked in a further feature.
        frequency: pandas offset between rows; by default the most common step.
        missing: ``"drop"``: leave out windows with a missing value; ``"interpolate"``: fill
            gaps of up to ``max_gap`` rows first. Interpolated targets serve as inputs only: they are never
            trained on or scored, and no window has a value interpolated from its own future.
        max_gap: longest gap to interpolate, in rows.
        model: a :class:`seqgp.SequenceGP` or :class:`seqgp.SequenceNet`, not fitted, copied in
            ``fit``; None for a GP-LSTM that trains in about a minute on two cores.

    Attributes:
        model_: the fitted model.
        state_: everything else that was learned, see :class:`seqgp.forecasting.ForecasterState`.

    >>> import numpy as np
    >>> from seqgp import LSTM, SequenceGP, Training
    >>> time = pd.date_range("2024-01-01", periods=300, freq="h", name="time")
    >>> load = 10 + np.sin(2 * np.pi * time.hour / 24) + 0.1 * np.cos(np.arange(300.0))
    >>> model = SequenceGP(LSTM(hidden=4), training=Training(epochs=2), random_state=0)
    >>> forecaster = Forecaster("load", lag=24, model=model).fit(pd.DataFrame({"load": load}, time))
    >>> forecaster.forecast(3, samples=20).frame.columns.tolist()
    ['mean', 'std', 'q0.025', 'q0.975']
    """

    model_: TrainedModel
    state_: ForecasterState

    def __init__(
        self,
        target: str | Sequence[str],
        inputs: Sequence[str] = (),
        past_inputs: Sequence[str] = (),
        time: str | None = None,
        lag: int = 48,
        horizon: int = 1,
        mode: str = "autoregression",
        calendar: Sequence[str] = (),
        holidays: Sequence[Any] = (),
        frequency: str | None = None,
        missing: str = "drop",
        max_gap: int = 3,
        model: SequenceRegressor | None = None,
    ) -> None:
        self.target = target if isinstance(target, str) else tuple(target)
        self.inputs = as_names("inputs", inputs)
        self.past_inputs = as_names("past_inputs", past_inputs)
        self.time = time
        self.lag = check_int("lag", lag, least=1)
        self.horizon = check_int("horizon", horizon, least=1)
        self.mode = mode
        self.calendar = tuple(dict.fromkeys(as_names("calendar", calendar)))
        self.holidays = as_dates(as_names("holidays", holidays))
        self.frequency = None if frequency is None else as_step(frequency)
        self.missing = missing
        self.max_gap = check_int("max_gap", max_gap, least=1)
        self.model = model
        check_choice("missing", missing, ("drop", "interpolate"))
        check_layout(self.layout, time)
        if model is not None and not isinstance(model, SequenceRegressor):
            got = type(model).__name__
            raise ValueError(f"model is a {got}, expected a SequenceGP, a SequenceNet or None")

    @property
    def layout(self) -> Layout:
        """The columns and windows that the options define."""
        return Layout(
            targets=(self.target,) if isinstance(self.target, str) else self.target,
            inputs=self.inputs,
            past_inputs=self.past_inputs,
            calendar=self.calendar,
            holidays=self.holidays,
            lag=self.lag,
            horizon=self.horizon,
            mode=self.mode,
            max_gap=self.max_gap if self.missing == "interpolate" else 0,
        )

    def params(self) -> dict[str, Any]:
        """The constructor's arguments; all but ``model`` are text, numbers and tuples of text."""
        names = ("target", "inputs", "past_inputs", "time", "lag", "horizon", "mode", "calendar")
        more = ("holidays", "frequency", "missing", "max_gap", "model")
        return {name: getattr(self, name) for name in names + more}

    @property
    def estimator_(self) -> SequenceRegressor:
        """The fitted estimator: ``model_``, or the one inside it if past targets are hidden from that."""
        return estimator_of(self.model_)

    @property
    def data_report_(self) -> DataReport:
        """What ``fit`` found in the data and did about it."""
        return self._fitted().report

    @property
    def history_(self) -> pd.DataFrame:
        """The newest known rows, indexed by time; forecasts start from them."""
        known = self.reader.known
        return pd.DataFrame(known.values, known.times, list(self.layout.columns))

    @property
    def reader(self) -> Reader:
        """Reads frames as continuations of the known rows."""
        return Reader(self.layout, self.time, self._fitted().known_rows())

    def read(self, df: pd.DataFrame) -> Dataset:
        """Read a frame and cut its windows once: ``fit``, ``evaluate`` and ``update`` take parts of it."""
        return training_dataset(df, self.layout, self.time, self.frequency)

    def fit(
        self,
        df: pd.DataFrame | Dataset,
        validation: pd.DataFrame | None = None,
        stop: Callable[[], bool] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Train on the rows of ``df``.

        Args:
            df: the training rows, or the first part of what :meth:`read` returned.
            validation: rows to choose the best epoch and to calibrate on; by default the last of ``df``.
            stop: asked now and then whether to end training early, with the best state so far.
            checkpoint: file that is written after every epoch, and from which training resumes if it
                exists; see :meth:`seqgp.SequenceGP.fit`. Not in simulation mode, which trains many models.
        """
        data, held = as_dataset(df, self.layout, self.read), None
        if validation is not None:
            known = data.until_last_target().table
            held = Reader(self.layout, self.time, known).validation_windows(validation)
        self.model_, self.state_ = fit_dataset(data, self.model, held, stop, checkpoint)
        return self

    def predict(
        self,
        df: pd.DataFrame,
        quantiles: Sequence[float] = _INTERVAL,
        observed: bool = True,
        interval: float | None = None,
        adaptive: bool = False,
    ) -> pd.DataFrame:
        """Mean, standard deviation and quantiles for every row of ``df`` that has a complete window.

        Columns ``mean``, ``std``, ``q0.025`` ...; with several targets ``load.mean`` and so on.
        Other rows are NaN, counted by reason in ``frame.attrs["counts"]``. The target at a row's own time
        may be missing. In simulation mode this is one free run.

        Args:
            df: the rows, and those that the first windows need unless they continue the known data.
            quantiles: levels; quantiles are those of Student's t, in simulation mode of sampled paths.
            observed: whether ``std`` and quantiles are those of an observation, or of the latent
                function, without noise.
            interval: level of a conformal interval, 0.95 for 95%: columns ``low`` and ``high`` contain
                an observation with at least that probability, whatever the distribution, if its error
                is exchangeable with those of the validation rows, as without distribution shift; see
                :meth:`seqgp.SequenceGP.interval`.
            adaptive: whether quantiles follow the targets of ``df`` that are known when each row is
                predicted. In the long run the share of targets below each is its level, under
                distribution shift too; nothing is guaranteed for a single row. See
                :class:`seqgp.AdaptiveQuantiles`. Begin ``df`` after the training data.
        """
        state, layout, levels = self._fitted(), self.layout, check_quantiles(quantiles)
        check_kind(layout.mode, observed, interval, adaptive)
        optional = () if layout.feeds_back or adaptive else layout.targets
        data = self.reader.dataset(df, optional)
        found = predict(self.model_, state.carrier, data, observed)
        followed = follow_targets(found, data, levels) if adaptive and levels else None
        radius = None if interval is None else interval_radius(self.model_, interval)
        return prediction_frame(data, found, levels, followed, radius)

    def forecast(
        self,
        horizon: int,
        future: pd.DataFrame | None = None,
        df: pd.DataFrame | None = None,
        samples: int = SAMPLES,
        quantiles: Sequence[float] = _INTERVAL,
        seed: int = 0,
    ) -> Forecast:
        """Forecast the rows after the known data, or after the newest rows ``df``.

        If the forecaster has ``horizon=1``, samples of its predictions are fed back as past targets, and
        those of a linear autoregression as past inputs. Otherwise each row is predicted on its own, and
        its samples are independent of those of other rows.

        Args:
            horizon: how many rows.
            future: the known inputs of those rows; rows before them are ignored.
            df: newest rows to start from; by default those known.
            samples: sampled paths.
            quantiles: levels.
            seed: of the samples.
        """
        reader = self.reader if df is None else self.reader.starting_from(df)
        data = reader.forecast_dataset(check_int("horizon", horizon, least=1), future)
        return forecast_rows(self.model_, self.state_.carrier, data, quantiles, samples, seed)

    def simulate(
        self,
        df_inputs: pd.DataFrame,
        init: pd.DataFrame,
        samples: int = SAMPLES,
        quantiles: Sequence[float] = _INTERVAL,
        seed: int = 0,
        feedback: str = "sample",
    ) -> Forecast:
        """Run freely over the rows of ``df_inputs``, from the rows ``init`` right before them.

        Args:
            df_inputs: the rows, of which only the known inputs are read.
            init: at least ``lag`` rows of all columns.
            samples: sampled paths.
            quantiles: levels.
            seed: of the samples.
            feedback: ``"sample"``, or ``"mean"`` to feed means back: no paths, Gaussian quantiles.
        """
        if not self.layout.runs_freely:
            raise ValueError(
                f"simulate feeds predictions of one step back, and this forecaster has mode={self.mode!r}, "
                f"horizon={self.horizon}: use predict, or mode='autoregression' with horizon=1"
            )
        data = self.reader.starting_from(init).forecast_dataset(None, df_inputs)
        carrier = self.state_.carrier
        return forecast_rows(self.model_, carrier, data, quantiles, samples, seed, feedback)

    def evaluate(self, df: pd.DataFrame | Dataset, adaptive: bool = False) -> Evaluation:
        """Predict the rows of ``df`` and score them beside persistence and ridge, on the same rows.

        Args:
            df: the rows, or a part of what :meth:`read` returned.
            adaptive: whether quantiles, coverages and widths of the model are those of adaptive quantiles,
                see :meth:`predict`. NLPD, CRPS and PIT remain those of its distribution.
        """
        check_kind(self.mode, adaptive=adaptive)
        data = as_dataset(df, self.layout, self.reader.dataset)
        return evaluate(self.model_, self.state_, data, adaptive)

    def backtest(
        self,
        df: pd.DataFrame,
        horizon: int,
        stride: int | None = None,
        refit: bool = False,
        start: float | str | pd.Timestamp = 0.7,
        samples: int = SAMPLES,
        quantiles: Sequence[float] = _INTERVAL,
        seed: int = 0,
    ) -> Backtest:
        """Forecast from one origin after another, each time from the rows before it alone.

        A copy of this forecaster is fitted before the first origin, and updated up to each of the others.

        Args:
            df: all rows.
            horizon: rows to forecast from each origin.
            stride: rows between origins; by default ``horizon``.
            refit: whether the copy is fitted anew at each origin, instead of updated.
            start: the first origin: a share of the rows, or the first time to forecast.
            samples: sampled paths.
            quantiles: levels.
            seed: of the samples.
        """
        data = self.read(df)
        step = data.table.step
        indexed = {"time": None, "frequency": step if isinstance(step, str) else None}
        return run_backtest(
            Forecaster(**self.params() | indexed),
            data,
            check_int("horizon", horizon, least=1),
            check_int("stride", horizon if stride is None else stride, least=1),
            refit,
            start,
            samples=samples,
            quantiles=quantiles,
            seed=seed,
        )

    def update(self, df: pd.DataFrame | Dataset) -> Self:
        """Add rows after the known ones: the GP is conditioned on them as if it had had them at fit.

        The network, the kernel's parameters and the scales stay as they are. A
        :class:`seqgp.SequenceNet` has no posterior: only the newest rows change.

        ``df`` has the new rows, or is a part of what :meth:`read` returned. Times that it skips are
        missing rows; rows numbered from 0 are taken as the next ones.
        """
        data = as_dataset(df, self.layout, self.reader.new_dataset)
        self.state_ = update_dataset(self.model_, self.state_, data)
        return self

    def save(self, path: str | Path) -> None:
        """Write one file that :func:`seqgp.load` reads."""
        save(self, path)

    def parts(self) -> tuple[dict[str, Any], Arrays]:
        """Header and arrays of the fitted forecaster, for a file."""
        if not hasattr(self, "state_"):
            raise ArtifactError("the Forecaster is not fitted: call fit before save")
        return forecaster_parts(self.params(), self.model_, self.state_)

    def _fitted(self) -> ForecasterState:
        if not hasattr(self, "state_"):
            raise NotFittedError("this Forecaster is not fitted yet: call fit first")
        return self.state_
