"""The options of a forecaster, checked when they are given."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from seqgp.data.checks import check_int
from seqgp.estimators import SequenceRegressor
from seqgp.forecasting.calendar import CYCLES, as_dates
from seqgp.forecasting.table import Layout
from seqgp.forecasting.timeline import as_step

__all__ = ["MISSING", "MODES", "ForecasterOptions"]

MODES = ("regression", "autoregression", "simulation")
MISSING = ("drop", "interpolate")


class ForecasterOptions:
    """Constructor of :class:`seqgp.Forecaster`, where the options are explained."""

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
        self.inputs = _names("inputs", inputs)
        self.past_inputs = _names("past_inputs", past_inputs)
        self.time = time
        self.lag = check_int("lag", lag, least=1)
        self.horizon = check_int("horizon", horizon, least=1)
        self.mode = _choice("mode", mode, MODES)
        cycles = dict.fromkeys(_names("calendar", calendar))
        self.calendar = tuple(_choice("calendar", cycle, CYCLES) for cycle in cycles)
        self.holidays = as_dates(_names("holidays", holidays))
        self.frequency = None if frequency is None else as_step(frequency)
        self.missing = _choice("missing", missing, MISSING)
        self.max_gap = check_int("max_gap", max_gap, least=1)
        self.model = model
        self._check()

    @property
    def layout(self) -> Layout:
        """The columns and windows that the options amount to."""
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

    def _check(self) -> None:
        columns = [*self.layout.columns, *([] if self.time is None else [self.time])]
        if not self.layout.targets:
            raise ValueError("target is empty: name at least one column to predict")
        for name in columns:
            if columns.count(name) > 1:
                raise ValueError(
                    f"column {name!r} is named {columns.count(name)} times among target, inputs, "
                    "past_inputs and time: name it once"
                )
        if self.target in {"mean", "std"} or re.fullmatch(r"q[0-9.]+", str(self.target)):
            raise ValueError(
                f"target {self.target!r} has the name of a column of predictions (mean, std, q0.025, "
                "...): rename it first"
            )
        if self.mode == "regression" and not self.layout.features:
            raise ValueError(
                "mode='regression' has nothing to predict from: name inputs, past_inputs or calendar "
                "features, or use mode='autoregression'"
            )
        if self.mode == "simulation" and self.horizon != 1:
            raise ValueError(
                f"mode='simulation' goes step by step: horizon={self.horizon} must be 1"
            )
        if self.model is not None and not isinstance(self.model, SequenceRegressor):
            raise ValueError(
                f"model is a {type(self.model).__name__}, expected a SequenceGP, a SequenceNet or None"
            )


def _names(what: str, names: Sequence[Any]) -> tuple[Any, ...]:
    if isinstance(names, str):
        raise ValueError(f"{what} is the text {names!r}, expected a list: write [{names!r}]")
    return tuple(names)


def _choice(what: str, value: str, choices: Sequence[str]) -> str:
    if value not in choices:
        raise ValueError(f"{what}={value!r} is not known: use one of {', '.join(choices)}")
    return value
