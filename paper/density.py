"""A network's own predictive density, trained by :func:`seqgp.training.train` in the place of a GP.

The head's output ``h`` ``(n, 3 outputs + 1)`` holds the mean, the variance of the mean, log σ² and a
penalty for each row; :class:`Density` computes from it what the training loop needs, the expected
negative log-likelihood.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from seqgp import Posterior
from seqgp.inference import Diagnostics

__all__ = ["Density", "DensityPosterior", "GaussianHead", "VariationalHead", "split"]

# Of standardised targets: the floor is that of the GPs' noise, the other end a hundred times the
# deviation of the targets.
_LOG_VARIANCE = (math.log(1e-6), math.log(1e4))


def split(h: Tensor, outputs: int) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, variance of the mean and variance of the noise ``(n, outputs)`` of a network's output."""
    mean, latent, log_noise, _ = h.double().split([outputs, outputs, outputs, 1], dim=1)
    return mean, latent, log_noise.exp()


def _deviation(y: Tensor) -> Tensor:
    """Of targets ``(n, outputs)``, at least that of the floor."""
    return y.std(0, correction=0).clamp_min(math.exp(0.5 * _LOG_VARIANCE[0]))


@dataclass(frozen=True)
class DensityPosterior(Posterior):
    """All is in the network's output ``h`` ``(n, 3 outputs + 1)``: mean, its variance, log σ², penalty.

    The penalty belongs to the whole training set and is the same in every row: a row bears 1/n of it.
    """

    def _moments(self, h: Tensor, variance: bool) -> tuple[Tensor, Tensor | None]:
        mean, latent, _ = split(h, len(self.noise))
        return mean, latent if variance else None

    def predict(self, h: Tensor, observed: bool = False) -> tuple[Tensor, Tensor]:
        """Mean and variance ``(n, outputs)``; the noise is each row's own."""
        mean, latent, noise = split(h, len(self.noise))
        return mean, latent + noise if observed else latent

    def loss(self, h: Tensor, y: Tensor) -> Tensor:
        """Expected negative log-likelihood of each row, ``(n,)``, and its share of the penalty."""
        mean, latent, noise = split(h, len(self.noise))
        distance = (y.to(mean).reshape(mean.shape) - mean).square() + latent
        density = 0.5 * (torch.log(2.0 * math.pi * noise) + distance / noise)
        return density.sum(-1) + h[:, -1].double() / self.diagnostics.n

    def prior_covariance(self, h: Tensor) -> Tensor:
        """There is none."""
        raise TypeError("a network has no kernel")

    def covariance(self, h: Tensor) -> Tensor:
        """There is none."""
        raise TypeError("a network has no joint covariance of its rows")


class Density(nn.Module):
    """In the place of a :class:`seqgp.GP`, for heads with a variance of their own. Has no parameters."""

    def statistics(self, H: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """The rows themselves."""
        return H, y

    def posterior(self, statistics: tuple[Tensor, Tensor]) -> DensityPosterior:
        """The head's density; ``nlml`` is the loss of all rows, ``noise`` their mean σ²."""
        H, y = statistics
        k, n = y.shape[1], len(y)
        noise = H[:, 2 * k : 3 * k].double().exp().mean(0)
        found = DensityPosterior(torch.zeros(()), noise, False, Diagnostics("density", n))
        return DensityPosterior(found.loss(H, y).sum(), noise, False, found.diagnostics)

    def restart(self) -> None:
        """Nothing is kept from one conditioning to the next."""


class GaussianHead(nn.Module):
    """``(n, width) → (n, 3 outputs + 1)``: a mean and a log variance, both linear; no penalty."""

    unit: Tensor

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__()
        self.outputs = outputs
        self.linear = nn.Linear(width, 2 * outputs)
        self.register_buffer("unit", torch.ones(outputs))

    @torch.no_grad()
    def measure(self, y: Tensor) -> None:
        """Let the deviation of ``y`` ``(n, outputs)`` be the unit, and the variance that at first."""
        self.unit.copy_(_deviation(y))
        self.linear.bias[self.outputs :] = 0.0

    def forward(self, features: Tensor) -> Tensor:
        """``(n, width) → (n, 3 outputs + 1)``."""
        mean, log_variance = self.linear(features).split(self.outputs, dim=1)
        nothing = torch.zeros_like(mean)
        log_variance = (log_variance + 2.0 * self.unit.log()).clamp(*_LOG_VARIANCE)
        return torch.cat([mean * self.unit, nothing, log_variance, nothing[:, :1]], dim=1)


class VariationalHead(nn.Module):
    """``(n, width) → (n, 3 outputs + 1)``: moments of ``wᵀφ`` under q(w), log σ², KL(q ‖ prior).

    φ are the features and a one. For each output ``q(w) = N(μ, LLᵀ)`` and the prior is ``N(0, I)``;
    σ² has none, and is a point estimate.
    """

    unit: Tensor
    pace = 10.0
    """log σ² moves so many times as fast as a weight, which is how fast a GP's parameters move."""

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__()
        d = width + 1
        self.mean = nn.Parameter(torch.empty(outputs, d).uniform_(-1.0, 1.0) / math.sqrt(d))
        self.lower = nn.Parameter(torch.zeros(outputs, d, d))
        self.log_diagonal = nn.Parameter(torch.zeros(outputs, d))
        self.log_noise = nn.Parameter(torch.zeros(outputs))
        self.register_buffer("unit", torch.ones(outputs))
        for parameter in self.parameters():
            parameter.decay = False  # type: ignore[attr-defined]  # the KL is what shrinks these

    @torch.no_grad()
    def measure(self, y: Tensor) -> None:
        """Let the deviation of ``y`` ``(n, outputs)`` be the unit; the doubt about w starts below it."""
        self.unit.copy_(_deviation(y))
        self.log_diagonal.fill_(-math.log(self.mean.shape[1]))

    def factor(self) -> Tensor:
        """L ``(outputs, d, d)``, lower triangular."""
        return self.lower.tril(-1) + torch.diag_embed(self.log_diagonal.exp())

    def forward(self, features: Tensor) -> Tensor:
        """``(n, width) → (n, 3 outputs + 1)``."""
        phi = torch.cat([features, torch.ones_like(features[:, :1])], dim=1)
        L = self.factor()
        variance = torch.einsum("nd,kde->nke", phi, L).square().sum(-1)
        size = L.square().sum() + self.mean.square().sum() - self.mean.numel()
        kl = 0.5 * size - self.log_diagonal.sum()
        log_noise = self.pace * self.log_noise + 2.0 * self.unit.log()
        constant = torch.cat([log_noise.clamp(*_LOG_VARIANCE), kl[None]])
        moments = phi @ self.mean.T * self.unit, variance * self.unit.square()
        return torch.cat([*moments, constant.expand(len(phi), -1)], dim=1)
