"""What a forecaster gives back: frames of means, deviations and quantiles, and what goes with them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from seqgp.distributions import Student

__all__ = ["Backtest", "Evaluation", "Forecast", "check_quantiles", "column", "summary"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Forecast:
    """A forecast of many steps, on the target's own scale."""

    frame: pd.DataFrame
    """Indexed by time: ``mean``, ``std`` and quantiles ``q0.025`` ...; with several targets each
    name is preceded by its target's, as in ``load.mean``."""
    paths: Array | None
    """Draws ``(samples, steps)``, or ``(samples, steps, outputs)`` with several targets; none where
    means were fed back."""
    seed: int


@dataclass(frozen=True)
class Evaluation:
    """Predictions beside the truth, scored against two simple rivals on the same rows."""

    frame: pd.DataFrame
    """As ``predict`` gives, and the true targets in columns of their own names."""
    metrics: dict[str, pd.DataFrame]
    """For each target, rows ``model``, ``persistence``, ``ridge``, columns as
    :func:`seqgp.metrics.scores` has them; then ``cov50_error``, ``cov80_error``, ``cov95_error``, the
    sampling errors of those shares, see :func:`seqgp.metrics.share_error`."""
    pit: dict[str, Array]
    """For each target, the probability integral transform of the rows scored: uniform if the
    predicted distributions are right."""


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


def check_quantiles(quantiles: Sequence[float]) -> tuple[float, ...]:
    """The levels, sorted; refused where one is not between 0 and 1."""
    levels = tuple(sorted(float(level) for level in quantiles))
    for level in levels:
        if not 0.0 < level < 1.0:
            raise ValueError(
                f"quantiles has {level:g}, expected levels between 0 and 1 such as 0.025"
            )
    return levels


def column(target: str, name: str, targets: Sequence[str]) -> str:
    """``name`` where there is one target, else ``target.name``."""
    return name if len(targets) == 1 else f"{target}.{name}"


def summary(
    index: pd.Index,
    targets: Sequence[str],
    mean: Array,
    std: Array,
    levels: Sequence[float],
    paths: Array | None = None,
    dof: Array | float = math.inf,
    quantiles: Array | None = None,
    radius: Array | None = None,
) -> pd.DataFrame:
    """Columns ``mean``, ``std``, ``q...`` of each target from ``(n, outputs)`` arrays.

    Quantiles are those given, ``(levels, n, outputs)``, or those of the paths ``(samples, n,
    outputs)``, else of Student's t with ``dof`` degrees of freedom, a Gaussian where they are
    infinite. A ``radius`` ``(outputs,)`` adds ``low`` and ``high``, so many deviations from the mean.
    """
    tails = np.broadcast_to(dof, mean.shape[1:])
    columns = {}
    for j, target in enumerate(targets):
        columns[column(target, "mean", targets)] = mean[:, j]
        columns[column(target, "std", targets)] = std[:, j]
        for i, level in enumerate(levels):
            if quantiles is not None:
                values = quantiles[i, :, j]
            elif paths is None:
                values = Student(mean[:, j], std[:, j], float(tails[j])).quantile(level)
            else:
                values = np.quantile(paths[:, :, j], level, axis=0)
            columns[column(target, f"q{level:g}", targets)] = values
        if radius is not None:
            columns[column(target, "low", targets)] = mean[:, j] - radius[j] * std[:, j]
            columns[column(target, "high", targets)] = mean[:, j] + radius[j] * std[:, j]
    return pd.DataFrame(columns, index=index)
