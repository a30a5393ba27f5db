"""Scores of a posterior on the validation set, by which epochs and ensemble members are selected."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from seqgp.encoders import Encoded
from seqgp.inference import Posterior
from seqgp.training.parts import Part

__all__ = ["PRIOR_ROWS", "Scores", "judge", "variance_scale"]

PRIOR_ROWS = 200.0
"""Weight, in rows, of the prior that the predicted variance is right. Residuals of neighbouring rows are
autocorrelated, so that a hundred of them may say no more than ten independent ones."""


@dataclass(frozen=True)
class Scores:
    """Of a posterior on the validation set."""

    rmse: float
    nlpd: float
    scale: Tensor | None
    """Factor ``(outputs,)`` on the variance under which errors have their size, if asked for."""


@torch.no_grad()
def judge(posterior: Posterior, encoded: Encoded, validation: Part, calibrate: bool) -> Scores:
    """Scores of a posterior.

    Without a factor on the variance the density on the validation set turns worse as soon as the noise is
    too small, while the errors may still fall for many epochs.

    Args:
        posterior: conditioned on the training part.
        encoded: what the network makes of the validation windows.
        validation: their targets.
        calibrate: whether the density is that under the best factor on the variance.
    """
    mean, variance = posterior.predict(encoded.latent, observed=True)
    if validation.mean_variance is not None:
        variance = variance + validation.mean_variance
    error = validation.y - (mean + encoded.offset)
    scale = variance_scale(error, variance) if calibrate else None
    variance = variance if scale is None else variance * scale
    density = 0.5 * (torch.log(2.0 * math.pi * variance) + error.square() / variance)
    return Scores(float(error.square().mean().sqrt()), float(density.mean()), scale)


def variance_scale(error: Tensor, variance: Tensor, rows: float = PRIOR_ROWS) -> Tensor:
    """Factor ``(outputs,)`` on ``variance`` of the highest posterior density, its prior centred at 1.

    Args:
        error: ``(n, outputs)``.
        variance: predicted, ``(n, outputs)``.
        rows: weight of the prior.

    References:
        The Promises and Pitfalls of Deep Kernel Learning, Ober, Rasmussen and van der Wilk 2021,
        arXiv:2102.12108, on why a deep kernel's own noise is too small.

    >>> error, variance = torch.full((1800, 1), 2.0), torch.ones(1800, 1)
    >>> round(float(variance_scale(error, variance)), 3)
    3.7
    """
    ratio = error.square() / variance
    return (ratio.sum(0) + rows) / (len(ratio) + rows)
