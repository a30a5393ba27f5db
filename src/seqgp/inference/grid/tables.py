"""Posterior mean and variance as local polynomials: one contiguous row of numbers per cell.

Inside a cell the posterior mean is a tensor cubic, given by its 4^d surrounding grid values, and the
posterior variance a tensor polynomial of degree 6, given by its values at the cell's 7^d nodes. A
prediction fetches one row, which has both: its cost does not know n, nor the size of the grid.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .eigenbasis import Component, Eigenbasis
from .interpolation import NODES, STENCIL, GridSpec, add_rows, basis, chunk_rows, powers
from .pairs import Pairs

__all__ = ["Tables", "cell_rows", "first_order", "variance_at_nodes"]

_CHUNK = 2**22  # numbers in the largest temporary: 32 MiB


def cell_rows(mean: Tensor, variance: Tensor) -> Tensor:
    """Grid values ``(outputs, size, …)`` and node values ``(outputs, nodes, …)``, cell by cell.

    A row ``(outputs, 4^d + 7^d)`` has both: one place in memory to fetch per prediction.
    """
    return torch.cat([_windows(mean, STENCIL, 1), _windows(variance, NODES, NODES - 1)], -1)


def _windows(x: Tensor, window: int, step: int) -> Tensor:
    """What each cell sees of ``(outputs, …)``: ``(cells^d, outputs, window^d)``."""
    d = x.ndim - 1
    for j in range(d):
        x = x.unfold(j + 1, window, step)
    return x.movedim(0, d).reshape(-1, x.shape[0], window**d)


def variance_at_nodes(basis: Eigenbasis, covariance: Tensor) -> Tensor:
    """``φᵀΣφ`` at all nodes, ``(nodes,) * d``, for the weights' covariance Σ ``(rank, rank)``."""
    total: Tensor | None = None
    for q, own in enumerate(basis.components):
        for p in range(q, len(basis.components)):
            other = basis.components[p]
            block = covariance[basis.slices[q], basis.slices[p]]
            part = _quadratic(own, other, block if p == q else 2.0 * block)
            total = part if total is None else total + part
    assert total is not None  # a kernel has at least one component
    return total


