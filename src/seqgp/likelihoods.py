"""Likelihoods: how an observation scatters about the latent function.

Exact and grid inference are conjugate: they condition on Gaussian noise of variance
:attr:`Likelihood.noise` and ask nothing else of a likelihood. Training and prediction ask
for its expected loss and its variance.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from seqgp.kernels import log_greater_than
from seqgp.options import OptionsModule, Registry

__all__ = ["LIKELIHOODS", "NOISE_FLOOR", "Gaussian", "Likelihood", "as_likelihood", "register"]

NOISE_FLOOR = 1e-6
"""The least σ², on standardised targets: a thousandth of their standard deviation."""


class Likelihood(OptionsModule, ABC):
    """``p(y | f)``, independent over rows and outputs; subclasses hold its parameters.

    Args:
        outputs: columns of the targets.
        **options: other arguments of the subclass's constructor, as they were given.
    """

    def __init__(self, outputs: int, **options: Any) -> None:
        super().__init__(outputs=outputs, **options)
        self.outputs = outputs

    @property
    @abstractmethod
    def noise(self) -> Tensor:
        """Variance ``(outputs,)`` of the Gaussian that conjugate inference conditions with."""

    def initialise(self, y: Tensor) -> None:
        """Choose first parameters by the targets.

        Args:
            y: ``(n, outputs)``.
        """

    def expected_loss(self, y: Tensor, mean: Tensor, variance: Tensor, noise: Tensor) -> Tensor:
        """``E[−log p(y | f)]`` for ``f ~ N(mean, variance)``, without its constant: ``(n,)``, summed.

        Args:
            y: targets ``(n, outputs)``.
            mean: of the latent function, ``(n, outputs)``.
            variance: of the latent function, ``(n, outputs)``.
            noise: that the posterior was conditioned with, jitter included, ``(outputs,)``.
        """
        return (((y - mean) ** 2 + variance) / (2.0 * noise)).sum(-1)

    def frozen(self) -> Likelihood:
        """A copy whose parameters nothing changes, for a posterior."""
        return copy.deepcopy(self).requires_grad_(False)

    def observed(self, variance: Tensor, noise: Tensor) -> Tensor:
        """Variance of an observation, ``(n, outputs)``.

        Args:
            variance: of the latent function, ``(n, outputs)``.
            noise: that the posterior was conditioned with, jitter included, ``(outputs,)``.
        """
        return variance + noise


LIKELIHOODS: Registry[type[Likelihood]] = Registry("likelihood", ", or a Likelihood")
register = LIKELIHOODS.register


@register("gaussian")
class Gaussian(Likelihood):
    """Gaussian noise of one variance σ² an output, on the log scale.

    Args:
        noise: the first σ².
        outputs: columns of the targets.

    >>> Gaussian(noise=0.5, outputs=2).noise.detach()
    tensor([0.5000, 0.5000], dtype=torch.float64)
    """

    def __init__(self, noise: float = 0.1, outputs: int = 1) -> None:
        super().__init__(outputs=outputs, noise=noise)
        self._constraint = log_greater_than(NOISE_FLOOR).double()
        self.raw_noise = nn.Parameter(torch.zeros(outputs, dtype=torch.float64))
        self.set_noise(noise)

    @property
    def noise(self) -> Tensor:
        value: Tensor = self._constraint.transform(self.raw_noise)
        return value

    def set_noise(self, value: float | ArrayLike | Tensor) -> None:
        """Set σ²: one for all outputs, or ``(outputs,)``."""
        target = torch.as_tensor(value, dtype=torch.float64).detach().to(self.raw_noise.device)
        if not bool((target > NOISE_FLOOR).all()):
            raise ValueError(
                f"noise={value!r} is not above the floor of {NOISE_FLOOR:g}: σ² is a variance on the "
                "scale of standardised targets; use a larger value"
            )
        raw = self._constraint.inverse_transform(target)
        with torch.no_grad():
            self.raw_noise.copy_(raw.expand_as(self.raw_noise))

    def initialise(self, y: Tensor) -> None:
        """Noise as large as the targets' variance: the network first learns what explains much."""
        self.set_noise(y.var(0, correction=0).clamp_min(20.0 * NOISE_FLOOR))


def as_likelihood(likelihood: str | Likelihood, outputs: int) -> Likelihood:
    """An untrained likelihood for so many outputs.

    Args:
        likelihood: a registered name, or a likelihood whose options are taken.
        outputs: columns of the targets.
    """
    if isinstance(likelihood, Likelihood):
        return likelihood.with_options(outputs=outputs)
    return LIKELIHOODS[likelihood](outputs=outputs)
