"""Predictions for the rows of a dataset, each from its own window or all in one free run, as frames."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from seqgp.calibration import adaptive_quantiles
from seqgp.data.checks import check_int
from seqgp.distributions import Student
from seqgp.forecasting.frames import Dataset
from seqgp.forecasting.model import Linear, Model, predictive
from seqgp.forecasting.reading import MissingValuesError
from seqgp.forecasting.simulate import simulate

__all__ = [
    "SAMPLES",
    "Forecast",
    "Predictions",
    "check_kind",
    "check_quantiles",
    "column",
    "follow_targets",
    "forecast_rows",
    "predict",
    "prediction_frame",
    "run_freely",
]

Array = NDArray[np.float64]
SAMPLES = 200
"""Sampled paths of a free run, unless the user says otherwise."""


@dataclass(frozen=True)
class Forecast:
    """A forecast of many steps, on the targets' own scale."""

    frame: pd.DataFrame
    """Indexed by time: ``mean``, ``std`` and quantiles ``q0.025`` ...; with several targets each
    name is preceded by its target's, as in ``load.mean``."""
    paths: Array | None
    """Sampled paths ``(samples, steps)``, or ``(samples, steps, outputs)`` with several targets; None
    if means were fed back."""
    seed: int


@dataclass(frozen=True)
class Predictions:
    """Predictive distributions of ``n`` rows of a dataset."""

    rows: NDArray[np.int64]
    """Their positions in the table, increasing, ``(n,)``."""
    mean: Array
    """``(n, outputs)``."""
    std: Array
    paths: Array | None = None
    """Sampled paths ``(samples, n, outputs)`` of a free run."""
    dof: Array | float = math.inf
    """Degrees of freedom ``(outputs,)`` of Student's t; infinite for a Gaussian."""


def predict(
    model: Model, carrier: Linear | None, data: Dataset, observed: bool = True
) -> Predictions:
    """Predict every row that can be predicted; in simulation mode by one free run.

    Args:
        model: of the targets.
        carrier: of the past inputs, which a free run feeds back.
        data: the rows.
        observed: whether to predict an observation, or the latent function (not in simulation mode).
    """
    if data.layout.mode == "simulation":
        return run_freely(model, carrier, data, SAMPLES)
    windows = data.complete_windows()
    found = predictive(model, windows, len(data.layout.targets), observed)
    return Predictions(windows.time, found.mean, found.std, dof=found.dof)


def run_freely(
    model: Model,
    carrier: Linear | None,
    data: Dataset,
    samples: int,
    seed: int = 0,
    feedback: str = "sample",
) -> Predictions:
    """Predict rows in one free run, from the first row that can be predicted to the end.

    It ends early at the first row whose known inputs are missing.

    Args:
        model: of the targets.
        carrier: of the past inputs, which are fed back too.
        data: the rows.
        samples: sampled paths.
        seed: of the samples.
        feedback: ``"sample"`` or ``"mean"``, see :func:`seqgp.forecasting.simulate`.
    """
    layout, end = data.layout, len(data.table)
    begins = data.complete_windows().time
    if not len(begins):
        nothing = np.empty((0, len(layout.targets)))
        return Predictions(begins, nothing, nothing)
    start = int(begins[0])
    # Row s of the inputs has those known in advance of row s + 1.
    known = data.inputs[:, : data.inputs.shape[1] - len(layout.past_inputs)]
    missing = np.flatnonzero(~np.isfinite(known[start - 1 : end - 1]).all(1))
    steps = int(missing[0]) if len(missing) else end - start
    run = simulate(
        model,
        known[start - layout.lag : start + steps - 1] if known.shape[1] else None,
        data.past[start - layout.lag : start],
        steps=steps,
        feedback=feedback,
        samples=samples,
        seed=seed,
        carrier=carrier,
    )
    o = len(layout.targets)
    paths = None if run.paths is None else run.paths[..., -o:]
    return Predictions(
        np.arange(start, start + steps), run.mean[..., -o:], run.std[..., -o:], paths
    )


def forecast_rows(
    model: Model,
    carrier: Linear | None,
    data: Dataset,
    quantiles: Sequence[float],
    samples: int,
    seed: int,
    feedback: str = "sample",
) -> Forecast:
    """Forecast all rows of a dataset, of which known inputs alone are known.

    Args:
        model: of the targets.
        carrier: of the past inputs, which a free run feeds back.
        data: the rows, after those that the forecast starts from.
        quantiles: levels.
        samples: sampled paths.
        seed: of the samples.
        feedback: of a free run: ``"sample"`` or ``"mean"``.
    """
    levels, samples = check_quantiles(quantiles), check_int("samples", samples, least=1)
    layout, first = data.layout, data.first
    if layout.runs_freely:
        found = run_freely(model, carrier, data, samples, seed, feedback)
    else:
        found = predict(model, carrier, data)
    if len(found.rows) < len(data.table) - first:
        raise MissingValuesError(
            f"values are missing among the {layout.need} rows up to {data.table.times[first - 1]} that the "
            "forecast starts from: fill them, or use missing='interpolate' (its newest row must be known)"
        )
    frame = _summary(data.table.times[first:], layout.targets, found, levels)
    paths = found.paths
    if not layout.runs_freely:
        single = Student(found.mean, found.std, found.dof)
        paths = single.draw(np.random.default_rng(seed), samples)
    if paths is not None and len(layout.targets) == 1:
        paths = paths[..., 0]
    return Forecast(frame, paths, seed)


