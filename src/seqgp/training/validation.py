"""What validation rows say of a posterior, and of how much of what it takes for signal is signal."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from seqgp.gp import GP, OffsetGP
from seqgp.inference.posterior import Posterior
from seqgp.training.calibration import joint_density, variance_scale
from seqgp.training.parts import Part, Settings, encode

__all__ = ["WORTH", "Scores", "judge", "quieten", "score_of"]

_QUIETER, _QUIETER_STEPS = 10.0, 6
WORTH = 30.0
"""Nats over all validation rows that must be gained for them to overrule the likelihood.

A log likelihood ratio of 3 would do for rows that are independent and new to the model. Errors of
neighbouring rows are alike, so that ten count as one, and a pre-trained network's epoch was chosen on the
same rows, which flatters the network alone: on Actuator (101 rows, 14 nats) it was the worse choice.
"""
_WORTH_LINE = 3.0
"""The same against a line, which those rows had no part in.

On two recordings of the electric drives that are in no table, fits gained 0.002 to 1.2 nats of 49 rows by
a lower signal, and test errors were up to a tenth larger for it.
"""


@dataclass(frozen=True)
class Scores:
    """Of a posterior on validation rows."""

    rmse: float
    nlpd: float
    scale: Tensor | None
    """Factor ``(outputs,)`` on the variance under which errors have their size, if asked for."""
    each: Tensor
    """What posteriors are compared by, nats a row: ``(outputs,)``, or ``(1,)`` of correlated ones."""


@torch.no_grad()
def judge(posterior: Posterior, h: Tensor, validation: Part, settings: Settings) -> Scores:
    """Scores of a posterior at latent points ``h`` ``(n, d)`` of validation rows."""
    mean, variance = posterior.predict(h, observed=True)
    variance = variance.reshape(validation.y.shape)
    if validation.mean_variance is not None:
        variance = variance + validation.mean_variance
    error = validation.y - mean.reshape(validation.y.shape)
    scale = variance_scale(error, variance) if settings.calibrate else None
    if posterior.correlated:
        density = joint_density(posterior, h, error, validation.mean_variance, scale)[:, None]
    else:
        variance = variance if scale is None else variance * scale
        density = 0.5 * (torch.log(2.0 * math.pi * variance) + error.square() / variance)
    each = density.mean(0)
    if settings.select == "rmse":
        # Of a Gaussian with the errors' own size: as a density, though the mean alone decides.
        each = 0.5 * error.square().mean(0).log()
        each = each.mean(0, keepdim=True) if posterior.correlated else each
    return Scores(float(error.square().mean().sqrt()), float(density.mean()), scale, each)


def score_of(
    network: nn.Module, validation: Part, settings: Settings
) -> Callable[[Posterior], Tensor]:
    """What posteriors on the latent points of ``network`` as it is now are compared by."""
    h = encode(network, validation.windows)
    return lambda posterior: judge(posterior, h, validation, settings).each


@torch.no_grad()
def quieten(layer: GP, statistics: Any, score: Callable[[Posterior], Tensor], rows: int) -> Tensor:
    """Divide signal variances by the powers of ten that suit validation rows best; those powers.

    The likelihood of training rows takes for signal whatever is alike in neighbouring rows, also
    where it is like nothing else. What is left without any signal is the mean function: a line, or a
    network's readout, whose epoch validation rows chose, so that they have to say more clearly that it is
    better alone.
    """
    kept = {name: value.detach().clone() for name, value in layer.state_dict().items()}
    first = lowest = score(layer.posterior(statistics))
    factor = torch.ones_like(lowest)
    falling = torch.ones_like(lowest, dtype=torch.bool)
    for _ in range(_QUIETER_STEPS):
        trial = torch.where(falling, _QUIETER * factor, factor)
        layer.load_state_dict(kept)
        layer.quieten(trial)
        value = score(layer.posterior(statistics))
        falling = falling & (value < lowest)
        if not bool(falling.any()):
            break
        factor, lowest = torch.where(falling, trial, factor), torch.where(falling, value, lowest)
    worth = WORTH if isinstance(layer, OffsetGP) else _WORTH_LINE
    factor = torch.where(rows * (first - lowest) > worth, factor, torch.ones_like(factor))
    layer.load_state_dict(kept)
    if bool((factor > 1.0).any()):
        layer.quieten(factor)
    return factor
