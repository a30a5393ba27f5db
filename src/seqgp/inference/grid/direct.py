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

from seqgp.inference.grid.interpolation import add_rows, from_nodes
from seqgp.inference.grid.kernel_matrix import Component, Eigenbasis, apply_each, without
from seqgp.inference.grid.posterior import Solved
from seqgp.inference.grid.prior import diagonal_sums, stencil_slopes
from seqgp.inference.grid.solvers import factorised
from seqgp.inference.grid.statistics import GridStatistics

__all__ = ["DirectSpread", "Reduced", "solve", "trace_slopes"]

_CHUNK = 2**23  # numbers in the largest temporary of the slopes: 64 MiB
_VARIANCE_CHUNK = 2**22  # and of the variance


class Pairs:
    """Products of a basis function of ``left`` and one of ``right`` in all dimensions but j.

    A basis function is a product over dimensions, so the product of two of them is one too. The
    distinct one-dimensional products are tabulated at the nodes (a dozen eigenvectors make 78 of
    them), and a sum over all nodes becomes one matrix product per dimension:
    ``Σ_x nodes[x] φ_a(x) φ_b(x)`` for all pairs a, b, without a matrix of the size of S.
    """

    def __init__(self, left: Component, right: Component, j: int) -> None:
        self.j = j
        self._tables: list[Tensor] = []  # (nodes, pairs) per dimension
        lookups: list[Tensor] = []  # (r_left, r_right) → pair
        for axis in range(left.index.shape[1]):
            if axis == j:
                continue
            a, b = left.at_nodes[axis], right.at_nodes[axis]
            lookup, both = _enumerate(a.shape[1], b.shape[1], symmetric=left is right)
            first, second = both.to(a.device)
            self._tables.append(a[:, first] * b[:, second])
            lookups.append(lookup)
        self.count = math.prod(table.shape[1] for table in self._tables)
        """How many pairs there are."""
        tuples, columns = left.others[j][0], without(right.index, j)
        place = tuples.new_zeros(len(tuples), len(columns))
        # The last dimension first: the order in which the contractions leave their axes.
        for axis in range(len(lookups) - 1, -1, -1):
            pair = lookups[axis][tuples[:, axis].unsqueeze(1), columns[:, axis]]
            place = place * self._tables[axis].shape[1] + pair
        self.slots = place.to(left.vectors[0].device)
        """Where in :meth:`sums` the pair (tuple of left, column of right) is: ``(tuples, rank)``."""

    def sums(self, nodes: Tensor) -> Tensor:
        """``Σ nodes[x] φ_a(x) φ_b(x)`` over all dimensions but j: ``(nodes, pairs)``."""
        total = nodes.movedim(self.j, 0)
        for axis in range(len(self._tables), 0, -1):
            total = torch.tensordot(total, self._tables[axis - 1], ([axis], [0]))
        return total.reshape(len(total), -1)

    def spread(self, values: Tensor) -> Tensor:
        """``Σ values[x_j, pair] φ_a φ_b`` at all nodes, adjoint to :meth:`sums`: ``(nodes, …)``."""
        total = values.reshape(-1, *(t.shape[1] for t in reversed(self._tables)))
        for done, table in enumerate(self._tables):
            total = torch.tensordot(total, table, ([total.ndim - 1 - done], [1]))
        return total.reshape((len(values),) * (1 + len(self._tables))).movedim(0, self.j)


