"""The grid's posterior: the NLML with its slopes, tables for means and variances, covariances."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from seqgp.inference.grid.interpolation import GridSpec, interp
from seqgp.inference.grid.prior import least_prior_variance, prior_covariance
from seqgp.inference.grid.solvers import Solution
from seqgp.inference.grid.tables import Tables, cell_rows, row_losses
from seqgp.inference.posterior import Diagnostics, Posterior
from seqgp.likelihoods import Gaussian

__all__ = ["GridDiagnostics", "GridPosterior", "Solved", "Spread", "attach"]


class Spread(Protocol):
    """The covariance of one output's posterior."""

    def at_nodes(self) -> Tensor:
        """Variance at all nodes, ``(nodes,) * d``."""
        ...

    def covariance(self, rows: list[Tensor], prior: Tensor) -> Tensor:
        """Joint covariance ``(n, n)`` at a few rows (see ``interp``) with prior ``(n, n)``."""
        ...


@dataclass(frozen=True)
class Solved:
    """One output, conditioned on its targets."""

    nlml: Tensor
    mean: Tensor
    """At the grid points, ``(size, …)``."""
    spread: Spread
    noise_slope: Tensor
    """∂NLML/∂σ²."""
    column_slopes: Callable[[], Tensor]
    """∂NLML/∂(first columns), ``(components, d, size)``, worked out when called."""
    rank: int
    dropped: float = 0.0
    jitter: float = 0.0
    solutions: tuple[Solution, ...] = ()
    logdet_error: float = 0.0


class _Value(torch.autograd.Function):
    """The total NLML; its slopes were derived by hand, and are made only when asked for."""

    @staticmethod
    def forward(ctx: Any, columns: Tensor, noise: Tensor, results: list[Solved]) -> Tensor:
        ctx.results, ctx.shared = results, len(columns) == 1
        return torch.stack([r.nlml for r in results]).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        columns = noise = None
        if ctx.needs_input_grad[0]:
            columns = torch.stack([r.column_slopes() for r in ctx.results])
            columns = grad * (columns.sum(0, keepdim=True) if ctx.shared else columns)
        if ctx.needs_input_grad[1]:
            noise = grad * torch.stack([r.noise_slope for r in ctx.results])
        return columns, noise, None


attach: Callable[[Tensor, Tensor, list[Solved]], Tensor] = _Value.apply
"""``(columns (1 or outputs, components, d, size), noise (outputs,), results)`` → the NLML."""


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


@dataclass(frozen=True, kw_only=True)
class GridPosterior(Posterior):
    """Posterior of a GP whose kernel is interpolated from a grid: ``k(h, h') = wᵀ K_UU w'``.

    Means and variances come from a table of local polynomials, made at its first use and the same
    for any number of points asked. Points must lie in the box ``[-1, 1]^d``; they are checked except in
    training on a GPU (``h`` with a gradient), where reading the answer back would stall it.
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
        # The fused loss is the Gaussian one.
        fused = type(self.likelihood) is Gaussian and h.requires_grad
        if not (fused and torch.is_grad_enabled()):
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
        if not (h.is_cuda and h.requires_grad):
            self.spec.require_inside(h, "h")
