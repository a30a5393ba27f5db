"""Exact inference: dense Cholesky in float64, any gpytorch kernel, any latent dimension."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from seqgp.exceptions import NotPositiveDefiniteError
from seqgp.inference.cholesky import cholesky
from seqgp.inference.posterior import Diagnostics, Inference, Posterior, Take, register
from seqgp.likelihoods import Likelihood

__all__ = ["EXACT_ROWS", "Exact", "ExactPosterior", "Rows"]

EXACT_ROWS = 2000
"""Up to here a conditioning takes about as long as one on the default grid."""

_JITTERS = (0.0, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4)  # relative to the kernel's own variance


@dataclass(frozen=True)
class Rows:
    """The exact GP's statistics are the rows themselves: ``H`` ``(n, d)``, ``y`` ``(n, outputs)``."""

    H: Tensor
    y: Tensor

    @property
    def n(self) -> int:
        """How many rows."""
        return len(self.y)

    def transform(self, matrix: Tensor) -> Rows:
        """The same points with targets ``y matrixᵀ``; matrix ``(outputs, outputs)``."""
        return Rows(self.H, self.y @ matrix.T)

    def __add__(self, other: Rows) -> Rows:
        if not isinstance(other, Rows):
            return NotImplemented
        return Rows(torch.cat([self.H, other.H]), torch.cat([self.y, other.y]))


@dataclass(frozen=True, kw_only=True)
class ExactPosterior(Posterior):
    """Posterior of a dense GP.

    References:
        Gaussian Processes for Machine Learning, Rasmussen and Williams 2006, algorithm 2.1.
    """

    kernel: Kernel
    H: Tensor
    alpha: Tensor
    """``(K + σ²I)⁻¹ y``, ``(outputs, n, 1)``."""
    cholesky: Tensor
    """Lower factor of ``K + σ²I``, ``(outputs, n, n)``."""

    def _moments(self, h: Tensor, variance: bool) -> tuple[Tensor, Tensor | None]:
        h = h.to(self.H)
        cross = self.kernel(h, self.H).to_dense()  # (outputs or nothing, n*, n)
        cross = cross.expand(len(self.noise), *cross.shape[-2:])
        mean = (cross @ self.alpha).squeeze(-1).T
        if not variance:
            return mean, None
        prior = self.kernel(h, diag=True).expand(len(self.noise), len(h))
        solved = torch.linalg.solve_triangular(self.cholesky, cross.mT, upper=False)
        value = prior - solved.square().sum(-2)
        # The subtraction can round below the true value when the noise is tiny. Joint positive
        # definiteness (K ⪰ k k'/k**) gives a lower bound that is exact algebra, not a clamp at zero.
        bound = prior**2 * self.noise[:, None]
        bound = bound / (prior * self.noise[:, None] + cross.square().sum(-1))
        return mean, torch.maximum(value, bound).T

    def prior_covariance(self, h: Tensor) -> Tensor:
        """k(h, h), ``(outputs, n, n)``."""
        K = self.kernel(h.to(self.H)).to_dense()
        covariance: Tensor = K.expand(len(self.noise), *K.shape[-2:])
        return covariance

    def covariance(self, h: Tensor) -> Tensor:
        """Joint posterior covariance of the latent f, ``(outputs, n, n)``."""
        h = h.to(self.H)
        cross = self.kernel(h, self.H).to_dense()
        cross = cross.expand(len(self.noise), *cross.shape[-2:])
        solved = torch.linalg.solve_triangular(self.cholesky, cross.mT, upper=False)
        covariance: Tensor = self.prior_covariance(h) - solved.mT @ solved
        return covariance


@register("exact")
class Exact(Inference):
    """Dense inference: O(n³) time and O(n²) memory for each conditioning."""

    def statistics(self, H: Tensor, y: Tensor) -> Rows:
        """Keep the rows as they are, in one layout: sums round by it, and a saved model keeps it."""
        return Rows(H.contiguous(), y.contiguous())

    def posterior(self, kernel: Kernel, likelihood: Likelihood, statistics: Rows) -> ExactPosterior:
        """Condition on the rows; ``nlml`` is differentiable in θ, σ² and ``H``."""
        H, y, noise = statistics.H, statistics.y, likelihood.noise
        n, outputs = y.shape
        K = kernel(H).to_dense()
        K = K.expand(outputs, n, n)
        eye = torch.eye(n, dtype=K.dtype, device=K.device)
        scale = float(K.detach().diagonal(dim1=-2, dim2=-1).mean())
        L, jitter = cholesky(K + noise[:, None, None] * eye, scale, _JITTERS)
        if L is None:
            raise NotPositiveDefiniteError(_why(K.detach(), noise.detach(), H.detach()))
        alpha = torch.cholesky_solve(y.T.unsqueeze(-1), L)
        fit = 0.5 * (y.T.unsqueeze(-1) * alpha).sum()
        complexity = L.diagonal(dim1=-2, dim2=-1).log().sum()
        nlml = fit + complexity + 0.5 * n * outputs * math.log(2.0 * math.pi)
        return ExactPosterior(
            nlml=nlml,
            noise=noise.detach() + jitter,
            likelihood=likelihood.frozen(),
            diagnostics=Diagnostics(method="exact", n=n, jitter=jitter),
            kernel=copy.deepcopy(kernel).requires_grad_(False),
            H=H.detach().clone(),
            alpha=alpha.detach(),
            cholesky=L.detach(),
        )

    def arrays(self, statistics: Rows) -> dict[str, Tensor]:
        """The rows themselves."""
        return {"H": statistics.H, "y": statistics.y}

    def from_arrays(self, take: Take, n: int, latent_dim: int, outputs: int) -> Rows:
        """The rows again."""
        return Rows(take("H", (n, latent_dim)), take("y", (n, outputs)))


def _why(K: Tensor, noise: Tensor, H: Tensor) -> str:
    """Name the likely cause, from the most telling symptom to the least."""
    limit = f"{_JITTERS[-1]:g} times the kernel's variance"
    text = (
        f"the kernel matrix of {len(H)} rows is not positive definite even with jitter of {limit}: "
    )
    if not torch.isfinite(K).all():
        return text + (
            "it has values that are not finite. A kernel parameter has diverged: lower the learning "
            "rate of θ, or set gp.kernel's parameters to finite values."
        )
    distinct = len(torch.unique(H, dim=0))
    smallest = float(noise.min())
    if distinct < len(H):
        cause = (
            f"only {distinct} of {len(H)} latent points are distinct (the encoder has collapsed?)"
        )
    else:
        cause = "the kernel itself gives an indefinite matrix on these points"
    return text + (
        f"{cause}, and the noise σ² is {smallest:.1e}. Raise the noise, lower the learning rate, "
        "or check that the kernel is a valid one."
    )
