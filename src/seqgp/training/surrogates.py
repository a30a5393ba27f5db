"""Mini-batch stand-ins for the NLML as a function of the latent points, given a frozen posterior.

Each takes the rows of a batch at their present latent points and returns one number whose gradient
estimates that of ``NLML / n``. They differ in what they remember from the moment of conditioning:

==============  ======================================================================  ==========
``posterior``   the posterior's mean and variance as functions: an upper bound          default
``gradient``    one vector a row, ∂NLML/∂h_i: the bound's tangent                       paper's code
``block``       the sub-matrix of ``K⁻¹ − αα'`` for the rows of the batch               paper's text
==============  ======================================================================  ==========
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from seqgp.inference.posterior import Posterior

__all__ = ["SURROGATES", "Block", "FrozenPosterior", "StaleGradient", "Surrogate", "make_surrogate"]


class Surrogate(Protocol):
    """A loss on a batch, good until the posterior it was made from is replaced."""

    def loss(self, h: Tensor, y: Tensor, index: Tensor) -> Tensor:
        """Scalar for latent points ``h`` ``(b, d)``, targets ``y`` ``(b, outputs)``, rows ``index``."""
        ...


class FrozenPosterior:
    """Expected negative log-likelihood under the frozen posterior; see :meth:`Posterior.loss`."""

    def __init__(self, posterior: Posterior, H: Tensor, y: Tensor) -> None:
        self.posterior = posterior

    def loss(self, h: Tensor, y: Tensor, index: Tensor) -> Tensor:
        """Mean over the batch of the posterior's own loss."""
        return self.posterior.loss(h, y).mean()


class StaleGradient:
    """Linear in ``h``, with the NLML's gradient at the point of conditioning as slope."""

    chunk = 4096  # bounds the memory of the one pass that makes the slopes

    def __init__(self, posterior: Posterior, H: Tensor, y: Tensor) -> None:
        slopes = []
        for part, targets in zip(H.split(self.chunk), y.split(self.chunk), strict=True):
            points = part.detach().clone().requires_grad_(True)
            with torch.enable_grad():
                total = posterior.loss(points, targets).sum()
            slopes.append(torch.autograd.grad(total, points)[0])
        self.slope = torch.cat(slopes)

    def loss(self, h: Tensor, y: Tensor, index: Tensor) -> Tensor:
        """Mean over the batch of ``⟨∂NLML/∂h_i, h_i⟩``."""
        return (self.slope[index] * h.to(self.slope)).sum(-1).mean()


class Block:
    """The paper's estimator from the sub-matrix of the batch, ``Σ_{ij ∈ batch} M_ij k(h_i, h_j)``.

    ``M = ½ (K⁻¹ − αα')`` is taken at the moment of conditioning. Deviation from the paper: it
    weights all pairs alike, but of n rows a batch of b holds a given pair with probability
    ``b(b−1) / n(n−1)`` and a given row with ``b/n``, so the plain sum under-weights the pairs.
    With off-diagonal pairs weighted by ``(n−1)/(b−1)`` the estimator is unbiased.
    """

    def __init__(self, posterior: Posterior, H: Tensor, y: Tensor) -> None:
        self.posterior, self.H = posterior, H

    def loss(self, h: Tensor, y: Tensor, index: Tensor, pair_weight: float | None = None) -> Tensor:
        """Scalar for the batch; ``pair_weight=1`` is the paper's biased form."""
        n, batch = len(self.H), len(index)
        if pair_weight is None:
            pair_weight = (n - 1) / max(batch - 1, 1)
        # K⁻¹ is one block per output only where outputs are independent.
        posterior, targets = self.posterior.decoupled(y.reshape(batch, -1))
        noise = posterior.noise[:, None, None]
        with torch.no_grad():
            # K⁻¹ = (I − C/σ²)/σ² with C the posterior covariance, and α = (y − m)/σ²: this way
            # the estimator needs no more of an inference than its posterior.
            stale = self.H[index]
            eye = torch.eye(batch, dtype=stale.dtype, device=stale.device)
            inverse = (eye - posterior.covariance(stale) / noise) / noise
            mean = posterior.mean(stale).reshape(batch, -1)
            alpha = ((targets - mean) / posterior.noise).T
            M = 0.5 * (inverse - alpha[:, :, None] * alpha[:, None, :])
            weight = eye + pair_weight * (1.0 - eye)
        return (weight * M * posterior.prior_covariance(h)).sum() / batch


SURROGATES: dict[str, type[FrozenPosterior | StaleGradient | Block]] = {
    "posterior": FrozenPosterior,
    "gradient": StaleGradient,
    "block": Block,
}


def make_surrogate(name: str, posterior: Posterior, H: Tensor, y: Tensor) -> Surrogate:
    """The surrogate of that name for a posterior conditioned on ``H`` ``(n, d)`` and ``y``."""
    if name not in SURROGATES:
        raise ValueError(f"surrogate={name!r} is not known: use one of {', '.join(SURROGATES)}")
    return SURROGATES[name](posterior, H, y)
