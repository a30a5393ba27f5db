"""What every inference hands to training and prediction: a frozen, differentiable posterior."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpytorch.kernels import Kernel
from torch import Tensor

from seqgp.likelihoods import Likelihood
from seqgp.options import Registry

__all__ = ["INFERENCES", "Diagnostics", "Inference", "Posterior", "Take", "register"]


@dataclass(frozen=True)
class Diagnostics:
    """How a conditioning went; never part of the state it describes."""

    method: str
    n: int
    jitter: float = 0.0
    """Added to the diagonal, on top of the noise, to factorise the kernel matrix."""
    status: str = "ok"


@dataclass(frozen=True, kw_only=True)
class Posterior(ABC):
    """GP posterior at frozen θ, latent points and targets; every method takes ``h`` ``(n, d)``.

    Means and variances are differentiable in ``h`` and in nothing else. Results are ``(n, outputs)``,
    or ``(n,)`` where :meth:`seqgp.GP.condition` was given targets ``(n,)``.
    """

    nlml: Tensor
    """Negative log marginal likelihood: total in nats, ½ n log 2π included, summed over outputs.
    Carries the graph to θ (and to H where the inference allows) when made with gradients on."""
    noise: Tensor
    """σ² ``(outputs,)``, jitter included."""
    likelihood: Likelihood
    """Of the observations; its parameters are those of the conditioning, and stay."""
    diagnostics: Diagnostics
    squeeze: bool = False
    """Whether results drop the output axis."""

    @abstractmethod
    def _moments(self, h: Tensor, variance: bool) -> tuple[Tensor, Tensor | None]:
        """Mean ``(n, outputs)`` and, if asked, variance ``(n, outputs)`` of the latent f."""

    @abstractmethod
    def prior_covariance(self, h: Tensor) -> Tensor:
        """k(h, h) under frozen θ, ``(outputs, n, n)``, differentiable in ``h``."""

    @abstractmethod
    def covariance(self, h: Tensor) -> Tensor:
        """Joint posterior covariance of the latent f at ``h``, ``(outputs, n, n)``."""

    def mean(self, h: Tensor) -> Tensor:
        """Posterior mean of the latent f."""
        return self._shaped(self._moments(h, variance=False)[0])

    def variance(self, h: Tensor) -> Tensor:
        """Posterior variance of the latent f, without the noise; never negative."""
        return self.predict(h)[1]

    def predict(self, h: Tensor, observed: bool = False) -> tuple[Tensor, Tensor]:
        """Mean and variance of the latent f, or of a new observation.

        Args:
            h: latent points ``(n, d)``.
            observed: whether the variance is that of an observation.
        """
        mean, variance = self._both(h)
        if observed:
            variance = self.likelihood.observed(variance, self.noise)
        return self._shaped(mean), self._shaped(variance)

    def loss(self, h: Tensor, y: Tensor) -> Tensor:
        """The likelihood's expected loss, one value per row ``(n,)``, summed over outputs.

        For a Gaussian likelihood ``[(y − m(h))² + v(h)] / 2σ²``. Summed over the rows conditioned on,
        its gradient in ``h`` there equals the gradient of the NLML (Fisher's identity), and elsewhere it
        bounds the NLML from above up to a constant: the network can be trained on it row by row.

        Args:
            h: latent points ``(n, d)``.
            y: targets ``(n,)`` or ``(n, outputs)``.
        """
        mean, variance = self._both(h)
        return self.likelihood.expected_loss(
            y.to(mean).reshape(mean.shape), mean, variance, self.noise
        )

    def _both(self, h: Tensor) -> tuple[Tensor, Tensor]:
        mean, variance = self._moments(h, variance=True)
        assert variance is not None  # asked for, so there: only the type does not know
        return mean, variance

    def _shaped(self, value: Tensor) -> Tensor:
        return value.squeeze(-1) if self.squeeze else value


Take = Callable[[str, tuple[int, ...]], Tensor]
"""Gives the stored array of that name and shape as a tensor, or refuses."""


class Inference(ABC):
    """How rows become a posterior: first statistics free of θ, then, cheaply and often, the rest.

    Statistics have the number of rows ``n``, and those of more rows add.

    Args:
        grid_size: points per latent dimension, for an inference that has a grid.
    """

    def __init__(self, grid_size: int | None = None) -> None:
        self.grid_size = grid_size

    @abstractmethod
    def statistics(self, H: Tensor, y: Tensor) -> Any:
        """All that conditioning needs of the rows.

        Args:
            H: latent points ``(n, d)``.
            y: targets ``(n, outputs)``.
        """

    @abstractmethod
    def posterior(self, kernel: Kernel, likelihood: Likelihood, statistics: Any) -> Posterior:
        """The posterior; ``nlml`` carries the gradient of the kernel's and the likelihood's parameters.

        Args:
            kernel: on the latent space.
            likelihood: whose ``noise`` is conditioned with.
            statistics: what :meth:`statistics` gave.
        """

    def size(self, latent_dim: int) -> int | None:
        """Grid points per latent dimension; None where there is no grid."""
        return None

    @abstractmethod
    def arrays(self, statistics: Any) -> dict[str, Tensor]:
        """Statistics as arrays by name, for a file."""

    @abstractmethod
    def from_arrays(self, take: Take, n: int, latent_dim: int, outputs: int) -> Any:
        """Statistics from the arrays of a file, their sizes checked before they are believed.

        Args:
            take: gives the array of a name and shape.
            n: number of rows.
            latent_dim: d.
            outputs: columns of the targets.
        """

    def restart(self) -> None:  # noqa: B027 (most inferences remember nothing)
        """Forget where iterative solves ended, if there were any: the next begins as the first did."""


INFERENCES: Registry[type[Inference]] = Registry("inference")
register = INFERENCES.register