def follow_targets(found: Predictions, data: Dataset, levels: Sequence[float]) -> Array:
    """Adaptive quantiles ``(levels, n, outputs)``; see :class:`seqgp.AdaptiveQuantiles`.

    Args:
        found: predictions of the rows.
        data: the rows, with targets known ``horizon`` rows later.
        levels: of the quantiles.
    """
    truth = data.targets
    mean, std = np.full(truth.shape, np.nan), np.full(truth.shape, np.nan)
    mean[found.rows], std[found.rows] = found.mean, found.std
    delay = data.layout.horizon
    return adaptive_quantiles(truth, mean, std, levels, found.dof, delay=delay)[:, found.rows]


def prediction_frame(
    data: Dataset,
    found: Predictions,
    levels: Sequence[float],
    quantiles: Array | None = None,
    radius: Array | None = None,
) -> pd.DataFrame:
    """Predictions as a frame, with NaN in rows without one; ``attrs["counts"]`` counts these by reason.

    Args:
        data: the rows; those that the frame had are returned.
        found: predictions of some of them.
        levels: of the quantiles.
        quantiles: ``(levels, n, outputs)`` in place of those of the predictions.
        radius: ``(outputs,)`` deviations from the mean to columns ``low`` and ``high``.
    """
    times, given, layout = data.table.times, data.given, data.layout
    some = _summary(times[found.rows], layout.targets, found, levels, quantiles, radius)
    frame = some.reindex(times[given])
    predicted = int(np.isin(given, found.rows).sum())
    early = int((given < layout.need).sum())
    frame.attrs["counts"] = {
        "rows": len(given),
        "predicted": predicted,
        "before_first_window": early,
        "missing_values": len(given) - predicted - early,
    }
    return frame


def check_kind(
    mode: str, observed: bool = True, interval: float | None = None, adaptive: bool = False
) -> None:
    """Refuse kinds of predictions that do not exist; see :meth:`seqgp.Forecaster.predict`.

    Args:
        mode: of the forecaster.
        observed: whether an observation is predicted, or the latent function.
        interval: level of a conformal interval.
        adaptive: whether quantiles are adaptive.
    """
    if interval is not None and not 0.0 < interval < 1.0:
        raise ValueError(f"interval={interval!r} must be between 0 and 1: 0.95 is 95%")
    if mode == "simulation" and not observed:
        raise ValueError(
            "observed=False has no meaning in simulation mode: a free run feeds observations back"
        )
    asked = ["interval"] * (interval is not None) + ["adaptive"] * adaptive
    if asked and mode == "simulation":
        raise ValueError(
            f"{asked[0]} has no meaning in simulation mode: errors of a free run grow with its "
            "length, and no target is observed on the way. Use the quantiles, which are those of "
            "sampled paths"
        )
    if asked and not observed:
        raise ValueError(
            f"{asked[0]} is about observations, and observed=False asks for the latent function, "
            "whose errors are never observed: leave one of them out"
        )


def check_quantiles(quantiles: Sequence[float]) -> tuple[float, ...]:
    """The levels, sorted; refused if one is not between 0 and 1."""
    levels = tuple(sorted(float(level) for level in quantiles))
    for level in levels:
        if not 0.0 < level < 1.0:
            raise ValueError(
                f"quantiles has {level:g}, expected levels between 0 and 1 such as 0.025"
            )
    return levels


def column(target: str, name: str, targets: Sequence[str]) -> str:
    """Name of a column of predictions: ``name`` if there is one target, else ``target.name``.

    Args:
        target: which of the targets.
        name: ``mean``, ``std``, ``q0.025`` ...
        targets: all of them.
    """
    return name if len(targets) == 1 else f"{target}.{name}"


def _summary(
    times: pd.Index,
    targets: Sequence[str],
    found: Predictions,
    levels: Sequence[float],
    quantiles: Array | None = None,
    radius: Array | None = None,
) -> pd.DataFrame:
    """Columns ``mean``, ``std``, ``q...`` of each target.

    Quantiles are those given, else those of the paths, else those of Student's t.
    """
    dof = np.broadcast_to(found.dof, found.mean.shape[1:])
    columns = {}
    for j, target in enumerate(targets):
        mean, std = found.mean[:, j], found.std[:, j]
        columns[column(target, "mean", targets)] = mean
        columns[column(target, "std", targets)] = std
        for i, level in enumerate(levels):
            if quantiles is not None:
                values = quantiles[i, :, j]
            elif found.paths is not None:
                values = np.quantile(found.paths[:, :, j], level, axis=0)
            else:
                values = Student(mean, std, float(dof[j])).quantile(level)
            columns[column(target, f"q{level:g}", targets)] = values
        if radius is not None:
            columns[column(target, "low", targets)] = mean - radius[j] * std
            columns[column(target, "high", targets)] = mean + radius[j] * std
    return pd.DataFrame(columns, index=times)