def _quadratic(own: Component, other: Component, block: Tensor) -> Tensor:
    """``Σ_ab φ_a block_ab φ_b`` at all nodes: dimension 0 by hand, the others as pairs."""
    pairs = Pairs(own, other, 0)
    place = own.others(0)[1].to(block.device)
    tuples, each = other.others(0)
    end = each.to(block.device)
    member = block.new_zeros(len(end), len(tuples))  # column → its tuple
    member.scatter_(1, end.unsqueeze(1), 1.0)
    column = other.at_nodes[0][:, other.where[0]]
    slots = torch.empty(len(pairs.slots), len(tuples), dtype=torch.long, device=block.device)
    slots[:, end] = pairs.slots  # columns of one tuple share a slot
    padded = block.new_zeros(len(slots), own.vectors[0].shape[1], block.shape[1])
    padded[place, own.where[0]] = block
    sums = block.new_zeros(pairs.count, len(column))
    step = max(1, _CHUNK // column.numel())
    for rows, slot in zip(padded.split(step), slots.split(step), strict=True):
        local = ((own.at_nodes[0] @ rows) * column) @ member  # (tuples, nodes, tuples of other)
        add_rows(sums, slot.flatten(), local.mT.flatten(0, 1))
    return pairs.spread(sums.T)


@dataclass(frozen=True)
class Tables:
    """Rows of all cells, and a lower bound of the variance."""

    spec: GridSpec
    rows: Tensor
    """``(cells^d, outputs, 4^d + 7^d)``."""
    floor: Tensor
    """``(outputs,)``, above zero."""

    def __call__(self, h: Tensor, variance: bool) -> tuple[Tensor, Tensor | None]:
        """Mean and variance ``(n, outputs)`` at ``h`` ``(n, d)``, differentiable once in ``h``."""
        rows = chunk_rows(self.rows[0].numel(), h.device)
        if len(h) <= rows:
            return _evaluate(h, self, variance)
        parts = [_evaluate(part, self, variance) for part in h.split(rows)]
        mean = torch.cat([m for m, _ in parts])
        return mean, torch.cat([v for _, v in parts if v is not None]) if variance else None

    def local(self, h: Tensor, variance: bool, slopes: bool) -> tuple[Tensor, Tensor | None]:
        """Mean and variance at ``h``, ``(n, outputs, 1)``.

        With slopes ``(n, outputs, 2^d)``: first the value, and at 2^j the slope in dimension j; the
        others are slopes in several dimensions, which come along.
        """
        cell, s = self.spec.locate(h)
        split = STENCIL**self.spec.dim
        wanted = self.rows if variance else self.rows[..., :split]
        rows = wanted.index_select(0, self.spec.flat(cell))
        kinds = 2 if slopes else 1  # of each local polynomial: its value, and its slope
        local = powers(s) @ basis(h.device, self.spec.cells if slopes else 0)
        cubic, sextic = local.split([STENCIL * kinds, NODES * kinds], -1)
        mean = _contract(rows[..., :split], cubic.unflatten(-1, (-1, kinds)))
        if not variance:
            return mean, None
        return mean, _contract(rows[..., split:], sextic.unflatten(-1, (-1, kinds)))


class _Evaluate(torch.autograd.Function):
    """Values and slopes in one pass, from the same rows: a third of the time of plain autograd."""

    @staticmethod
    def forward(
        ctx: Any, h: Tensor, tables: Tables, variance: bool
    ) -> tuple[Tensor, Tensor | None]:
        slopes = bool(ctx.needs_input_grad[0])
        mean, spread = tables.local(h, variance, slopes)
        if slopes:
            ctx.save_for_backward(mean, spread)
            ctx.dim = tables.spec.dim
        if spread is None:
            return mean[..., 0], None
        # Rounding may take a tiny variance below its own lower bound.
        return mean[..., 0], torch.maximum(spread[..., 0], tables.floor)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g_mean: Tensor, g_variance: Tensor | None) -> tuple[Any, ...]:
        mean, spread = ctx.saved_tensors  # (n, outputs, 2^d): products of values and slopes
        grad = _product(g_mean.unsqueeze(1), mean)
        if spread is not None and g_variance is not None:
            grad = grad + _product(g_variance.unsqueeze(1), spread)
        return grad.squeeze(1).index_select(1, first_order(ctx.dim, grad.device)[1:]), None, None


_evaluate: Callable[[Tensor, Tables, bool], tuple[Tensor, Tensor | None]] = _Evaluate.apply


@lru_cache(maxsize=16)
def first_order(dim: int, device: torch.device) -> Tensor:
    """Where :meth:`Tables.local` has the value and the slope in each dimension, ``(1 + d,)``."""
    with torch.inference_mode(False):  # kept, and used where gradients are on
        return torch.tensor([0] + [2**j for j in range(dim)], device=device)


def _contract(rows: Tensor, factors: Tensor) -> Tensor:
    """Rows ``(n, outputs, k^d)`` with factors ``(n, d, k, f)`` in each dimension: ``(n, outputs, f^d)``."""
    n, outputs, _ = rows.shape
    d, k, f = factors.shape[1:]
    x = _product(rows.reshape(n, outputs * k ** (d - 1), k), factors[:, d - 1])
    for j in range(d - 2, -1, -1):
        left, done = outputs * k**j, f ** (d - 1 - j)
        x = x.reshape(n, left, k, done).transpose(2, 3).reshape(n, left * done, k)
        x = _product(x, factors[:, j])
    return x.reshape(n, outputs, f**d)


def _product(x: Tensor, factor: Tensor) -> Tensor:
    """``(n, left, k) @ (n, k, f)`` for small k and f, which a GPU's matrix units are too large for."""
    if x.is_cuda:
        return (x.unsqueeze(-1) * factor.unsqueeze(1)).sum(-2)
    return torch.bmm(x, factor)
