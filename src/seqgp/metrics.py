"""Scores of predictions: errors of the mean, and whether the deviation tells the truth.

Predictions are Gaussian, or Student's t where ``dof``, its degrees of freedom, is finite; ``std`` is the
standard deviation of either.
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
    "joint_nlpd",
    "mae",
    "nlpd",
    "nrmse",
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
"""A share inside intervals that is off by less makes no difference to anyone."""
_LEAST_BLOCKS = 10


def rmse(y: ArrayLike, mean: ArrayLike) -> float:
    """Root mean squared error, over all rows and outputs.

    >>> rmse([1.0, 2.0], [1.0, 4.0])
    1.4142135623730951
    """
    return float(np.sqrt(np.mean((np.asarray(y) - np.asarray(mean)) ** 2)))


def mae(y: ArrayLike, mean: ArrayLike) -> float:
    """Mean absolute error, over all rows and outputs.

    >>> mae([1.0, 2.0], [1.0, 4.0])
    1.0
    """
    return float(np.mean(np.abs(np.asarray(y) - np.asarray(mean))))


def nrmse(y: ArrayLike, mean: ArrayLike) -> float:
    """RMSE as a share of the range of ``y``, ``max - min`` over the rows scored.

    The range and not the deviation, because dividing by the deviation says what :func:`r2` says.
    Several outputs ``(n, outputs)`` are divided by their own ranges, then averaged. A constant ``y``
    has no range: NaN.

    >>> nrmse([0.0, 10.0], [1.0, 9.0])
    0.1
    """
    truth, guess = _columns(y), _columns(mean)
    error = np.sqrt(np.mean((truth - guess) ** 2, axis=0))
    return float(np.mean(_divide(error, np.ptp(truth, axis=0))))


def r2(y: ArrayLike, mean: ArrayLike) -> float:
    """Share of the variance of ``y`` explained; 1 is perfect, 0 is as good as the mean of ``y``.

    Averaged over outputs ``(n, outputs)``. A constant ``y`` has no variance to explain: NaN.

    >>> r2([1.0, 2.0, 3.0], [1.0, 2.0, 2.0])
    0.5
    """
    truth, guess = _columns(y), _columns(mean)
    left = np.mean((truth - guess) ** 2, axis=0)
    return float(np.mean(1.0 - _divide(left, np.var(truth, axis=0))))


def nlpd(y: ArrayLike, mean: ArrayLike, std: ArrayLike, dof: ArrayLike = math.inf) -> float:
    """Negative log predictive density, nats per value: lower is better.

    >>> round(nlpd([0.0], [0.0], [1.0]), 4)
    0.9189
    """
    return _student(mean, std, dof).nlpd(y)


def joint_nlpd(y: ArrayLike, mean: ArrayLike, covariance: ArrayLike) -> float:
    """Negative log density of all outputs of a row together, nats per value: lower is better.

    ``y`` and ``mean`` are ``(n, outputs)``, ``covariance`` ``(n, outputs, outputs)``. Where that is
    diagonal it is :func:`nlpd`.

    >>> round(joint_nlpd([[1.0, 1.0]], [[0.0, 0.0]], [[[1.0, 0.9], [0.9, 1.0]]]), 4)
    0.7669
    """
    error = _columns(y) - _columns(mean)
    factor = np.linalg.cholesky(np.asarray(covariance, dtype=np.float64))
    white = np.linalg.solve(factor, error[..., None])[..., 0]
    logs = np.log(np.diagonal(factor, axis1=1, axis2=2))
    return float(np.mean(0.5 * white**2 + logs) + 0.5 * math.log(2.0 * math.pi))


def crps(y: ArrayLike, mean: ArrayLike, std: ArrayLike, dof: ArrayLike = math.inf) -> float:
    """Continuous ranked probability score, on the scale of ``y``.

    The absolute error generalised to distributions: lower is better, and a prediction without
    doubt has its absolute error.

    References:
        Strictly Proper Scoring Rules, Prediction, and Estimation, Gneiting and Raftery 2007.

    >>> round(crps([0.0], [0.0], [1.0]), 4)
    0.2337
    """
    return _student(mean, std, dof).crps(y)


def pinball(y: ArrayLike, quantile_values: ArrayLike, level: float) -> float:
    """Pinball loss of predicted quantiles of one level, the mean over all values: lower is better.

    At level 0.5 it is half the absolute error.

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
    """Share of values inside the central interval of that level.

    >>> coverage([0.0, 3.0], [0.0, 0.0], [1.0, 1.0])
    0.5
    """
    half = _student(np.zeros(np.shape(std)), std, dof).quantile(0.5 + level / 2.0)
    return float(np.mean(np.abs(np.asarray(y) - np.asarray(mean)) <= half))


