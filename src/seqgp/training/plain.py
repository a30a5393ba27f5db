"""A plain network seen as a GP without a latent function: the readout predicts, the residual is noise.

With this layer in place of a GP the training loop trains an ordinary network on squared errors: the
baseline of every experiment, and the pre-training of every GP that asks for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from seqgp.inference import Diagnostics, Posterior
from seqgp.likelihoods import Gaussian

__all__ = ["Plain", "PlainPosterior", "Residual"]

_FLOOR = 1e-6


@dataclass(frozen=True, kw_only=True)
class PlainPosterior(Posterior):
    """``f = 0``, known exactly, with the residual variance as noise."""

    def _moments(self, h: Tensor, variance: bool) -> tuple[Tensor, Tensor | None]:
        zeros = self.noise.new_zeros(len(h), len(self.noise))
        return zeros, zeros if variance else None

    def prior_covariance(self, h: Tensor) -> Tensor:
        """Zero: there is no kernel."""
        return self.noise.new_zeros(len(self.noise), len(h), len(h))

    def covariance(self, h: Tensor) -> Tensor:
        """Zero: a plain network does not doubt its own prediction."""
        return self.prior_covariance(h)


@dataclass(frozen=True)
class Residual:
    """Size of the residuals of ``n`` rows."""

    variance: Tensor
    """``(outputs,)``."""
    n: int


class Plain(nn.Module):
    """Stands where a :class:`seqgp.GP` stands; has no parameters.

    Args:
        outputs: columns of the targets.
    """

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.outputs = outputs

    def statistics(self, H: Tensor, y: Tensor) -> Residual:
        """Residual variance, and number of rows.

        Args:
            H: no latent points, ``(n, 0)``.
            y: what the network's readout leaves of the targets, ``(n, outputs)``.
        """
        return Residual(y.double().square().mean(0).clamp_min(_FLOOR), len(y))

    def posterior(self, statistics: Residual) -> PlainPosterior:
        """A Gaussian with that variance about the network's prediction."""
        noise, n = statistics.variance, statistics.n
        nlml = 0.5 * n * (torch.log(2.0 * math.pi * noise) + 1.0).sum()
        return PlainPosterior(
            nlml=nlml,
            noise=noise,
            likelihood=Gaussian(outputs=self.outputs).frozen(),
            diagnostics=Diagnostics("plain", n),
        )

    def restart(self) -> None:
        """Nothing is remembered from one conditioning to the next."""
