"""Scores of predictions: errors of the mean, and whether the deviation tells the truth."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm

__all__ = ["coverage", "nlpd", "rmse"]

Array = NDArray[np.float64]


def rmse(y: ArrayLike, mean: ArrayLike) -> float:
    """Root mean squared error, over all rows and outputs.

    >>> rmse([1.0, 2.0], [1.0, 4.0])
    1.4142135623730951
    """
    return float(np.sqrt(np.mean((np.asarray(y) - np.asarray(mean)) ** 2)))


def nlpd(y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> float:
    """Negative log predictive density of Gaussian predictions, nats per value: lower is better.

    >>> round(nlpd([0.0], [0.0], [1.0]), 4)
    0.9189
    """
    return float(-np.mean(norm.logpdf(np.asarray(y), np.asarray(mean), np.asarray(std))))


def coverage(y: ArrayLike, mean: ArrayLike, std: ArrayLike, level: float = 0.95) -> float:
    """Share of values inside the central interval of that level.

    >>> coverage([0.0, 3.0], [0.0, 0.0], [1.0, 1.0])
    0.5
    """
    half = norm.ppf(0.5 + level / 2.0) * np.asarray(std)
    return float(np.mean(np.abs(np.asarray(y) - np.asarray(mean)) <= half))
