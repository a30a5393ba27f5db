"""Scale of a predicted variance and tails of the residuals, by penalised maximum likelihood."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

__all__ = ["TailFit", "fit_tails"]

Array = NDArray[np.float64]

_SCALE_ROWS = 20.0  # weight of the prior that the variance is right, in rows
# Tails (1/dof) have a prior centred at a t with 5 degrees of freedom; a Gaussian costs so many nats. A
# few dozen residuals say too little of the scale for the thin tails of a Gaussian.
_TAIL, _TAIL_NATS = 0.2, 5.0
_MOST_TAIL = 0.4  # of 1/dof: at 1/2 there is no variance
_GAUSSIAN = 1e-3  # 1/dof below which tails are a Gaussian's


@dataclass(frozen=True)
class TailFit:
    """Of one output."""

    scale: float
    """Factor on the variance."""
    trust: float
    """Power to which the noise network's factor is taken, 0 to 1.5."""
    dof: float
    """Degrees of freedom of Student's t; infinite for a Gaussian."""
    loss: float
    """Penalised negative log likelihood of all rows."""


def fit_tails(ratio: Array, log_factor: Array | None = None, tails: bool = True) -> TailFit:
    """Fit one output.

        Args:
            ratio: squared residuals over predicted variances, ``(n,)``.
            log_factor: log of the noise network's factor on the variance, ``(n,)``, where there is one.
            tails: whether tails may be heavier than a Gaussian's.

        >>> found = fit_tails(np.random.default_rng(0).standard_t(5, 4000) ** 2)
            >>> round(found.scale, 1), 4 < found.dof < 7
        (1.6, True)
        """

    def value(p: Array) -> float:
        log_scale, trust, tail = p
        total = log_scale + (0.0 if log_factor is None else trust * log_factor)
        loss = np.sum(_density(ratio * np.exp(-total), tail) + 0.5 * total)
        prior = 0.5 * _SCALE_ROWS * (np.exp(-log_scale) - 1.0 + log_scale)
        prior += _TAIL_NATS * (tail / _TAIL - 1.0) ** 2
        return float(loss + prior + 0.5 * trust**2)

    start = np.log((ratio.sum() + _SCALE_ROWS) / (len(ratio) + _SCALE_ROWS))
    shaped = log_factor is not None
    first = [start, 0.8 if shaped else 0.0, _TAIL if tails else 0.0]
    most = [start + 5.0, 1.5 if shaped else 0.0, _MOST_TAIL if tails else 0.0]
    bounds = list(zip([start - 5.0, 0.0, 0.0], most, strict=True))
    found = minimize(value, first, method="L-BFGS-B", bounds=bounds)
    log_scale, trust, tail = found.x
    dof = math.inf if tail < _GAUSSIAN else float(1.0 / tail)
    return TailFit(float(np.exp(log_scale)), float(trust), dof, float(found.fun))


def _density(ratio: Array, tail: float) -> Array:
    """Negative log density of Student's t of variance 1, where the square is ``ratio``."""
    if tail < _GAUSSIAN:
        return 0.5 * ratio + 0.5 * math.log(2.0 * math.pi)
    dof = 1.0 / tail
    constant = math.lgamma(0.5 * dof) - math.lgamma(0.5 * (dof + 1.0))
    constant += 0.5 * math.log(math.pi * (dof - 2.0))
    return constant + 0.5 * (dof + 1.0) * np.log1p(ratio / (dof - 2.0))
