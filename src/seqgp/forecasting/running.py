"""Predictions for the rows of a table: each from its own window, or all in one free run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from seqgp.calibration import adaptive_quantiles
from seqgp.distributions import Student
from seqgp.forecasting.results import summary
from seqgp.forecasting.simulation import simulate, tails_of
from seqgp.forecasting.state import Linear
from seqgp.forecasting.table import Layout, Table, cut, fill_gaps, window_inputs

__all__ = [
    "Carried",
    "MissingValuesError",
    "Predicted",
    "adapted",
    "free_run_rows",
    "predict_rows",
    "prediction_frame",
    "run_ahead",
]

Array = NDArray[np.float64]


class MissingValuesError(ValueError):
    """A forecast cannot start, or not go on, because a value it needs is missing."""


@dataclass(frozen=True)
class Predicted:
    """Predictions for the ``n`` rows of a table that have one."""

    rows: NDArray[np.int64]
    """Their positions in the table, increasing, ``(n,)``."""
    mean: Array
    """``(n, outputs)``."""
    std: Array
    paths: Array | None = None
    """Draws ``(samples, n, outputs)`` of a free run."""
    dof: Array | float = math.inf
    """Degrees of freedom ``(outputs,)`` of Student's t; infinite for a Gaussian."""


@dataclass(frozen=True)
class Carried:
    """A model of the target beside one of the past inputs: together they can run freely.

    Windows end with past inputs and past targets, and so do predictions.
    """

    model: Any
    carrier: Linear

    @property
    def dof_(self) -> Array:
        """Tails of the model's outputs; past inputs are Gaussian."""
        return np.append(np.full(len(self.carrier.intercept), np.inf), tails_of(self.model))

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Mean, and with ``return_std`` deviation, ``(n, past inputs + outputs)``."""
        parts = [self.carrier.predict(X, return_std=True), self.model.predict(X, return_std=True)]
        mean, std = (
            np.concatenate([np.reshape(part[k], (len(X), -1)) for part in parts], axis=1)
            for k in (0, 1)
        )
        return (mean, std) if return_std else mean


def predict_rows(
    model: Any, table: Table, layout: Layout, first: int = 0, **options: Any
) -> Predicted:
    """Predict every row from position ``first`` on whose window is complete."""
    all_windows = cut(table, layout)
    chosen = all_windows.complete & (all_windows.windows.time >= first)
    windows = all_windows.windows.subset(chosen)
    shape = (len(windows), len(layout.targets))
    if not len(windows):
        return Predicted(windows.time, np.empty(shape), np.empty(shape))
    mean, std = model.predict(windows, return_std=True, **options)
    # The latent function is a Gaussian process's: only observations have tails of their own.
    dof = tails_of(model) if options.get("observed", True) else math.inf
    return Predicted(windows.time, np.reshape(mean, shape), np.reshape(std, shape), dof=dof)


def free_run_rows(
    model: Any,
    carrier: Linear | None,
    table: Table,
    layout: Layout,
    first: int = 0,
    *,
    samples: int,
    seed: int = 0,
    feedback: str = "sample",
) -> Predicted:
    """Predict rows in one free run: from position ``first``, or as soon as all before it is known,
    to the end, or up to the first row whose known inputs are missing."""
    pieces = cut(table, layout)
    begins = pieces.windows.time[pieces.complete & (pieces.windows.time >= first)]
    if not len(begins):
        nothing = np.empty((0, len(layout.targets)))
        return Predicted(begins, nothing, nothing)
    start = int(begins[0])
    filled = fill_gaps(table.values, layout.max_gap)
    inputs = window_inputs(table.times, filled, layout)
    known = inputs[:, : inputs.shape[1] - len(layout.past_inputs)]  # row s has those of s + 1
    missing = np.flatnonzero(~np.isfinite(known[start - 1 : -1]).all(1))
    steps = int(missing[0]) if len(missing) else len(table) - start
    run = simulate(
        model if carrier is None else Carried(model, carrier),
        known[start - layout.lag : start + steps - 1] if known.shape[1] else None,
        filled[start - layout.lag : start, len(layout.inputs) :],
        steps=steps,
        feedback=feedback,
        samples=samples,
        seed=seed,
    )
    o = len(layout.targets)
    paths = None if run.paths is None else run.paths[..., -o:]
    return Predicted(np.arange(start, start + steps), run.mean[..., -o:], run.std[..., -o:], paths)


def run_ahead(
    model: Any,
    carrier: Linear | None,
    table: Table,
    layout: Layout,
    start: int,
    *,
    samples: int,
    seed: int,
    feedback: str = "sample",
) -> Predicted:
    """Predict all rows from position ``start`` on, of which only known inputs are known."""
    if layout.feeds_back and layout.horizon == 1:
        found = free_run_rows(
            model, carrier, table, layout, start, samples=samples, seed=seed, feedback=feedback
        )
    else:
        found = predict_rows(model, table, layout, start)
        said = Student(found.mean, found.std, found.dof)
        found = replace(found, paths=said.draw(np.random.default_rng(seed), samples))
    if len(found.rows) < len(table) - start:
        raise MissingValuesError(
            f"values are missing among the {layout.need} rows up to {table.times[start - 1]} that the "
            "forecast starts from: fill them, or use missing='interpolate' (its newest row must be known)"
        )
    return found


def adapted(found: Predicted, table: Table, layout: Layout, levels: Sequence[float]) -> Array:
    """Quantiles ``(levels, n, outputs)`` that follow the truths known when each row is predicted."""
    truth = table.targets(layout)
    mean, std = np.full(truth.shape, np.nan), np.full(truth.shape, np.nan)
    mean[found.rows], std[found.rows] = found.mean, found.std
    quantiles = adaptive_quantiles(truth, mean, std, levels, found.dof, delay=layout.horizon)
    return quantiles[:, found.rows]


def prediction_frame(
    table: Table,
    layout: Layout,
    found: Predicted,
    levels: Sequence[float],
    name: Any,
    quantiles: Array | None = None,
    radius: Array | None = None,
) -> pd.DataFrame:
    """Predictions for the table's own rows, NaN where there is none; ``attrs["counts"]`` has why.

    ``quantiles`` and ``radius`` are as :func:`seqgp.forecasting.results.summary` takes them.
    """
    times = table.times.rename(name)
    some = summary(
        times[found.rows],
        layout.targets,
        found.mean,
        found.std,
        levels,
        found.paths,
        found.dof,
        quantiles,
        radius,
    )
    frame = some.reindex(times[table.own])
    predicted = int(np.isin(table.own, found.rows).sum())
    early = int((table.own < layout.need).sum())
    frame.attrs["counts"] = {
        "rows": len(table.own),
        "predicted": predicted,
        "before_first_window": early,
        "missing_values": len(table.own) - predicted - early,
    }
    return frame
