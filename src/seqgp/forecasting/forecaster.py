"""``Forecaster``: a frame with times in, forecasts with error bars out."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import pandas as pd
from sklearn.exceptions import NotFittedError

from seqgp.data.checks import check_int
from seqgp.forecasting.backtest import run_backtest
from seqgp.forecasting.evaluation import evaluation
from seqgp.forecasting.fitting import fit_table, update_model, validation_windows
from seqgp.forecasting.options import ForecasterOptions
from seqgp.forecasting.reading import (
    frame_table,
    future_table,
    history_table,
    known_part,
    newest_table,
    times_like,
)
from seqgp.forecasting.results import Backtest, Evaluation, Forecast, check_quantiles, summary
from seqgp.forecasting.running import (
    Predicted,
    adapted,
    free_run_rows,
    predict_rows,
    prediction_frame,
    run_ahead,
)
from seqgp.forecasting.state import DataReport, ForecasterState
from seqgp.forecasting.table import Table, read_table
from seqgp.forecasting.timeline import infer_step, read_times

__all__ = ["Forecaster"]

_INTERVAL = (0.025, 0.975)
_ENDS = {0.5: (0.25, 0.75), 0.8: (0.1, 0.9), 0.95: _INTERVAL}  # of the intervals that are scored
_SAMPLES = 200


class Forecaster(ForecasterOptions):
    """Forecasts of one or several columns of a time series, with honest error bars.

    The prediction for a time ``τ`` comes from a window of ``lag`` rows: in autoregression the
    targets and ``past_inputs`` up to ``τ - horizon``, and beside them ``inputs`` and calendar features,
    known in advance, up to ``τ`` itself.

    Args:
        target: column to predict, or several.
        inputs: columns known in advance, such as a plan or a weather forecast.
        past_inputs: columns known only up to the present.
        time: column of times; without it an index of dates, or of whole numbers, is used, and
            rows are counted where there is none.
        lag: rows in a window.
        horizon: steps ahead that one prediction looks. Forecasts of many steps feed predictions of
            one step back, so they need 1.
        mode: ``"autoregression"``; ``"regression"``: from inputs alone; ``"simulation"``:
            autoregression trained for long free runs, as in system identification.
        calendar: any of ``"hour"``, ``"weekday"``, ``"yearday"``, as smooth cycles.
        holidays: days marked in a feature of their own.
        frequency: pandas offset from row to row; by default the most common step.
        missing: ``"drop"``: leave out windows that touch a missing value; ``"interpolate"``: fill
            gaps of up to ``max_gap`` rows first. Filled targets serve as inputs only: never trained
            on, never counted as truth; and no window takes a value filled from its own future.
        max_gap: longest gap to fill.
        model: a :class:`seqgp.SequenceGP` or :class:`seqgp.SequenceNet`, not fitted, copied in
            ``fit``; None for a GP-LSTM that trains in about a minute on two cores.

    Attributes:
        model_: the fitted model.
        state_: everything else that was learnt, see :class:`seqgp.forecasting.ForecasterState`.
        data_report_: what was found in the data and done about it.
        history_: the newest known rows, from which forecasts start.

    >>> import numpy as np
    >>> from seqgp import SequenceGP
    >>> time = pd.date_range("2024-01-01", periods=300, freq="h", name="time")
    >>> load = 10 + np.sin(2 * np.pi * time.hour / 24) + 0.1 * np.cos(np.arange(300.0))
    >>> model = SequenceGP(hidden=4, epochs=2, random_state=0)
    >>> forecaster = Forecaster("load", lag=24, model=model).fit(pd.DataFrame({"load": load}, time))
    >>> forecaster.forecast(3, samples=20).frame.columns.tolist()
    ['mean', 'std', 'q0.025', 'q0.975']
    """

    model_: Any
    state_: ForecasterState

    @property
    def data_report_(self) -> DataReport:
        """What was found in the data at ``fit``, and done about it."""
        return self._fitted().report

    @property
    def history_(self) -> pd.DataFrame:
        """The newest known rows, one step apart, indexed by time."""
        table = history_table(self._fitted())
        return pd.DataFrame(table.values, table.times, list(self.layout.columns))

    def fit(
        self,
        df: pd.DataFrame,
        validation: pd.DataFrame | None = None,
        stop: Callable[[], bool] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Train on the rows of ``df``.

        ``validation`` has the rows to choose the best epoch on, in place of the last of ``df``.
        ``stop`` is asked now and then whether to end training early, with the best state so far.
        ``checkpoint`` names a file that is written after every epoch and gone on from where it
        exists; see :meth:`seqgp.SequenceGP.fit`. Not in simulation mode, which trains many models.
        """
        layout = self.layout
        times = read_times(df, self.time)
        step = self.frequency or infer_step(times)
        table = read_table(df, layout, step, times)
        held = None
        if validation is not None:
            rows = read_table(validation, layout, step, read_times(validation, self.time))
            held = validation_windows(rows, table, layout, step)
        fitted = fit_table(table, layout, step, self.model, held, stop, checkpoint)
        self.model_, self.state_ = fitted.model, fitted.state
        return self

    def predict(
        self,
        df: pd.DataFrame,
        quantiles: Sequence[float] = _INTERVAL,
        observed: bool = True,
        interval: float | None = None,
        adaptive: bool = False,
    ) -> pd.DataFrame:
        """Mean, deviation and quantiles for every row of ``df`` that has a complete window.

        Columns ``mean``, ``std``, ``q0.025`` ...; with several targets ``load.mean`` and so on.
        Other rows are NaN, and ``frame.attrs["counts"]`` says how many and why. The target at a row's
        own time may be missing. A frame that directly continues the known data starts from it. In
        simulation mode this is one free run, from the first rows on.

        What the columns are about:

        - an observation, by default: ``std`` and the quantiles are those of Student's t with the
          model's ``dof_``, in simulation mode those of sampled runs. They hold if the model is right;
        - the latent function, with ``observed=False``: what observations scatter around, without
          the noise. Fewer observations than the level says lie between its quantiles;
        - the calibrated interval, with ``interval=0.95``: ``low`` and ``high`` hold an observation with
          at least that probability, whatever the distribution, if its error is exchangeable with
          those of the validation rows, as without drift; see :meth:`seqgp.SequenceGP.interval`;
        - adaptive quantiles, with ``adaptive=True``: the quantiles follow the targets of ``df`` that
          are known when each row is predicted, ``horizon`` rows before it. In the long run the share
          of targets below each is its level, whatever the data does, drift included; of a single
          row nothing is promised. See :class:`seqgp.AdaptiveQuantiles`. Rows of the training data
          have smaller errors than new ones: begin ``df`` after them.
        """
        levels = check_quantiles(quantiles)
        state, layout = self._fitted(), self.layout
        self._check_kind(observed, interval, adaptive)
        optional = () if layout.feeds_back or adaptive else layout.targets
        table, first = frame_table(df, layout, state, self.time, optional)
        found = self._predicted(table, first, observed=observed)
        follow = adapted(found, table, layout, levels) if adaptive and levels else None
        radius = None if interval is None else self.model_.fitted_.calibration.radius(interval)
        return self._frame(df, table, found, levels, follow, radius)

    def forecast(
        self,
        horizon: int,
        future: pd.DataFrame | None = None,
        df: pd.DataFrame | None = None,
        samples: int = _SAMPLES,
        quantiles: Sequence[float] = _INTERVAL,
        seed: int = 0,
    ) -> Forecast:
        """Forecast the ``horizon`` rows after the known data, or after the newest rows ``df``.

        ``future`` has the known inputs of those rows (rows before them are ignored). With
        ``horizon=1`` at construction the model runs freely, draws of its predictions fed back as past
        targets; past inputs are carried forward by a linear autoregression. Else each row is predicted
        on its own, and its draws are independent of the other rows'.
        """
        state, layout = self._fitted(), self.layout
        known = history_table(state) if df is None else newest_table(df, layout, state, self.time)
        table = future_table(known, layout, state, horizon, future, self.time)
        return self._run(table, len(known), samples, quantiles, seed)

    def simulate(
        self,
        df_inputs: pd.DataFrame,
        init: pd.DataFrame,
        samples: int = _SAMPLES,
        quantiles: Sequence[float] = _INTERVAL,
        seed: int = 0,
        feedback: str = "sample",
    ) -> Forecast:
        """Run freely over the rows of ``df_inputs``, from the rows ``init`` right before them.

        ``init`` has at least ``lag`` rows of all columns; of ``df_inputs`` only the known inputs are
        looked at. ``feedback="mean"`` feeds means back in place of draws: no paths, Gaussian quantiles.
        """
        if self.mode == "regression" or self.horizon > 1:
            raise ValueError(
                f"simulate feeds predictions of one step back, and this forecaster has mode={self.mode!r}, "
                f"horizon={self.horizon}: use predict, or mode='autoregression' with horizon=1"
            )
        state, layout = self._fitted(), self.layout
        known = newest_table(init, layout, state, self.time)
        table = future_table(known, layout, state, None, df_inputs, self.time)
        return self._run(table, len(known), samples, quantiles, seed, feedback)

    def evaluate(self, df: pd.DataFrame, adaptive: bool = False) -> Evaluation:
        """Predict the rows of ``df`` and score them beside persistence and ridge, on the same rows.

        With ``adaptive`` the model's quantiles, coverage and widths are those of intervals that follow
        the targets, as in :meth:`predict`. NLPD, CRPS and PIT are those of its distribution, and
        persistence and ridge stay as they are.
        """
        state, layout = self._fitted(), self.layout
        self._check_kind(adaptive=adaptive)
        table, first = frame_table(df, layout, state, self.time)
        model = self._predicted(table, first)
        ridge = self._predicted(table, first, model=state.ridge)
        follow = None
        if adaptive:
            follow = {level: adapted(model, table, layout, ends) for level, ends in _ENDS.items()}
        shown = None if follow is None else follow[0.95]
        frame = self._frame(df, table, model, _INTERVAL, shown)
        return evaluation(frame, table, layout, state, model, ridge, follow)

    def backtest(
        self,
        df: pd.DataFrame,
        horizon: int,
        stride: int | None = None,
        refit: bool = False,
        start: float | str | pd.Timestamp = 0.7,
        samples: int = _SAMPLES,
        quantiles: Sequence[float] = _INTERVAL,
        seed: int = 0,
    ) -> Backtest:
        """Forecast ``horizon`` rows from one origin after another, knowing only what came before.

        The first origin is at ``start``: a share of the rows, or the first time to forecast; the
        others follow ``stride`` rows apart (by default ``horizon``). A copy of this forecaster is
        fitted on the rows before the first origin, and then updated with the rows up to each of the
        others, or with ``refit`` fitted anew. This one is not changed.
        """
        return run_backtest(
            self,
            df,
            check_int("horizon", horizon, least=1),
            check_int("stride", horizon if stride is None else stride, least=1),
            refit,
            start,
            samples=samples,
            quantiles=quantiles,
            seed=seed,
        )

    def update(self, df: pd.DataFrame) -> Self:
        """Add rows after the known ones: the GP is conditioned on them as if it had had them at fit.

        The network, the kernel's parameters and the scales stay as they are. Rows may be skipped, and
        count as missing. A :class:`seqgp.SequenceNet` has no posterior: only the newest rows change.
        Rows with plain numbers from 0 are taken as the next ones.
        """
        layout, state = self.layout, self._fitted()
        known = history_table(state)
        times = times_like(df, self.time, state, after=known.times[-1])
        if times[0] <= known.times[-1]:
            raise ValueError(
                f"the data begins at {times[0]}, and rows up to {known.times[-1]} are known already: give "
                "only the rows after that"
            )
        new = known_part(read_table(df, layout, state.step, times, known.times[-1]), layout)
        if not len(new):
            raise ValueError("no row of the data has a target: there is nothing to update with")
        self.state_ = update_model(self.model_, state, layout, known, new)
        return self

    def save(self, path: str | Path) -> None:
        """Write one file that :func:`seqgp.load` reads."""
        from seqgp.saving import save

        save(self, path)

    def _fitted(self) -> ForecasterState:
        if not hasattr(self, "state_"):
            raise NotFittedError("this Forecaster is not fitted yet: call fit first")
        return self.state_

    def _predicted(
        self, table: Table, first: int, model: Any = None, observed: bool = True
    ) -> Predicted:
        """Predictions of the rows from ``first`` on, as ``predict`` gives them."""
        model = self.model_ if model is None else model
        if self.mode != "simulation":
            options = {} if observed else {"observed": False}
            return predict_rows(model, table, self.layout, first, **options)
        if not observed:
            raise ValueError(
                "observed=False has no meaning in simulation mode: a free run feeds observations back"
            )
        carrier = self.state_.carrier
        return free_run_rows(model, carrier, table, self.layout, first, samples=_SAMPLES)

    def _run(
        self,
        table: Table,
        start: int,
        samples: int,
        quantiles: Sequence[float],
        seed: int,
        feedback: str = "sample",
    ) -> Forecast:
        """Forecast the rows from ``start`` to the end of the table."""
        levels = check_quantiles(quantiles)
        found = run_ahead(
            self.model_,
            self.state_.carrier,
            table,
            self.layout,
            start,
            samples=check_int("samples", samples, least=1),
            seed=seed,
            feedback=feedback,
        )
        targets, times = self.layout.targets, table.times[start:]
        # Draws of a free run have a shape of their own; single predictions are Student's t.
        drawn = found.paths if self.layout.feeds_back and self.horizon == 1 else None
        frame = summary(
            times.rename(self.time), targets, found.mean, found.std, levels, drawn, found.dof
        )
        paths = found.paths
        if paths is not None and len(targets) == 1:
            paths = paths[..., 0]
        return Forecast(frame, paths, seed)

    def _frame(
        self,
        df: pd.DataFrame,
        table: Table,
        found: Predicted,
        levels: Sequence[float],
        quantiles: Any = None,
        radius: Any = None,
    ) -> pd.DataFrame:
        name = df.index.name if self.time is None else self.time
        return prediction_frame(table, self.layout, found, levels, name, quantiles, radius)

    def _check_kind(
        self, observed: bool = True, interval: float | None = None, adaptive: bool = False
    ) -> None:
        """Refuse intervals that there are none of."""
        if interval is not None and not 0.0 < interval < 1.0:
            raise ValueError(f"interval={interval!r} must be between 0 and 1: 0.95 is 95%")
        asked = ["interval"] * (interval is not None) + ["adaptive"] * adaptive
        if asked and self.mode == "simulation":
            raise ValueError(
                f"{asked[0]} has no meaning in simulation mode: errors of a free run grow with its "
                "length, and no truth comes in on the way. Use the quantiles, which are those of "
                "sampled runs"
            )
        if asked and not observed:
            raise ValueError(
                f"{asked[0]} is about observations, and observed=False asks for the latent function, "
                "whose errors nobody sees: leave one of them out"
            )
