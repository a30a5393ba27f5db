"""A posterior about predictions that come along with the latent points."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from seqgp.inference.posterior import Posterior

__all__ = ["OffsetPosterior"]


@dataclass(frozen=True)
class OffsetPosterior(Posterior):
    """``inner`` at the first ``latent_dim`` columns of ``h``, about the predictions in the others.

    The mean is differentiable in both: a network can learn its prediction and its kernel together.
    """

    inner: Posterior
    latent_dim: int
    share: Tensor | float = 1.0
    """Of the inner posterior's mean that is added, ``(outputs,)`` or one for all."""

    def _moments(self, h: Tensor, variance: bool) -> tuple[Tensor, Tensor | None]:
        latent, prediction = self._split(h)
        mean, spread = self.inner._moments(latent, variance)
        return self.share * mean + prediction.to(mean), spread

    def prior_covariance(self, h: Tensor) -> Tensor:
        """k(h, h) of the inner posterior, ``(outputs, n, n)``."""
        return self.inner.prior_covariance(self._split(h)[0])

    def covariance(self, h: Tensor) -> Tensor:
        """That of the inner posterior: predictions have no doubt of their own."""
        return self.inner.covariance(self._split(h)[0])

    def _split(self, h: Tensor) -> tuple[Tensor, Tensor]:
        return torch.tensor_split(h, (self.latent_dim,), dim=1)  # type: ignore[return-value]
