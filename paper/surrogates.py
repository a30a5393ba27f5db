"""The paper's own mini-batch estimators of the NLML's gradient, as plug-ins.

Each takes the rows of a batch at their present latent points and returns one number whose gradient
estimates that of ``NLML / n``. They differ in what they keep from the moment of conditioning: ``gradient``
one vector a row, ∂NLML/∂h_i (the paper's code); ``block`` the sub-matrix of ``K⁻¹ − αα'`` for the rows of
the batch (the paper's text).

References:
    Learning Scalable Deep Kernels with Recurrent Structure, Al-Shedivat et al. 2017, arXiv:1610.08936,
    algorithms 1 and 2.
"""

from __future__ import annotations

import torch
from torch import Tensor

from paper.coregional import decoupled
from seqgp.inference import Posterior
from seqgp.training import register_surrogate

__all__ = ["Block", "StaleGradient"]


@register_surrogate("gradient")
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


@register_surrogate("block")
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
        posterior, targets = decoupled(self.posterior, y.reshape(batch, -1))
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