def coverage_error(n: int, level: float = 0.95) -> float:
    """Standard error of the coverage of ``n`` independent values under a true interval of that level.

    Neighbouring rows of a series are not independent, so there it is a lower bound.

    >>> round(coverage_error(100, 0.8), 4)
    0.04
    """
    _check_level(level)
    if n < 1:
        raise ValueError(f"n={n} values have no coverage: score at least one row")
    return math.sqrt(level * (1.0 - level) / n)


def share_error(inside: ArrayLike, level: float = 0.95) -> float:
    """Sampling error of the share of rows ``(n,)``, in order of time, inside intervals of that level.

    Neighbouring rows tend to be inside, or outside, together, so it comes from the spread of the
    share over √n stretches of √n rows (batch means); it is never below :func:`coverage_error`.

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


def clearly_off(share: float, error: float, level: float = 0.95) -> bool:
    """Whether a share inside intervals of that level is off by what matters and chance does not explain.

    ``error`` is its sampling error.

    >>> clearly_off(0.91, error=0.01), clearly_off(0.91, error=0.03), clearly_off(0.94, error=0.001)
    (True, False, False)
    """
    return abs(share - level) > max(MATTERS, 2.0 * error)


def width(std: ArrayLike, level: float = 0.95, dof: ArrayLike = math.inf) -> float:
    """Mean width of the central interval of that level, on the scale of ``std``.

    >>> round(width([1.0, 3.0]), 4)
    7.8399
    """
    _check_level(level)
    half = _student(np.zeros(np.shape(std)), std, dof).quantile(0.5 + level / 2.0)
    return float(2.0 * np.mean(half))


def pit(y: ArrayLike, mean: ArrayLike, std: ArrayLike, dof: ArrayLike = math.inf) -> Array:
    """Probability integral transform: where each value falls in its own predictive distribution.

    The shape of ``y``, in [0, 1]; uniform where the predictions tell the truth.

    >>> pit([0.0, 9.0], [0.0, 0.0], [1.0, 1.0])
    array([0.5, 1. ])
    """
    return _student(mean, std, dof).pit(y)


def pit_histogram(pit: ArrayLike, bins: int = 20) -> tuple[Array, Array]:
    """Edges ``(bins + 1,)`` over [0, 1] and density ``(bins,)``, 1 everywhere when calibrated.

    A heap in the middle is a deviation too wide, heaps at both ends one too narrow.

    >>> edges, density = pit_histogram([0.1, 0.2, 0.7, 0.9], bins=2)
    >>> edges, density
    (array([0. , 0.5, 1. ]), array([1., 1.]))
    """
    density, edges = np.histogram(np.asarray(pit), bins=bins, range=(0.0, 1.0), density=True)
    return edges, density


def scores(
    y: ArrayLike, mean: ArrayLike, std: ArrayLike, scale: float = 1.0, dof: ArrayLike = math.inf
) -> dict[str, float]:
    """All scores of predictions, ``(n,)`` each; ``rmse_z`` is the RMSE over ``scale``.

    Keys: ``n, rmse, rmse_z, mae, nrmse, r2, nlpd, crps``, then ``cov`` and ``width`` of the central
    50, 80 and 95% intervals. ``scale`` is usually the deviation of the training targets.

    >>> found = scores([0.0, 1.0, 2.0], [0.0, 1.0, 1.0], [1.0, 1.0, 1.0], scale=2.0)
    >>> found["n"], round(found["rmse_z"], 4), found["cov95"]
    (3, 0.2887, 1.0)
    """
    arrays = {"y": y, "mean": mean, "std": std}
    values = {name: np.asarray(each, dtype=np.float64) for name, each in arrays.items()}
    _check_values(values)
    if not (math.isfinite(scale) and scale > 0):
        raise ValueError(f"scale={scale!r} must be positive and finite: the targets' deviation")
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
            f"std has values down to {values['std'].min():g}, expected all above 0: a prediction "
            "without any doubt has no density"
        )


def _check_level(level: float) -> None:
    if not 0.0 < level < 1.0:
        raise ValueError(f"level={level!r} must be between 0 and 1: 0.95 is 95%")


def _columns(values: ArrayLike) -> Array:
    """``(n,)`` or ``(n, outputs)`` as ``(n, outputs)``."""
    array = np.asarray(values, dtype=np.float64)
    return array.reshape(len(array), -1)


def _divide(above: Array, below: Array) -> Array:
    """Quotient, NaN where the divisor is zero."""
    return np.divide(above, below, out=np.full_like(above, np.nan), where=below > 0)
