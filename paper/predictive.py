"""Predictive distributions of any model, with the same scores: density, CRPS, PIT and intervals.

Means, deviations and targets are ``(n,)`` or ``(n, outputs)``, on the data's own scale; ``scale`` is the
deviation of the training targets, a number or ``(outputs,)``, by which a score is divided.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seqgp.distributions import Student

__all__ = ["Empirical", "Predictive", "Student", "WithIntervals", "pit_error"]

Array = NDArray[np.float64]
Scale = Array | float


class Predictive(Protocol):
    """The marginal predictive distribution of each value."""

    @property
    def mean(self) -> Array:
        """Expected values."""
        ...

    def nlpd(self, y: ArrayLike, scale: Scale = 1.0) -> float:
        """Negative log density of ``y / scale``, nats per value; NaN where there is no density."""
        ...

    def crps(self, y: ArrayLike, scale: Scale = 1.0) -> float:
        """Continuous ranked probability score of ``y / scale``, mean over values."""
        ...

    def pit(self, y: ArrayLike) -> Array:
        """Where each value falls in its own distribution, in [0, 1]."""
        ...

    def interval(self, level: float) -> tuple[Array, Array]:
        """Central interval that should hold a share ``level`` of the values."""
        ...


@dataclass(frozen=True)
class WithIntervals(Student):
    """A t with intervals from elsewhere: ``intervals(level) → (low, high)``."""

    intervals: Callable[[float], tuple[Array, Array]] = field(kw_only=True)

    def interval(self, level: float) -> tuple[Array, Array]:
        """Those given."""
        return self.intervals(level)


@dataclass(frozen=True)
class Empirical:
    """The distribution of ``residuals`` ``(m,)`` or ``(m, outputs)`` about each mean; no density.

    Intervals are those of split conformal prediction: the ⌈(m + 1) level⌉-th smallest absolute
    residual to either side, or infinite where m is too small for that. CRPS and PIT are of the
    signed residuals.

    References:
        Distribution-Free Predictive Inference for Regression, Lei et al. 2018, arXiv:1604.04173.

    >>> one = Empirical(np.zeros(1), np.array([-1.0, 0.0, 1.0]))
    >>> one.interval(0.5), round(one.crps([0.0]), 4), one.pit([0.0])
    ((array([-1.]), array([1.])), 0.2222, array([0.5]))
    """

    mean: Array
    residuals: Array

    def nlpd(self, y: ArrayLike, scale: Scale = 1.0) -> float:
        """NaN: a step function has no density."""
        return math.nan

    def crps(self, y: ArrayLike, scale: Scale = 1.0) -> float:
        """CRPS of ``y / scale``: E|R − e| − ½ E|R − R'| of residuals R, by sorted partial sums."""
        m = len(self.residuals)
        weight = (2.0 * np.arange(1, m + 1) - m - 1.0) / m**2
        found = []
        for e, ordered in self._columns(y):
            sums = np.concatenate([[0.0], np.cumsum(ordered)])
            below = np.searchsorted(ordered, e)
            distance = e * (2 * below - m) + sums[-1] - 2.0 * sums[below]
            found.append(distance / m - weight @ ordered)
        return float(np.mean(np.stack(found, axis=-1) / scale))

    def pit(self, y: ArrayLike) -> Array:
        """Rank of ``y`` among the residuals about its mean, ties in the middle."""
        ranks = [
            np.searchsorted(ordered, e, "left") + np.searchsorted(ordered, e, "right")
            for e, ordered in self._columns(y)
        ]
        m = len(self.residuals)
        return ((np.stack(ranks, axis=-1) + 1.0) / (2.0 * (m + 1.0))).reshape(self.mean.shape)

    def interval(self, level: float) -> tuple[Array, Array]:
        """Mean less and plus the corrected quantile of the absolute residuals."""
        m = len(self.residuals)
        place = math.ceil((m + 1) * level - 1e-9)  # 20 · 0.95 is 19, whatever its last bit
        sizes = np.sort(np.abs(self.residuals), axis=0)
        half = sizes[place - 1] if place <= m else np.full(self.residuals.shape[1:], np.inf)
        return self.mean - half, self.mean + half

    def _columns(self, y: ArrayLike) -> list[tuple[Array, Array]]:
        """Errors ``(n,)`` of each output, with its residuals in order."""
        errors = (np.asarray(y) - self.mean).reshape(len(self.mean), -1)
        ordered = np.sort(self.residuals.reshape(len(self.residuals), -1), axis=0)
        return list(zip(errors.T, ordered.T, strict=True))


def pit_error(pit: ArrayLike) -> float:
    """Mean distance of the PIT's percentiles from uniform ones: 0 is calibrated, ½ the worst.

    >>> round(pit_error(np.linspace(0.0, 1.0, 1001)), 6), round(pit_error([0.5, 0.5]), 3)
    (0.0, 0.247)
    """
    levels = np.arange(1, 100) / 100.0
    return float(np.mean(np.abs(np.quantile(np.ravel(pit), levels) - levels)))
