"""Bands of symmetric matrices on the grid: S = WᵀW and what is like it.

Two grid points share a row of data only if they are at most three steps apart in each dimension,
so S has 7^d entries per point. They are stored by offset, half of them by symmetry:
``(size, 4, size, 7, …)``, offsets 0…3 in the first dimension and -3…3 in the others.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import product

import torch
from torch import Tensor

from .interpolation import NODES, STENCIL, node_weights

__all__ = ["Stencil", "band", "stencil_at_nodes", "stencil_from_nodes"]

_SPAN = STENCIL - 1


class Stencil:
    """Products with a symmetric band, stored as above, by a sparse matrix with rows of equal length."""

    def __init__(self, stored: Tensor) -> None:
        dim, size = stored.ndim // 2, stored.shape[0]
        points, width = size**dim, (2 * _SPAN + 1) ** dim
        blocks = _offsets_first(stored)
        flat = torch.arange(points, dtype=torch.int32, device=stored.device)
        flat = flat.reshape((size,) * dim)
        # What would lie outside the grid points at the row itself, with a value of zero.
        columns = flat.unsqueeze(-1).repeat(*(1,) * dim, width)
        values = stored.new_zeros(*flat.shape, width)
        for slots, here, there, shift, mirrored in _shifts(dim, size):
            slot = _full_slot(shift)
            values[..., slot][here] = blocks[slots][here]
            columns[..., slot][here] = flat[there]
            if mirrored:
                values[..., width - 1 - slot][there] = blocks[slots][here]
                columns[..., width - 1 - slot][there] = flat[here]
        rows = torch.arange(0, points * width + 1, width, dtype=torch.int32, device=stored.device)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # torch calls its CSR layout "beta"
            self._matrix = torch.sparse_csr_tensor(
                rows, columns.flatten(), values.flatten(), (points, points)
            )

    def __matmul__(self, x: Tensor) -> Tensor:
        """``S x`` for ``x`` ``(k, size, …, size)``."""
        if not len(x):
            return x
        return (self._matrix @ x.flatten(1).T).T.reshape(x.shape)


def band(factor: Tensor) -> Tensor:
    """The band of ``FᵀF`` for ``F`` ``(k, size, …, size)``, stored as above."""
    dim, size = factor.ndim - 1, factor.shape[1]
    counts = [len(offsets(j == 0)) for j in range(dim)]
    blocks = factor.new_zeros(*counts, *factor.shape[1:])
    for slots, here, there, _, _ in _shifts(dim, size):
        left, right = factor[:, *here], factor[:, *there]
        blocks[slots][here] = (left * right).sum(0)
    order = [axis for j in range(dim) for axis in (dim + j, j)]
    return blocks.permute(*order).contiguous()


def _offsets_first(stored: Tensor) -> Tensor:
    axes = range(stored.ndim)
    return stored.permute(*axes[1::2], *axes[0::2])


Shift = tuple[tuple[int, ...], tuple[slice, ...], tuple[slice, ...], tuple[int, ...], bool]


def _shifts(dim: int, size: int) -> list[Shift]:
    """Per stored offset: its slots, the points it leaves from and those it reaches, the offset
    itself, and whether the opposite one is left to symmetry."""
    out = []
    for choice in product(*(list(enumerate(offsets(j == 0))) for j in range(dim))):
        slots, shift = tuple(k for k, _ in choice), tuple(o for _, o in choice)
        here = tuple(slice(max(0, -o), max(0, size - max(0, o))) for o in shift)
        there = tuple(slice(max(0, o), max(0, size - max(0, -o))) for o in shift)
        out.append((slots, here, there, shift, shift[0] > 0))
    return out


def _full_slot(shift: tuple[int, ...]) -> int:
    """Number of an offset among all 7^d; that of the opposite offset is 7^d - 1 less it."""
    slot = 0
    for o in shift:
        slot = slot * (2 * _SPAN + 1) + o + _SPAN
    return slot


def offsets(first: bool) -> list[int]:
    """Stencil offsets of a dimension: half of them in the first, by symmetry."""
    return list(range(0 if first else -_SPAN, _SPAN + 1))


def _pairs(first: bool) -> list[tuple[int, int, int]]:
    """``(p, q, slot)``: stencil positions p, q and where their offset q - p is stored."""
    slots = {o: k for k, o in enumerate(offsets(first))}
    return [(p, q, slots[q - p]) for p in range(STENCIL) for q in range(STENCIL) if q - p in slots]


def _pair_weights(pairs: list[tuple[int, int, int]], device: torch.device) -> Tensor:
    """Products of two interpolation weights at a cell's six nodes, ``(pairs, 6)``."""
    w = node_weights(device)
    return torch.stack([w[:, p] * w[:, q] for p, q, _ in pairs])


def stencil_from_nodes(nodes: Tensor) -> Tensor:
    """``S = WᵀW`` from node weights ``(nodes,)*d``: ``(size, 4, size, 7, …)`` by offset."""

    def one(x: Tensor, first: bool) -> Tensor:
        cells, pairs = (len(x) - 1) // (NODES - 1), _pairs(first)
        terms = _pair_weights(pairs, x.device) @ x[:-1].reshape(cells, NODES - 1, -1)
        out = x.new_zeros(cells + 3, len(offsets(first)), x.shape[1])
        for k, (p, _, slot) in enumerate(pairs):
            out[p : p + cells, slot] += terms[:, k]
        out[-2, offsets(first).index(0)] += x[-1]  # the last node is the last grid point in the box
        return out

    return _per_dimension(nodes, nodes.ndim, 1, one)


def stencil_at_nodes(band: Tensor) -> Tensor:
    """``wᵀBw`` at all nodes from the band of a symmetric B, laid out as ``S``: ``(nodes,)*d``."""

    def one(x: Tensor, first: bool) -> Tensor:
        cells, pairs = len(x) - 3, _pairs(first)
        # The mirrored half of the first dimension's offsets is not stored: it counts double.
        terms = torch.stack(
            [x[p : p + cells, slot] * (2.0 if first and q > p else 1.0) for p, q, slot in pairs],
            1,
        )
        inner = _pair_weights(pairs, x.device).T @ terms
        return torch.cat([inner.flatten(0, 1), x[-2:-1, offsets(first).index(0)]])

    return _per_dimension(band, band.ndim // 2, 2, one)


def _per_dimension(x: Tensor, dim: int, axes: int, one: Callable[[Tensor, bool], Tensor]) -> Tensor:
    """Apply ``one`` to each of ``dim`` leading groups of ``axes`` axes, in turn."""
    for j in range(dim):
        own, rest = x.shape[:axes], x.shape[axes:]
        y = one(x.reshape(*own, -1), j == 0)
        # The done dimension goes to the back: after all of them the order is the first again.
        y = y.reshape(*y.shape[:-1], *rest)
        done = y.ndim - len(rest)
        x = y.permute(*range(done, y.ndim), *range(done))
    return x.contiguous()
