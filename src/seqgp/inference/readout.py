"""A plain network's last layer seen as a posterior: the latent point *is* the prediction.

With this in place of a GP, the training loop trains an ordinary network on squared errors: the
baseline of every experiment, and the pre-training of every GP that asks for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from seqgp.inference.posterior import Diagnostics, Posterior

__all__ = ["Readout", "ReadoutPosterior"]

_FLOOR = 1e-6


@dataclass(frozen=True)
class ReadoutPosterior(Posterior):
    """``m(h) = h`` and ``v(h) = 0``, with the residual variance as noise."""

    def _moments(self, h: Tensor, variance: bool) -> tuple[Tensor, Tensor | None]:
        h = h.to(self.noise)
        return h, torch.zeros_like(h) if variance else None

    def prior_covariance(self, h: Tensor) -> Tensor:
        """There is none: a plain network has no kernel."""
        raise TypeError("a plain network has no kernel: surrogate='block' needs a GP")

    def covariance(self, h: Tensor) -> Tensor:
        """Zero: a plain network does not doubt its own prediction."""
        return torch.zeros(len(self.noise), len(h), len(h), dtype=h.dtype, device=h.device)


class Readout(nn.Module):
    """Stands where a :class:`seqgp.GP` stands; ``H`` ``(n, outputs)`` are predictions. Holds no θ."""

    def statistics(self, H: Tensor, y: Tensor) -> tuple[Tensor, int]:
        """Residual variance ``(outputs,)`` and number of rows."""
        residual = y.double() - H.double().reshape(y.shape)
        return residual.square().reshape(len(y), -1).mean(0).clamp_min(_FLOOR), len(y)

    def posterior(self, statistics: tuple[Tensor, int]) -> ReadoutPosterior:
        """Gaussian predictions with that variance."""
        noise, n = statistics
        nlml = 0.5 * n * (torch.log(2.0 * math.pi * noise) + 1.0).sum()
        return ReadoutPosterior(
            nlml=nlml, noise=noise, squeeze=False, diagnostics=Diagnostics("readout", n)
        )

    def restart(self) -> None:
        """Nothing is remembered from one conditioning to the next."""
