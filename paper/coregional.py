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
from typing import Any

import torch
from gpytorch.kernels import Kernel, ScaleKernel
from torch import Tensor, nn

from seqgp.gp import GP, Statistics, register
from seqgp.inference import ExactPosterior, GridPosterior, Inference, Posterior
from seqgp.kernels import build_kernel, log_greater_than
from seqgp.likelihoods import Gaussian, Likelihood

__all__ = [
    "Coregion",
    "CoregionalPosterior",
    "CorrelatedGP",
    "Given",
    "NoiseCorrelation",
    "coregionalise",
    "decoupled",
]

_FLOOR = 1e-6  # of the diagonal, on standardised targets: B stays positive definite
_SHARED = 0.9  # of the targets' covariance that starts in the low-rank part


_OUTPUT_RANK = 4


class Coregion(nn.Module):
    """``B = LLᵀ + diag(d)`` ``(outputs, outputs)``: the prior covariance of outputs at one point.

    ``L`` is ``(outputs, rank)``; ``d`` is positive, on the log scale. Outputs start as independent,
    with unit variance.

    References:
        Multi-task Gaussian Process Prediction, Bonilla, Chai and Williams 2007. Kernels for
        Vector-Valued Functions: a Review, Álvarez, Rosasco and Lawrence 2012, arXiv:1106.6251.

    >>> Coregion(outputs=3, rank=1)().shape
    torch.Size([3, 3])
    """

    def __init__(self, outputs: int, rank: int) -> None:
        super().__init__()
        self._constraint = log_greater_than(_FLOOR).double()
        self.factor = nn.Parameter(torch.zeros(outputs, rank, dtype=torch.float64))
        self.raw_diagonal = nn.Parameter(torch.zeros(outputs, dtype=torch.float64))
        # At L = 0 the slope in L is zero as well: half of the variance starts there.
        half = torch.eye(outputs, rank, dtype=torch.float64) * 0.5**0.5
        self._set(half, torch.ones(outputs, dtype=torch.float64))

    def forward(self) -> Tensor:
        """B."""
        diagonal: Tensor = self._constraint.transform(self.raw_diagonal)
        return self.factor @ self.factor.T + diagonal.diag()

    def initialise(self, covariance: Tensor) -> None:
        """Start at the targets' own covariance ``(outputs, outputs)``, as closely as the rank allows."""
        value, vector = torch.linalg.eigh(covariance)
        rank = self.factor.shape[1]
        leading = vector[:, -rank:] * (_SHARED * value[-rank:].clamp_min(0.0)).sqrt()
        self._set(leading, covariance.diagonal())

    def _set(self, factor: Tensor, variance: Tensor) -> None:
        """Set L, and d to what it leaves of each output's variance."""
        left = (variance - factor.square().sum(1)).clamp_min(20.0 * _FLOOR)
        with torch.no_grad():
            self.factor.copy_(factor)
            self.raw_diagonal.copy_(self._constraint.inverse_transform(left))


