"""The grid's posterior: a table for means and variances, a low-rank factor for covariances."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from seqgp.inference.posterior import Diagnostics, Posterior
from seqgp.likelihoods import Gaussian

from .eigenbasis import Eigenbasis
from .interpolation import GridSpec
from .iterative import System
from .loss import row_losses
from .prior import interp, least_prior_variance, prior_at_nodes, prior_covariance
from .resolve import resolved_factor
from .stencil import band, stencil_at_nodes
from .tables import Tables, cell_rows, variance_at_nodes

__all__ = ["DirectSpread", "GridDiagnostics", "GridPosterior", "ResolvedSpread", "Spread"]


@dataclass(frozen=True)
class GridDiagnostics(Diagnostics):
    """How a conditioning on the grid went.

    ``status`` is ``"ok"`` for a direct solve, ``"converged"`` or ``"max iterations"`` for an
    iterative one, followed by ``"; unresolved"`` where ``resolved`` is false.
    """

    grid_size: int = 0
    """Grid points per dimension."""
    rank: int = 0
    """Eigenpairs kept (direct), or in the preconditioner (iterative); the most of any output."""
    dropped: float = 0.0
    """Prior variance left out by the direct path, as a share of σ²: half of it bounds the error of
    the NLML, in nats per point."""
    iterations: int = 0
    """Of conjugate gradients; 0 for a direct solve."""
    residual: float = 0.0
    """Largest relative residual ``‖Pᵀb - Cx‖ / ‖Pᵀb‖`` of the solves; 0 for a direct solve."""
    logdet_error: float = 0.0
    """Standard error of the stochastic log-determinant in nats, over the probes."""
    resolved: bool = True
    """Whether neighbouring grid points are close under the kernel: for an RBF kernel, a lengthscale
    of at least two grid steps."""


class Spread(Protocol):
    """The covariance of one output's posterior."""

    def at_nodes(self) -> Tensor:
        """Variance at all nodes, ``(nodes,) * d``."""
        ...

    def covariance(self, rows: list[Tensor], prior: Tensor) -> Tensor:
        """Joint covariance ``(n, n)`` at a few rows (see ``interp``) with prior ``(n, n)``."""
        ...


@dataclass(frozen=True)
class DirectSpread:
    """``σ² φᵀC⁻¹φ'`` in rank space: a product of a factor with itself, never a difference."""

    basis: Eigenbasis
    cholesky: Tensor
    inverse: Tensor
    noise: Tensor

    def at_nodes(self) -> Tensor:
        """Variance at all nodes, ``(nodes,) * d``."""
        return variance_at_nodes(self.basis, self.noise * self.inverse)

    def covariance(self, rows: list[Tensor], prior: Tensor) -> Tensor:
        """Joint covariance ``(n, n)``; the prior is not needed."""
        parts = []
        for component in self.basis.components:
            phi = torch.ones_like(rows[0][:, :1])
            for j, row in enumerate(rows):
                phi = phi * (row @ component.vectors[j])[:, component.where[j]]
            parts.append(phi)
        phi = torch.cat(parts, 1).T
        half: Tensor = torch.linalg.solve_triangular(self.cholesky, phi, upper=False)
        return self.noise * (half.T @ half)


@dataclass(frozen=True)
class ResolvedSpread:
    """Prior minus what some directions of the data resolve: never below the true variance.

    The directions are orthonormal combinations of the rows; conditioning on them alone is
    conditioning on less, so that nothing is claimed that the data do not say.
    """

    system: System

    @cached_property
    def factor(self) -> Tensor:
        """``F`` ``(directions, size, …)``: the variance is ``wᵀ(K_UU - FᵀF)w``; made at first use."""
        with torch.no_grad():
            return resolved_factor(self.system)

    def at_nodes(self) -> Tensor:
        """Variance at all nodes, ``(nodes,) * d``."""
        resolved = stencil_at_nodes(band(self.factor))
        return prior_at_nodes(self.system.spectrum.columns, len(resolved)) - resolved

    def covariance(self, rows: list[Tensor], prior: Tensor) -> Tensor:
        """Joint covariance ``(n, n)``."""
        f = torch.einsum("ng,kg...->nk...", rows[0], self.factor)
        for row in rows[1:]:
            f = torch.einsum("ng,nkg...->nk...", row, f)
        return prior - f @ f.T


