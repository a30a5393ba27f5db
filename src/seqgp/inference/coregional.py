"""Correlated outputs by a change of outputs, after which they are independent.

Latent functions have ``cov(f_a(h), f_b(h')) = B_ab k(h, h')``, and their noise the covariance D. A
matrix M with ``B = MMᵀ`` and ``D = M diag(ν) Mᵀ`` (a symmetric eigenproblem as large as there are
outputs) gives functions ``g = M⁻¹f`` that are independent, all with the kernel k, and noise ν_r. So any
inference for independent outputs serves, on targets ``y M⁻ᵀ``, and

    NLML(B, D) = Σ_r NLML_r(k, ν_r) + ½ n log|B|.

Eigenvectors have no slope where eigenvalues coincide, but the NLML has. With ``α_r = K_r⁻¹ y_r`` for
the independent outputs, ``β = M⁻¹ dB M⁻ᵀ`` and ``δ = M⁻¹ dD M⁻ᵀ``,

    dNLML = ½ Σ_rs [ (tr K_r⁻¹K 1_rs - α_rᵀKα_s) β_rs + (tr K_r⁻¹ 1_rs - α_rᵀα_s) δ_rs ],

which is what the dense formula ½ tr((K_y⁻¹ - αα') dK_y) becomes: nothing is divided by a gap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from seqgp.inference.exact import ExactPosterior
from seqgp.inference.grid import GridPosterior
from seqgp.inference.posterior import Inference, Posterior

__all__ = ["CoregionalPosterior", "coregionalise"]


@dataclass(frozen=True)
class CoregionalPosterior(Posterior):
    """Posterior of correlated outputs ``f = Mg``, from that of independent ``g``.

    References:
        Kernels for Vector-Valued Functions: a Review, Álvarez, Rosasco and Lawrence 2012,
        arXiv:1106.6251, section 4.
    """

    correlated: ClassVar[bool] = True
    independent: Posterior
    """Of g."""
    mixing: Tensor
    """``M``, ``(outputs, outputs)``."""
    unmixing: Tensor
    """``M⁻¹``."""

    def decoupled(self, y: Tensor) -> tuple[Posterior, Tensor]:
        """The posterior of g, and targets ``(n, outputs)`` for it."""
        return self.independent, y.to(self.unmixing) @ self.unmixing.T

    def loss(self, h: Tensor, y: Tensor) -> Tensor:
        """``½ E (y - f)ᵀ D⁻¹ (y - f)``, one value per row ``(n,)``; see :meth:`Posterior.loss`."""
        independent, targets = self.decoupled(y.reshape(len(h), -1))
        return independent.loss(h, targets)

    def output_covariance(self, h: Tensor, observed: bool = False) -> Tensor:
        """Covariance of the outputs at each point, ``(n, outputs, outputs)``."""
        variance = self.independent.predict(h, observed)[1]
        return (self.mixing * variance.unsqueeze(-2)) @ self.mixing.T

    def prior_covariance(self, h: Tensor) -> Tensor:
        """``B_aa k(h, h)`` of each output a, ``(outputs, n, n)``."""
        return self._mixed(self.independent.prior_covariance(h))

    def covariance(self, h: Tensor) -> Tensor:
        """Joint posterior covariance of each output, ``(outputs, n, n)``."""
        return self._mixed(self.independent.covariance(h))

    def _mixed(self, covariance: Tensor) -> Tensor:
        return torch.einsum("ar,rij->aij", self.mixing.square(), covariance)

    def _moments(self, h: Tensor, variance: bool) -> tuple[Tensor, Tensor | None]:
        mean, spread = self.independent._moments(h, variance)
        if spread is not None:
            spread = spread @ self.mixing.square().T  # a sum of what is positive
        return mean @ self.mixing.T, spread


def coregionalise(
    inference: Inference,
    kernel: Kernel,
    B: Tensor,
    D: Tensor,
    statistics: Any,
    squeeze: bool,
) -> CoregionalPosterior:
    """The posterior under a kernel, and covariances B and D ``(outputs, outputs)`` of f and the noise.

    ``nlml`` carries the gradient of all three, and that of the rows where the inference gives it.
    """
    mixing, unmixing = _diagonalise(B.detach(), D.detach())
    white_B = unmixing @ B @ unmixing.T  # the identity, and
    white_D = unmixing @ D @ unmixing.T  # diagonal, but they carry slopes
    nu = white_D.diagonal() / white_B.diagonal()
    rotated = statistics.transform(unmixing)
    independent = inference.posterior(kernel, nu, rotated, squeeze=False)
    nlml = independent.nlml + rotated.n * torch.linalg.slogdet(mixing).logabsdet
    if torch.is_grad_enabled() and (B.requires_grad or D.requires_grad):
        squares, fits = _products(independent, statistics, mixing, unmixing)
        slope = _slope(rotated.n, independent.noise, squares, fits, white_B, white_D)
        nlml = nlml + (slope - slope.detach())
    return CoregionalPosterior(
        nlml=nlml,
        noise=mixing.square() @ independent.noise,
        squeeze=squeeze,
        diagnostics=independent.diagnostics,
        independent=independent,
        mixing=mixing,
        unmixing=unmixing,
    )


def _diagonalise(B: Tensor, D: Tensor) -> tuple[Tensor, Tensor]:
    """``M`` and ``M⁻¹``: ``B = MMᵀ`` and ``D = M diag(ν) Mᵀ``."""
    L = torch.linalg.cholesky(D)
    half = torch.linalg.solve_triangular(L, B, upper=False)
    value, vector = torch.linalg.eigh(torch.linalg.solve_triangular(L, half.T, upper=False))
    root = value.clamp_min(1e-14 * value[-1]).sqrt()  # below that it is rounding
    inverse = torch.linalg.solve_triangular(L, (vector / root).T, upper=False, left=False)
    return (L @ vector) * root, inverse


def _products(
    posterior: Posterior, statistics: Any, mixing: Tensor, unmixing: Tensor
) -> tuple[Tensor, Tensor]:
    """``α_rᵀα_s`` and ``α_rᵀKα_s`` of the independent outputs; statistics of the correlated ones."""
    if isinstance(posterior, ExactPosterior):
        alpha = posterior.alpha.squeeze(-1)
        fitted = unmixing @ statistics.y.detach().T - posterior.noise[:, None] * alpha
        return alpha @ alpha.T, alpha @ fitted.T
    assert isinstance(posterior, GridPosterior)  # there is no third inference
    u = torch.tensordot(mixing, posterior.mean_grid, 1)
    left = unmixing / posterior.noise[:, None]  # from residuals to α
    residuals, fits = statistics.residual_products(u)
    return left @ residuals @ left.T, left @ fits @ unmixing.T


def _slope(
    n: int, noise: Tensor, squares: Tensor, fits: Tensor, white_B: Tensor, white_D: Tensor
) -> Tensor:
    """A number with the slope of the NLML in B and D, but for what comes by way of ν.

    That is ``½ (tr K_r⁻¹ - α_rᵀα_r) dν_r`` with ``dν_r = δ_rr - ν_r β_rr``, from the inference itself.
    """
    of_B, of_D = -0.5 * fits, -0.5 * squares
    of_B.diagonal().copy_(0.5 * (n - fits.diagonal() - noise * squares.diagonal()))
    of_D.diagonal().zero_()
    return (of_B * white_B).sum() + (of_D * white_D).sum()
