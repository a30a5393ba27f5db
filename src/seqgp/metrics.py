"""Scores of predictions: errors of the mean, sharpness and calibration of the distribution.

Predictive distributions are Gaussian, or Student's t where the degrees of freedom ``dof`` are finite;
``std`` is the standard deviation of either. Arguments ``y``, ``mean`` and ``std`` are arrays of one shape.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seqgp.distributions import Student

__all__ = [
    "LEVELS",
    "MATTERS",
    "clearly_off",
    "coverage",
    "coverage_error",
    "crps",
    "mae",
    "nlpd",
    "nrmse",
    "observed_coverage",
    "pinball",
    "pit",
    "pit_histogram",
    "r2",
    "rmse",
    "scores",
    "share_error",
    "width",
]

Array = NDArray[np.float64]

LEVELS = (0.50, 0.80, 0.95)
MATTERS = 0.02
"""Deviation of a coverage from its nominal level that is of no practical importance."""
_LEAST_BLOCKS = 10


def rmse(y: ArrayLike, mean: ArrayLike) -> float:
    """Root mean squared error over all values.

    >>> rmse([1.0, 2.0], [1.0, 4.0])
    1.4142135623730951
    """
    return float(np.sqrt(np.mean((np.asarray(y) - np.asarray(mean)) ** 2)))


def mae(y: ArrayLike, mean: ArrayLike) -> float:
    """Mean absolute error over all values.

    >>> mae([1.0, 2.0], [1.0, 4.0])
    1.0
    """
    return float(np.mean(np.abs(np.asarray(y) - np.asarray(mean))))


def nrmse(y: ArrayLike, mean: ArrayLike) -> float:
    """RMSE divided by the range ``max - min`` of ``y``; NaN for a constant ``y``.

    Args:
        y: measured values, ``(n,)`` or ``(n, outputs)``; the average over outputs is given.
        mean: predictions of the same shape.

    >>> nrmse([0.0, 10.0], [1.0, 9.0])
    0.1
    """
    truth, guess = _columns(y), _columns(mean)
    error = np.sqrt(np.mean((truth - guess) ** 2, axis=0))
    return float(np.mean(error / _or_nan(np.ptp(truth, axis=0))))


def r2(y: ArrayLike, mean: ArrayLike) -> float:
    """Coefficient of determination: 1 is perfect, 0 as good as the mean of ``y``; NaN for a constant ``y``.

    Args:
        y: measured values, ``(n,)`` or ``(n, outputs)``; the average over outputs is given.
        mean: predictions of the same shape.

    >>> r2([1.0, 2.0, 3.0], [1.0, 2.0, 2.0])
    0.5
    """
    truth, guess = _columns(y), _columns(mean)
    left = np.mean((truth - guess) ** 2, axis=0)
    return float(np.mean(1.0 - left / _or_nan(np.var(truth, axis=0))))


def nlpd(y: ArrayLike, mean: ArrayLike, std: ArrayLike, dof: ArrayLike = math.inf) -> float:
    """Negative log predictive density in nats per value; lower is better.

    Args:
        y: measured values.
        mean: means of the predictive distributions.
        std: their standard deviations.
        dof: their degrees of freedom, infinite for a Gaussian.

    >>> round(nlpd([0.0], [0.0], [1.0]), 4)
    0.9189
    """
    return _student(mean, std, dof).nlpd(y)


def crps(y: ArrayLike, mean: ArrayLike, std: ArrayLike, dof: ArrayLike = math.inf) -> float:
    """Continuous ranked probability score in the unit of ``y``; lower is better.

    It generalises the absolute error to distributions: for a point prediction the two are equal.

    Args:
        y, mean, std, dof: as in :func:`nlpd`.

    References:
        Strictly Proper Scoring Rules, Prediction, and Estimation, Gneiting and Raftery 2007.

    >>> round(crps([0.0], [0.0], [1.0]), 4)
    0.2337
    """
    return _student(mean, std, dof).crps(y)


def pinball(y: ArrayLike, quantile_values: ArrayLike, level: float) -> float:
    """Mean pinball (quantile) loss of predicted quantiles; lower is better.

    Args:
        y: measured values.
        quantile_values: predicted quantiles of the same shape.
        level: of the quantiles, between 0 and 1; at 0.5 the loss is half the absolute error.

    >>> pinball([1.0, 2.0], [0.0, 4.0], 0.9)
    0.55
    """
    _check_level(level)
    over = np.asarray(y) - np.asarray(quantile_values)
    return float(np.mean(np.maximum(level * over, (level - 1.0) * over)))


def coverage(
    y: ArrayLike,
    mean: ArrayLike,
    std: ArrayLike,
    level: float = 0.95,
    dof: ArrayLike = math.inf,
) -> float:
    """Share of values inside the central interval.

    Args:
        y, mean, std, dof: as in :func:`nlpd`.
        level: nominal coverage of the interval, between 0 and 1.

    >>> coverage([0.0, 3.0], [0.0, 0.0], [1.0, 1.0])
    0.5
    """
    error = np.abs(np.asarray(y) - np.asarray(mean))
    return float(np.mean(error <= _half_width(std, level, dof)))


def coverage_error(n: int, level: float = 0.95) -> float:
    """Standard error of the coverage of ``n`` independent values by a calibrated interval.

    Errors in time series are autocorrelated; there it is a lower bound, see :func:`share_error`.

    Args:
        n: number of values.
        level: nominal coverage of the interval.

    >>> round(coverage_error(100, 0.8), 4)
    0.04
    """
    _check_level(level)
    if n < 1:
        raise ValueError(f"n={n} values have no coverage: score at least one row")
    return math.sqrt(level * (1.0 - level) / n)


def share_error(inside: ArrayLike, level: float = 0.95) -> float:
    """Standard error of the share of autocorrelated rows that are inside an interval.

    Estimated from the spread of the share over √n consecutive blocks of √n rows (batch means), and
    never below :func:`coverage_error`.

    Args:
        inside: whether each row is inside its interval, ``(n,)``, in order of time.
        level: nominal coverage of the interval.

    >>> share_error([True, True, False, True], level=0.5)
    0.25
    """
    values = np.asarray(inside, dtype=np.float64)
    n = len(values)
    error = coverage_error(n, level)
    length = int(np.sqrt(n))
    if length >= _LEAST_BLOCKS:
        whole = values[n % length :].reshape(-1, length)
        error = max(error, float(whole.mean(1).std(ddof=1)) / math.sqrt(len(whole)))
    return error


def observed_coverage(pit: ArrayLike, level: float = 0.95) -> tuple[float, float]:
    """Share of rows inside their central interval, and its standard error (:func:`share_error`).

    Args:
        pit: probability integral transform ``(n,)``, in order of time.
        level: nominal coverage of the interval.

    >>> observed_coverage([0.5, 0.4, 0.999, 0.6], level=0.5)
    (0.75, 0.25)
    """
    inside = np.abs(_checked_pit(pit) - 0.5) <= level / 2.0
    return float(inside.mean()), share_error(inside, level)


def clearly_off(share: float, error: float, level: float = 0.95) -> bool:
    """Whether a coverage differs from its level by an amount that matters and is significant.

    Args:
        share: observed coverage.
        error: its standard error; a difference of two of them is significant.
        level: nominal coverage.

    >>> clearly_off(0.91, error=0.01), clearly_off(0.91, error=0.03), clearly_off(0.94, error=0.001)
    (True, False, False)
    """
    return abs(share - level) > max(MATTERS, 2.0 * error)


def width(std: ArrayLike, level: float = 0.95, dof: ArrayLike = math.inf) -> float:
    """Mean width of the central interval.

    Args:
        std, dof: as in :func:`nlpd`.
        level: nominal coverage of the interval.

    >>> round(width([1.0, 3.0]), 4)
    7.8399
    """
    _check_level(level)
    return float(2.0 * np.mean(_half_width(std, level, dof)))


def pit(y: ArrayLike, mean: ArrayLike, std: ArrayLike, dof: ArrayLike = math.inf) -> Array:
    """Probability integral transform: the predicted probability of a value below the measured one.

    In [0, 1], of the shape of ``y``; uniformly distributed if the predictions are calibrated.

    Args:
        y, mean, std, dof: as in :func:`nlpd`.

    >>> pit([0.0, 9.0], [0.0, 0.0], [1.0, 1.0])
    array([0.5, 1. ])
    """
    return _student(mean, std, dof).pit(y)


def pit_histogram(pit: ArrayLike, bins: int = 20) -> tuple[Array, Array]:
    """Edges ``(bins + 1,)`` over [0, 1] and density ``(bins,)``, 1 everywhere if calibrated.

    A peak in the middle means predictive distributions that are too wide, peaks at both ends too narrow.

    Args:
        pit: probability integral transform, any shape.
        bins: number of bins.

    >>> edges, density = pit_histogram([0.1, 0.2, 0.7, 0.9], bins=2)
    >>> edges, density
    (array([0. , 0.5, 1. ]), array([1., 1.]))
    """
    values = _checked_pit(pit)
    density, edges = np.histogram(values, bins=bins, range=(0.0, 1.0), density=True)
    return edges, density


def scores(
    y: ArrayLike, mean: ArrayLike, std: ArrayLike, scale: float = 1.0, dof: ArrayLike = math.inf
) -> dict[str, float]:
    """All scores of one output, by name.

    Keys: ``n, rmse, rmse_z`` (RMSE over ``scale``)``, mae, nrmse, r2, nlpd, crps``, then ``cov50``,
    ``cov80``, ``cov95`` (coverage) and ``width50``, ``width80``, ``width95`` of central intervals.

    Args:
        y, mean, std, dof: as in :func:`nlpd`, ``(n,)``.
        scale: usually the standard deviation of the training targets.

    >>> found = scores([0.0, 1.0, 2.0], [0.0, 1.0, 1.0], [1.0, 1.0, 1.0], scale=2.0)
    >>> found["n"], round(found["rmse_z"], 4), found["cov95"]
    (3, 0.2887, 1.0)
    """
    arrays = {"y": y, "mean": mean, "std": std}
    values = {name: np.asarray(each, dtype=np.float64) for name, each in arrays.items()}
    _check_values(values)
    if not (math.isfinite(scale) and scale > 0):
        raise ValueError(
            f"scale={scale!r} must be positive and finite: pass the standard deviation of the targets"
        )
    truth, guess, spread = values.values()
    error = rmse(truth, guess)
    found: dict[str, float] = {
        "n": truth.size,
        "rmse": error,
        "rmse_z": error / scale,
        "mae": mae(truth, guess),
        "nrmse": nrmse(truth, guess),
        "r2": r2(truth, guess),
        "nlpd": nlpd(truth, guess, spread, dof),
        "crps": crps(truth, guess, spread, dof),
    }
    for level in LEVELS:
        found[f"cov{100 * level:.0f}"] = coverage(truth, guess, spread, level, dof)
    for level in LEVELS:
        found[f"width{100 * level:.0f}"] = width(spread, level, dof)
    return found


def _student(mean: ArrayLike, std: ArrayLike, dof: ArrayLike) -> Student:
    return Student(np.asarray(mean), np.asarray(std), np.asarray(dof))


def _half_width(std: ArrayLike, level: float, dof: ArrayLike) -> Array:
    """Half the width of the central intervals."""
    return _student(np.zeros(np.shape(std)), std, dof).quantile(0.5 + level / 2.0)


def _checked_pit(pit: ArrayLike) -> Array:
    values = np.asarray(pit, dtype=np.float64)
    if not (values.size and ((values >= 0.0) & (values <= 1.0)).all()):
        raise ValueError(
            f"pit has shape {values.shape}, expected numbers from 0 to 1, at least one: take it from "
            "seqgp.metrics.pit or Evaluation.pit"
        )
    return values


def _check_values(values: dict[str, Array]) -> None:
    shapes = {name: value.shape for name, value in values.items()}
    if len(set(shapes.values())) != 1 or values["y"].size == 0:
        raise ValueError(
            f"the shapes are {shapes}, expected three of one shape with at least one value: pass "
            "each prediction beside its own target"
        )
    for name, value in values.items():
        bad = int((~np.isfinite(value)).sum())
        if bad:
            raise ValueError(
                f"{name} has {bad} of {value.size} values that are NaN or infinite, expected none: "
                "leave those rows out of all three"
            )
    if not (values["std"] > 0).all():
        raise ValueError(
            f"std has values down to {values['std'].min():g}, expected all above 0: a point "
            "prediction has no density"
        )


def _check_level(level: float) -> None:
    if not 0.0 < level < 1.0:
        raise ValueError(f"level={level!r} must be between 0 and 1: 0.95 is 95%")


def _columns(values: ArrayLike) -> Array:
    """``(n,)`` or ``(n, outputs)`` as ``(n, outputs)``."""
    array = np.asarray(values, dtype=np.float64)
    return array.reshape(len(array), -1)


def _or_nan(spread: Array) -> Array:
    """The same, NaN in place of zero."""
    return np.where(spread > 0, spread, np.nan)