@dataclass(frozen=True, kw_only=True)
class GridPosterior(Posterior):
    """Posterior of a GP whose kernel is interpolated from a grid: ``k(h, h') = wᵀ K_UU w'``.

    Means and variances come from a table of local polynomials, made at its first use and the same
    for any number of points asked. Points must lie in the box ``[-1, 1]^d``; they are checked except in
    training on a GPU (``h`` with a gradient), where reading the answer back would stall it.

    References:
        Kernel Interpolation for Scalable Structured Gaussian Processes, Wilson and Nickisch 2015,
        arXiv:1503.01057. Thoughts on Massively Scalable Gaussian Processes, Wilson, Dann and
        Nickisch 2015, arXiv:1511.01870.
    """

    spec: GridSpec
    columns: Tensor
    """First columns of the kernel's Toeplitz factors, ``(1 or outputs, components, d, size)``."""
    mean_grid: Tensor
    """Posterior mean at the grid points, ``(outputs, size, …)``."""
    spreads: tuple[Spread, ...]
    """One per output."""
    shrinkage: Tensor
    """``σ² / (σ² + tr PᵀSP)``, ``(outputs,)``: no variance falls below this share of the prior."""

    @cached_property
    def tables(self) -> Tables:
        """Rows of all cells, made at first use."""
        with torch.no_grad():
            # v = σ²φᵀC⁻¹φ ≥ σ²φᵀφ / λ_max(C), and λ_max(C) ≤ σ² + tr A.
            least = torch.stack([least_prior_variance(c) for c in self.columns])
            nodes = torch.stack([spread.at_nodes() for spread in self.spreads])
            rows = cell_rows(self.mean_grid, nodes)
            return Tables(self.spec, rows, floor=self.shrinkage * least)

    def _moments(self, h: Tensor, variance: bool) -> tuple[Tensor, Tensor | None]:
        self._check(h)
        return self.tables(h.to(self.mean_grid.device), variance)

    @cached_property
    def _weight(self) -> Tensor:
        return 0.5 / self.noise

    def loss(self, h: Tensor, y: Tensor) -> Tensor:
        """``[(y − m(h))² + v(h)] / 2σ²``, one value per row ``(n,)``; see :meth:`Posterior.loss`."""
        fused = type(self.likelihood) is Gaussian and not y.requires_grad
        if not fused or not (h.requires_grad and torch.is_grad_enabled()):
            return super().loss(h, y)
        self._check(h)
        targets = y.to(self.mean_grid).reshape(len(h), len(self.noise))
        return row_losses(self.tables, h.to(self.mean_grid.device), targets, self._weight)

    def prior_covariance(self, h: Tensor) -> Tensor:
        """``w K_UU wᵀ`` at a few points, ``(outputs, n, n)``, differentiable in ``h``."""
        self._check(h)
        K = prior_covariance(self.columns, interp(self.spec, h.to(self.mean_grid)))
        return K.expand(len(self.noise), *K.shape[-2:])

    def covariance(self, h: Tensor) -> Tensor:
        """Joint posterior covariance at a few points, ``(outputs, n, n)``."""
        prior = self.prior_covariance(h)
        rows = interp(self.spec, h.to(self.mean_grid))
        parts = [s.covariance(rows, K) for s, K in zip(self.spreads, prior, strict=True)]
        return torch.stack(parts)

    def _check(self, h: Tensor) -> None:
        if h.ndim != 2 or h.shape[1] != self.spec.dim:
            raise ValueError(f"h has shape {tuple(h.shape)}, expected (n, {self.spec.dim})")
        if (h.is_cuda and h.requires_grad) or h.numel() == 0:
            return
        reach = float(h.detach().abs().max())
        if not reach <= 1.0:
            raise ValueError(
                f"h reaches {reach:g}, expected points inside the box [-1, 1]^{self.spec.dim}, "
                "where the grid is: scale them, or squash them with tanh as seqgp's own head does"
            )
