"""What every inference hands to training and prediction: a frozen, differentiable posterior."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch
from gpytorch.kernels import Kernel
from torch import Tensor

__all__ = ["Diagnostics", "Inference", "Posterior"]


@dataclass(frozen=True)
class Diagnostics:
    """How a conditioning went; never part of the state it describes."""

    method: str
    n: int
    jitter: float = 0.0
    """Added to the diagonal, on top of the noise, to factorise the kernel matrix."""
    status: str = "ok"


@dataclass(frozen=True)
class Posterior(ABC):
    """GP posterior at frozen θ, latent points and targets; every method takes ``h`` ``(n, d)``.

    Means and variances are differentiable in ``h`` and in nothing else. Results are ``(n,)`` when
    the targets were ``(n,)``, else ``(n, outputs)``.
    """

    correlated: ClassVar[bool] = False
    """Whether outputs are correlated; else :meth:`output_covariance` is diagonal."""

    nlml: Tensor
    """Negative log marginal likelihood: total in nats, ½ n log 2π included, summed over outputs.
    Carries the graph to θ (and to H where the inference allows) when made with gradients on."""
    noise: Tensor
    """σ² ``(outputs,)``, jitter included."""
    squeeze: bool
    """Whether results drop the output axis."""
    diagnostics: Diagnostics

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
        """Mean and variance of the latent f, or of a new observation (adds σ²)."""
        mean, variance = self._both(h)
        if observed:
            variance = variance + self.noise
        return self._shaped(mean), self._shaped(variance)

    def loss(self, h: Tensor, y: Tensor) -> Tensor:
        """``[(y − m(h))² + v(h)] / 2σ²``, one value per row ``(n,)``, summed over outputs.

        The expected negative log-likelihood of a row under this frozen posterior, without its
        constant. Summed over the rows conditioned on, its gradient in ``h`` there equals the
        gradient of the NLML (Fisher's identity), and elsewhere it bounds the NLML from above up
        to a constant: the network can be trained on it row by row.
        """
        mean, variance = self._both(h)
        residual = y.to(mean).reshape(mean.shape) - mean
        return ((residual**2 + variance) / (2.0 * self.noise)).sum(-1)

    def output_covariance(self, h: Tensor, observed: bool = False) -> Tensor:
        """Covariance of the outputs at each point, of the latent f or of a new observation.

        ``(n, outputs, outputs)``, for any number of outputs.
        """
        _, variance = self._both(h)
        return torch.diag_embed(variance + self.noise if observed else variance)

    def decoupled(self, y: Tensor) -> tuple[Posterior, Tensor]:
        """A posterior of independent outputs, and targets ``y`` ``(n, outputs)`` for it.

        Their losses and NLML differ from these by constants: this posterior itself, and ``y``,
        unless outputs are correlated.
        """
        return self, y

    def _both(self, h: Tensor) -> tuple[Tensor, Tensor]:
        mean, variance = self._moments(h, variance=True)
        assert variance is not None  # asked for, so there: only the type does not know
        return mean, variance

    def _shaped(self, value: Tensor) -> Tensor:
        return value.squeeze(-1) if self.squeeze else value


class Inference(Protocol):
    """How rows become a posterior: first a summary free of θ, then, cheaply and often, the rest."""

    def statistics(self, H: Tensor, y: Tensor) -> Any:
        """All of ``H`` ``(n, d)`` and ``y`` ``(n, outputs)`` that conditioning needs."""
        ...

    def posterior(self, kernel: Kernel, noise: Tensor, statistics: Any, squeeze: bool) -> Posterior:
        """The posterior under a kernel and noise ``(outputs,)``; ``nlml`` carries their gradient."""
        ...

    def restart(self) -> None:
        """Forget where iterative solves ended, if there were any."""
        ...