def _enumerate(ra: int, rb: int, symmetric: bool) -> tuple[Tensor, Tensor]:
    """Number the products of ra functions and rb: lookup ``(ra, rb)``, and both members ``(2, pairs)``."""
    if not symmetric:
        lookup = torch.arange(ra * rb).reshape(ra, rb)
        return lookup, torch.stack([lookup.flatten() // rb, lookup.flatten() % rb])
    both = torch.triu_indices(ra, ra)
    lookup = torch.empty(ra, ra, dtype=torch.long)
    number = torch.arange(both.shape[1])
    lookup[both[0], both[1]] = number
    lookup[both[1], both[0]] = number
    return lookup, both


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
            place = own.others[0][1].to(own.vectors[0].device)
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
        tuples = own.others[j][0].to(x.device)
        where: tuple[Any, ...] = (slice(None), slice(None), *tuples.unbind(1))
        return full[where].reshape(*full.shape[:2], -1)


def solve(reduced: Reduced, columns: Tensor, output: int, noise: Tensor, dropped: float) -> Solved:
    """Condition one output.

    Args:
        reduced: the statistics in the basis of the kernel.
        columns: of the kernel's Toeplitz factors, ``(components, d, size)``.
        output: which one.
        noise: its σ², a scalar.
        dropped: prior variance that the basis leaves out.
    """
    statistics = reduced.statistics
    n, rank = statistics.n, reduced.basis.rank
    c = reduced.projected[output]
    C = reduced.gram.clone()
    C.diagonal().add_(noise)
    L, jitter = factorised(C)
    weights = torch.cholesky_solve(c.unsqueeze(1), L).squeeze(1)  # the mean is wᵀP times it
    misfit = (statistics.yy[output, output] - c @ weights) / noise
    logdet = 2.0 * L.diagonal().log().sum() + (n - rank) * noise.log()
    inverse = torch.cholesky_inverse(L)
    trace = (n - rank) / noise + inverse.diagonal().sum()  # of K⁻¹
    alpha2 = (misfit - weights @ weights) / noise  # ‖K⁻¹y‖²

    def residual(q: int, j: int) -> Tensor:  # σ²β seen by dimension j, times 1/σ: as Z is
        b = statistics.b[output : output + 1]
        beta = reduced.facing(q, j, b)[0] - reduced.partial(q, j) @ weights
        return beta / noise.sqrt()

    return Solved(
        nlml=0.5 * (misfit + logdet + n * math.log(2.0 * math.pi)),
        mean=reduced.basis.expand(weights.unsqueeze(0))[0],
        spread=DirectSpread(reduced.basis, L, inverse, noise),
        noise_slope=0.5 * (trace - alpha2),
        column_slopes=lambda: 0.5 * trace_slopes(reduced, columns, noise, L, residual),
        rank=rank,
        dropped=dropped / float(noise),
        jitter=jitter,
    )


def trace_slopes(
    reduced: Reduced,
    columns: Tensor,
    noise: Tensor,
    factor: Tensor,
    residual: Callable[[int, int], Tensor] | None = None,
) -> Tensor:
    """Slopes of ``log|K|``, ``tr(Q ∂K_UU)``, in all columns ``(components, d, size)``.

    In the low-rank term the factors that are not being differentiated are those of the basis.

    Args:
        reduced: the statistics in the basis of the kernel.
        columns: of the kernel's Toeplitz factors, ``(components, d, size)``.
        noise: σ², a scalar.
        factor: the lower Cholesky factor of C.
        residual: ``(q, j) → (size, tuples)``; with it the slopes of the misfit are in the result
            too, ``tr((Q - ββᵀ) ∂K_UU)``.
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


@dataclass(frozen=True)
class DirectSpread:
    """``σ² φᵀC⁻¹φ'`` in rank space: a product of a factor with itself, never a difference."""

    basis: Eigenbasis
    cholesky: Tensor
    """Lower factor of C, ``(rank, rank)``."""
    inverse: Tensor
    """``C⁻¹``."""
    noise: Tensor

    def at_nodes(self) -> Tensor:
        """Variance at all nodes, ``(nodes,) * d``."""
        components = self.basis.components
        weights = self.noise * self.inverse
        blocks = [self.basis.split(rows, 1) for rows in self.basis.split(weights, 0)]
        total: Tensor | None = None
        for q, own in enumerate(components):
            for p in range(q, len(components)):
                block = blocks[q][p] if p == q else 2.0 * blocks[q][p]
                part = _quadratic(own, components[p], block)
                total = part if total is None else total + part
        assert total is not None  # a kernel has at least one component
        return total

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


def _quadratic(own: Component, other: Component, block: Tensor) -> Tensor:
    """``Σ_ab φ_a block_ab φ_b`` at all nodes: dimension 0 by hand, the others as pairs."""
    pairs = Pairs(own, other, 0)
    place = own.others[0][1].to(block.device)
    tuples, each = other.others[0]
    end = each.to(block.device)
    member = block.new_zeros(len(end), len(tuples))  # column → its tuple
    member.scatter_(1, end.unsqueeze(1), 1.0)
    column = other.at_nodes[0][:, other.where[0]]
    slots = torch.empty(len(pairs.slots), len(tuples), dtype=torch.long, device=block.device)
    slots[:, end] = pairs.slots  # columns of one tuple share a slot
    padded = block.new_zeros(len(slots), own.vectors[0].shape[1], block.shape[1])
    padded[place, own.where[0]] = block
    sums = block.new_zeros(pairs.count, len(column))
    step = max(1, _VARIANCE_CHUNK // column.numel())
    for rows, slot in zip(padded.split(step), slots.split(step), strict=True):
        local = ((own.at_nodes[0] @ rows) * column) @ member  # (tuples, nodes, tuples of other)
        add_rows(sums, slot.flatten(), local.mT.flatten(0, 1))
    return pairs.spread(sums.T)
