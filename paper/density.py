"""A network's own predictive density, trained by :func:`seqgp.training.train` in the place of a GP.

A head gives the mean, which is the network's offset, and for each row ``h`` ``(n, 2 outputs + 1)``: the
variance of the mean, log σ² and a penalty. These are in the place of latent points, and :class:`Density`
computes from them and the residuals what the training loop needs, the expected negative log-likelihood.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from seqgp import Posterior
from seqgp.encoders import Network
from seqgp.inference import Diagnostics
from seqgp.likelihoods import Gaussian

__all__ = [
    "Density",
    "DensityHead",
    "DensityNetwork",
    "DensityPosterior",
    "GaussianHead",
    "VariationalHead",
    "split",
]

# Of standardised targets: the floor is that of the GPs' noise, the other end a hundred times the
# deviation of the targets.
_LOG_VARIANCE = (math.log(1e-6), math.log(1e4))


def split(h: Tensor, outputs: int) -> tuple[Tensor, Tensor]:
    """Variance of the mean and variance of the noise, ``(n, outputs)`` each.

    Args:
        h: what a head gives beside the mean, ``(n, 2 outputs + 1)``.
        outputs: columns of the targets.
    """
    latent, log_noise, _ = h.split([outputs, outputs, 1], dim=1)
    return latent, log_noise.exp()


def _deviation(y: Tensor) -> Tensor:
    """Of targets ``(n, outputs)``, at least that of the floor."""
    return y.std(0, correction=0).clamp_min(math.exp(0.5 * _LOG_VARIANCE[0]))


@dataclass(frozen=True, kw_only=True)
class DensityPosterior(Posterior):
    """All is in ``h`` ``(n, 2 outputs + 1)``, but for the mean, which is the offset.

    The penalty belongs to the whole training set and is the same in every row: a row bears 1/n of it.
    """

    def _moments(self, h: Tensor, variance: bool) -> tuple[Tensor, Tensor | None]:
        latent, _ = split(h, len(self.noise))
        return torch.zeros_like(latent), latent if variance else None

    def predict(self, h: Tensor, observed: bool = False) -> tuple[Tensor, Tensor]:
        """Mean and variance ``(n, outputs)``; the noise is each row's own."""
        latent, noise = split(h, len(self.noise))
        return torch.zeros_like(latent), latent + noise if observed else latent

    def loss(self, h: Tensor, y: Tensor) -> Tensor:
        """Expected negative log-likelihood of residuals ``y``, with their part of the penalty."""
        latent, noise = split(h, len(self.noise))
        distance = y.to(latent).reshape(latent.shape).square() + latent
        density = 0.5 * (torch.log(2.0 * math.pi * noise) + distance / noise)
        return density.sum(-1) + h[:, -1] / self.diagnostics.n

    def prior_covariance(self, h: Tensor) -> Tensor:
        """There is none."""
        raise TypeError("a network has no kernel")

    def covariance(self, h: Tensor) -> Tensor:
        """There is none."""
        raise TypeError("a network has no joint covariance of its rows")


class Density(nn.Module):
    """In the place of a :class:`seqgp.GP`, for heads with a variance of their own. Has no parameters."""

    def statistics(self, H: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """The rows themselves.

        Args:
            H: what the head gives beside the mean, ``(n, 2 outputs + 1)``.
            y: residuals ``(n, outputs)``.
        """
        return H, y

    def posterior(self, statistics: tuple[Tensor, Tensor]) -> DensityPosterior:
        """The head's density; ``nlml`` is the loss of all rows, ``noise`` their mean σ²."""
        H, y = statistics
        outputs = y.shape[1]
        _, noise = split(H, outputs)
        found = DensityPosterior(
            nlml=torch.zeros(()),
            noise=noise.mean(0),
            likelihood=Gaussian(outputs=outputs).frozen(),
            diagnostics=Diagnostics("density", len(y)),
        )
        return replace(found, nlml=found.loss(H, y).sum())

    def restart(self) -> None:
        """Nothing is kept from one conditioning to the next."""


class DensityHead(nn.Module):
    """``(n, width)`` to a mean ``(n, outputs)`` and ``h`` ``(n, 2 outputs + 1)``, in float64.

    Args:
        width: of the features.
        outputs: columns of the targets.
    """

    unit: Tensor

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__()
        self.width, self.outputs = width, outputs
        self.register_buffer("unit", torch.ones(outputs))

    @abstractmethod
    def measure(self, y: Tensor) -> None:
        """Let the deviation of ``y`` ``(n, outputs)`` be the unit."""

    @abstractmethod
    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Mean, and ``h``."""


class DensityNetwork(Network):
    """An encoder with such a head: its mean is the offset, and ``h`` is in the place of latent points.

    Args:
        encoder: windows ``(n, T, p)`` to features ``(n, width)``.
        density: of the head.
    """

    def __init__(self, encoder: nn.Module, density: DensityHead) -> None:
        super().__init__(encoder, None, None, density.outputs)
        self.density = density

    @property
    def width(self) -> int:
        return self.density.width

    def ends(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """``h`` ``(n, 2 outputs + 1)`` and mean ``(n, outputs)`` from features ``(n, width)``."""
        mean, h = self.density(features.double())
        return h, mean


class GaussianHead(DensityHead):
    """A mean and a log variance, both linear; no variance of the mean and no penalty."""

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__(width, outputs)
        self.linear = nn.Linear(width, 2 * outputs)
        self.double()

    @torch.no_grad()
    def measure(self, y: Tensor) -> None:
        """Let the deviation of ``y`` ``(n, outputs)`` be the unit, and the variance that at first."""
        self.unit.copy_(_deviation(y))
        self.linear.bias[self.outputs :] = 0.0

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_variance = self.linear(features).split(self.outputs, dim=1)
        nothing = torch.zeros_like(mean)
        log_variance = (log_variance + 2.0 * self.unit.log()).clamp(*_LOG_VARIANCE)
        return mean * self.unit, torch.cat([nothing, log_variance, nothing[:, :1]], dim=1)


class VariationalHead(DensityHead):
    """Moments of ``wᵀφ`` under q(w), log σ², and KL(q ‖ prior) as the penalty.

    φ are the features and a one. For each output ``q(w) = N(μ, LLᵀ)`` and the prior is ``N(0, I)``;
    σ² has none, and is a point estimate.
    """

    pace = 10.0
    """log σ² moves so many times as fast as a weight, which is how fast a GP's parameters move."""

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__(width, outputs)
        d = width + 1
        self.mean = nn.Parameter(torch.empty(outputs, d).uniform_(-1.0, 1.0) / math.sqrt(d))
        self.lower = nn.Parameter(torch.zeros(outputs, d, d))
        self.log_diagonal = nn.Parameter(torch.zeros(outputs, d))
        self.log_noise = nn.Parameter(torch.zeros(outputs))
        self.double()
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

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        phi = torch.cat([features, torch.ones_like(features[:, :1])], dim=1)
        L = self.factor()
        variance = torch.einsum("nd,kde->nke", phi, L).square().sum(-1)
        size = L.square().sum() + self.mean.square().sum() - self.mean.numel()
        kl = 0.5 * size - self.log_diagonal.sum()
        log_noise = self.pace * self.log_noise + 2.0 * self.unit.log()
        constant = torch.cat([log_noise.clamp(*_LOG_VARIANCE), kl[None]])
        variance = variance * self.unit.square()
        h = torch.cat([variance, constant.expand(len(phi), -1)], dim=1)
        return phi @ self.mean.T * self.unit, h