class NoiseCorrelation(nn.Module):
    """Correlation of the outputs' noise ``(outputs, outputs)``: ``NNᵀ + I``, with a unit diagonal.

    ``N`` is ``(outputs, rank)``. What the latent points do not explain is noise to the GP, and common
    to outputs as a rule, even where the instruments' own noise is not. Were it independent, a short
    lengthscale would have to explain it. The noise starts uncorrelated: from the targets' own
    correlation, an optimiser may take for noise what is signal (seen on a sample of 40 rows).

    >>> NoiseCorrelation(outputs=2, rank=1)().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    def __init__(self, outputs: int, rank: int) -> None:
        super().__init__()
        # At N = 0 the slope is zero; one column per output is uncorrelated as well.
        self.factor = nn.Parameter(torch.eye(outputs, rank, dtype=torch.float64))

    def forward(self) -> Tensor:
        """The correlation."""
        scaled = self.factor / (1.0 + self.factor.square().sum(1, keepdim=True)).sqrt()
        correlation: Tensor = scaled @ scaled.T
        return correlation + (1.0 - correlation.diagonal()).diag()


@dataclass(frozen=True, kw_only=True)
class CoregionalPosterior(Posterior):
    """Posterior of correlated outputs ``f = Mg``, from that of independent ``g``.

    References:
        Kernels for Vector-Valued Functions: a Review, Álvarez, Rosasco and Lawrence 2012,
        arXiv:1106.6251, section 4.
    """

    independent: Posterior
    """Of g."""
    mixing: Tensor
    """``M``, ``(outputs, outputs)``."""
    unmixing: Tensor
    """``M⁻¹``."""

    def loss(self, h: Tensor, y: Tensor) -> Tensor:
        """``½ E (y - f)ᵀ D⁻¹ (y - f)``, one value per row ``(n,)``; see :meth:`Posterior.loss`."""
        independent, targets = decoupled(self, y.reshape(len(h), -1))
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


def decoupled(posterior: Posterior, y: Tensor) -> tuple[Posterior, Tensor]:
    """A posterior of independent outputs and targets for it; their losses differ by constants.

    Args:
        posterior: of correlated outputs, or any other, which comes back as it is.
        y: targets ``(n, outputs)``.
    """
    if not isinstance(posterior, CoregionalPosterior):
        return posterior, y
    return posterior.independent, y.to(posterior.unmixing) @ posterior.unmixing.T


class Given(Gaussian):
    """Gaussian noise of a variance that is computed from other parameters."""

    def __init__(self, given: Tensor) -> None:
        super().__init__(outputs=len(given))
        self.given = given

    @property
    def noise(self) -> Tensor:
        return self.given

    def frozen(self) -> Likelihood:
        return Gaussian(outputs=self.outputs).frozen()


@register("correlated")
class CorrelatedGP(GP):
    """A GP whose outputs, and their noise, vary together: intrinsic coregionalisation.

    ``cov(f_a(h), f_b(h')) = B_ab k(h, h')``; all outputs share the kernel's parameters, and a kernel given
    by name has no variance of its own.

    Args:
        kernel: as for :class:`seqgp.GP`.
        inference: as for :class:`seqgp.GP`.
        latent_dim: d.
        outputs: how many targets each row has.
        grid_size: grid points per dimension.
        output_rank: of what correlates outputs, in B and in the noise; by default 4, or all if fewer.
    """

    def __init__(
        self,
        kernel: str | Kernel = "rbf",
        inference: str = "auto",
        latent_dim: int = 2,
        outputs: int = 1,
        grid_size: int | None = None,
        output_rank: int | None = None,
    ) -> None:
        super().__init__(kernel, inference, latent_dim, outputs, grid_size=grid_size)
        self.options = {
            "kernel": kernel,
            "inference": inference,
            "latent_dim": latent_dim,
            "outputs": outputs,
            "grid_size": grid_size,
            "output_rank": output_rank,
        }
        rank = min(outputs, _OUTPUT_RANK) if output_rank is None else output_rank
        if not 1 <= rank <= outputs and outputs > 1:
            raise ValueError(
                f"output_rank={rank} is not between 1 and the number of outputs, {outputs}: a "
                "covariance of so many outputs has no other rank"
            )
        rank = min(rank, outputs)
        self.coregion = Coregion(outputs, rank)
        self.noise_correlation = NoiseCorrelation(outputs, rank)

    def build_kernel(self, kernel: str | Kernel, product: bool) -> Any:
        """One kernel for all outputs; a named one comes without a variance of its own."""
        if isinstance(kernel, Kernel) and kernel.batch_shape:
            raise ValueError(
                f"the kernel has batch shape {tuple(kernel.batch_shape)}, but correlated outputs share one "
                "kernel: give it no batch shape, or use a plain GP"
            )
        built = build_kernel(kernel, self.latent_dim, product=product)
        named = isinstance(kernel, str) and isinstance(built, ScaleKernel)
        return built.base_kernel if named else built

    @property
    def output_covariance(self) -> Tensor:
        """B ``(outputs, outputs)``."""
        covariance: Tensor = self.coregion()
        return covariance

    @property
    def noise_covariance(self) -> Tensor:
        """Covariance of the noise ``(outputs, outputs)``, with σ² on its diagonal."""
        noise = self.likelihood.noise
        correlation: Tensor = self.noise_correlation()
        return correlation * (noise[:, None] * noise).sqrt()

    def initialise(self, y: Tensor) -> None:
        """Start B at the targets' covariance, and the noise at their variance."""
        targets = y.detach().double().reshape(len(y), -1)
        self.coregion.initialise(torch.cov(targets.T, correction=0).reshape(self.outputs, -1))
        self.likelihood.initialise(targets)

    def posterior(self, statistics: Statistics) -> CoregionalPosterior:
        """The posterior given statistics, under the present parameters."""
        B, D = self.coregion(), self.noise_covariance
        return coregionalise(statistics.inference, self.kernel, B, D, statistics.value)


def coregionalise(
    inference: Inference, kernel: Kernel, B: Tensor, D: Tensor, statistics: Any
) -> CoregionalPosterior:
    """The posterior of correlated outputs; ``nlml`` carries the gradient of kernel, B and D.

    Args:
        inference: for independent outputs.
        kernel: that they share.
        B: covariance ``(outputs, outputs)`` of the latent functions.
        D: covariance ``(outputs, outputs)`` of the noise.
        statistics: that the inference made of the rows.
    """
    mixing, unmixing = _diagonalise(B.detach(), D.detach())
    white_B = unmixing @ B @ unmixing.T  # the identity, and
    white_D = unmixing @ D @ unmixing.T  # diagonal, but they carry slopes
    nu = white_D.diagonal() / white_B.diagonal()
    rotated = statistics.transform(unmixing)
    independent = inference.posterior(kernel, Given(nu), rotated)
    nlml = independent.nlml + rotated.n * torch.linalg.slogdet(mixing).logabsdet
    if torch.is_grad_enabled() and (B.requires_grad or D.requires_grad):
        squares, fits = _products(independent, statistics, mixing, unmixing)
        slope = _slope(rotated.n, independent.noise, squares, fits, white_B, white_D)
        nlml = nlml + (slope - slope.detach())
    return CoregionalPosterior(
        nlml=nlml,
        noise=mixing.square() @ independent.noise,
        likelihood=independent.likelihood,
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
