"""The direct path: Cholesky in the rank of the kernel, and all slopes by hand.

With ``K_UU = PPᵀ``, ``A = PᵀSP``, ``c = Pᵀb`` and ``C = σ²I + A``, the NLML of one output is

    ½ [ (yᵀy - cᵀC⁻¹c)/σ² + (n - r) log σ² + log|C| + n log 2π ],

its slope in K_UU is ``½ (Q - ββᵀ)`` with ``Q = WᵀK⁻¹W = (S - SP C⁻¹ PᵀS)/σ²`` and
``β = Wᵀα = (b - SP C⁻¹ c)/σ²``: nothing is differentiated through an eigenvector.

The columns of P are products over dimensions, and sums over rows are sums over weighted nodes (see
``statistics``), so products with S are small dense contractions, one dimension at a time. The
one tensor all of it needs is ``X_j = (I_j ⊗ P_others)ᵀ S P``: S seen from one side by the whole
basis, from the other by the grid points of dimension j and the basis of the other dimensions.

References:
    Thoughts on Massively Scalable Gaussian Processes, Wilson, Dann and Nickisch 2015,
    arXiv:1511.01870.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from .eigenbasis import Eigenbasis
from .interpolation import from_nodes
from .pairs import Pairs
from .prior import stencil_slopes
from .solvers import cholesky
from .statistics import GridStatistics
from .toeplitz import apply_each, diagonal_sums

__all__ = ["Fit", "Reduced", "column_slopes", "solve", "trace_slopes"]

_CHUNK = 2**23  # numbers in the largest temporary: 64 MiB


class Reduced:
    """Statistics seen through an eigenbasis; nothing in it depends on the noise."""

    def __init__(self, basis: Eigenbasis, statistics: GridStatistics) -> None:
        self.basis = basis
        self.statistics = statistics
        self._partials: dict[tuple[int, int], Tensor] = {}

    @cached_property
    def gram(self) -> Tensor:
        """``A = PᵀSP``, ``(rank, rank)``."""
        rows = []
        for q, own in enumerate(self.basis.components):
            place = own.others(0)[1].to(own.vectors[0].device)
            full = torch.einsum("ia,itb->atb", own.vectors[0], self.partial(q, 0))
            rows.append(full[own.where[0], place])
        A = torch.cat(rows)
        return 0.5 * (A + A.T)

    @cached_property
    def projected(self) -> Tensor:
        """``c = Pᵀb``, ``(outputs, rank)``."""
        return self.basis.project(self.statistics.b)

    def partial(self, q: int, j: int) -> Tensor:
        """``X_j`` of component q, ``(size, tuples, rank)``."""
        if (q, j) not in self._partials:
            own = self.basis.components[q]
            blocks = []
            for other in self.basis.components:
                pairs = Pairs(own, other, j)
                sums = pairs.sums(self.statistics.nodes)
                column = other.at_nodes[j][:, other.where[j]]
                step = max(1, _CHUNK // column.numel())
                parts = []
                for slots in pairs.slots.split(step):
                    local = sums[:, slots.flatten()].unflatten(1, slots.shape) * column[:, None]
                    parts.append(from_nodes(local.flatten(1)).unflatten(1, slots.shape))
                blocks.append(torch.cat(parts, 1))
            self._partials[q, j] = torch.cat(blocks, -1)
        return self._partials[q, j]

    def facing(self, q: int, j: int, x: Tensor) -> Tensor:
        """``(I_j ⊗ P_others)ᵀ x`` of component q: ``(k, size, …, size)`` → ``(k, size, tuples)``."""
        own = self.basis.components[q]
        factors = [None if axis == j else v.T for axis, v in enumerate(own.vectors)]
        full = apply_each(factors, x).movedim(j + 1, 1)
        tuples = own.others(j)[0].to(x.device)
        where: tuple[Any, ...] = (slice(None), slice(None), *tuples.unbind(1))
        return full[where].reshape(*full.shape[:2], -1)


@dataclass(frozen=True)
class Fit:
    """One output's solution in rank space."""

    nlml: Tensor
    cholesky: Tensor
    """Lower factor of ``C = σ²I + A``, ``(rank, rank)``."""
    inverse: Tensor
    """``C⁻¹``."""
    jitter: float
    """Added to its diagonal against rounding; almost always 0."""
    mean: Tensor
    """``C⁻¹c``, ``(rank,)``: the posterior mean is ``wᵀP`` times it."""
    noise_slope: Tensor
    """∂NLML/∂σ²."""


def solve(reduced: Reduced, output: int, noise: Tensor) -> Fit:
    """NLML of one output under σ² ``noise`` (a scalar), its slope in σ², and the weights' mean."""
    statistics = reduced.statistics
    n, rank = statistics.n, reduced.basis.rank
    c = reduced.projected[output]
    C = reduced.gram.clone()
    C.diagonal().add_(noise)
    L, jitter = cholesky(C)
    mean = torch.cholesky_solve(c.unsqueeze(1), L).squeeze(1)
    misfit = (statistics.yy[output, output] - c @ mean) / noise
    logdet = 2.0 * L.diagonal().log().sum() + (n - rank) * noise.log()
    inverse = torch.cholesky_inverse(L)
    trace = (n - rank) / noise + inverse.diagonal().sum()  # of K⁻¹
    alpha2 = (misfit - mean @ mean) / noise  # ‖K⁻¹y‖²
    return Fit(
        nlml=0.5 * (misfit + logdet + n * math.log(2.0 * math.pi)),
        cholesky=L,
        inverse=inverse,
        jitter=jitter,
        mean=mean,
        noise_slope=0.5 * (trace - alpha2),
    )


def column_slopes(
    reduced: Reduced, columns: Tensor, output: int, noise: Tensor, fit: Fit
) -> Tensor:
    """∂NLML/∂(first columns of all factors) of one output, ``(components, d, size)``."""

    def residual(q: int, j: int) -> Tensor:  # σ²β seen by dimension j, times 1/σ: as Z is
        b = reduced.statistics.b[output : output + 1]
        beta = reduced.facing(q, j, b)[0] - reduced.partial(q, j) @ fit.mean
        return beta / noise.sqrt()

    return 0.5 * trace_slopes(reduced, columns, noise, fit.cholesky, residual)


def trace_slopes(
    reduced: Reduced,
    columns: Tensor,
    noise: Tensor,
    factor: Tensor,
    residual: Callable[[int, int], Tensor] | None = None,
) -> Tensor:
    """Slopes of ``log|K|``, ``tr(Q ∂K_UU)``, in all columns ``(components, d, size)``.

    ``factor`` is the lower Cholesky factor of C. With ``residual``, ``(q, j) → (size, tuples)``, those
    of the misfit are in it too: ``tr((Q - ββᵀ) ∂K_UU)``.
    In the low-rank term the factors that are not being differentiated are those of the basis.
    """
    slopes = stencil_slopes(columns, reduced.statistics.nodes)
    for q in range(slopes.shape[0]):
        for j in range(slopes.shape[1]):
            X = reduced.partial(q, j)
            Z = torch.linalg.solve_triangular(factor, X.flatten(0, 1).T, upper=False)
            Z = Z.unflatten(1, X.shape[:2]).movedim(1, 0).flatten(1)
            if residual is not None:
                Z = torch.cat([Z, residual(q, j)], 1)
            slopes[q, j] -= diagonal_sums(Z @ Z.T)
    return slopes / noise
