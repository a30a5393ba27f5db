"""Sufficient statistics of any number of rows: one pass, additive, their size free of n."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import torch
from torch import Tensor

from seqgp.inference.grid.interpolation import (
    NODES,
    STENCIL,
    GridSpec,
    add_rows,
    basis,
    chunk_rows,
    node_weights,
    powers,
    tensor_rows,
)

__all__ = ["GridStatistics", "Stencil", "accumulate", "band", "band_at_nodes", "band_from_nodes"]


@dataclass(frozen=True)
class GridStatistics:
    """All that grid inference needs of the rows; adds and subtracts.

    With ``W`` the interpolation matrix, conditioning needs ``S = WᵀW`` and ``b = Wᵀy``. ``S`` is
    kept as what it comes from: any quadratic form of ``W`` is a polynomial of degree 6 inside a
    cell, so the rows can be replaced by weighted nodes, seven per cell and dimension, and
    ``Σ_i q(h_i) = Σ_x nodes[x] q(x)`` holds exactly for each such form q. A weight may be negative.

    ``stats(A) + stats(B)`` are the statistics of all rows; ``stats(A) - stats(B)`` removes rows.
    """

    spec: GridSpec
    nodes: Tensor
    """Weights of the nodes, ``(spec.nodes,) * d``."""
    b: Tensor
    """``Wᵀy`` on the grid, ``(outputs, size, …, size)``."""
    yy: Tensor
    """``yᵀy`` between outputs, ``(outputs, outputs)``."""
    n: int
    rows: tuple[tuple[Tensor, Tensor, float], ...] = ()
    """``(H, y, sign)`` where the rows carry a graph, so that the NLML can reach them."""

    @cached_property
    def operator(self) -> Stencil:
        """Products with ``S``, for the iterative path; made at first use."""
        return Stencil(band_from_nodes(self.nodes))

    @property
    def outputs(self) -> int:
        """How many targets a row has."""
        return len(self.yy)

    def transform(self, matrix: Tensor) -> GridStatistics:
        """Statistics of the same points with targets ``y matrixᵀ``; matrix ``(outputs, outputs)``."""
        return replace(
            self,
            b=torch.tensordot(matrix, self.b, 1),
            yy=matrix @ self.yy @ matrix.T,
            rows=tuple((H, y.to(matrix) @ matrix.T, sign) for H, y, sign in self.rows),
        )

    def residual_products(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """Products between outputs of residuals ``y - Wu`` with each other, and with ``Wu``.

        ``u`` ``(outputs, size, …)`` are values on the grid; both results ``(outputs, outputs)``.
        """
        flat = u.flatten(1)
        by = self.b.flatten(1) @ flat.T
        fits = (self.operator @ u).flatten(1) @ flat.T
        return self.yy - by - by.T + fits, by - fits

    def __add__(self, other: GridStatistics) -> GridStatistics:
        return self._combine(other, 1.0)

    def __sub__(self, other: GridStatistics) -> GridStatistics:
        return self._combine(other, -1.0)

    def _combine(self, other: GridStatistics, sign: float) -> GridStatistics:
        if not isinstance(other, GridStatistics):
            return NotImplemented
        if self.spec != other.spec or self.outputs != other.outputs:
            raise ValueError(
                f"statistics of {self.outputs} output(s) on {self.spec} cannot be combined with "
                f"{other.outputs} output(s) on {other.spec}: make both with the same grid"
            )
        n = self.n + int(sign) * other.n
        if n < 0:
            raise ValueError(
                f"cannot remove {other.n} rows from {self.n}: only rows added before can be removed"
            )
        return replace(
            self,
            nodes=self.nodes + sign * other.nodes,
            b=self.b + sign * other.b,
            yy=self.yy + sign * other.yy,
            n=n,
            rows=self.rows + tuple((H, y, sign * own) for H, y, own in other.rows),
        )


def accumulate(spec: GridSpec, H: Tensor, y: Tensor) -> GridStatistics:
    """Statistics of rows, in chunks of bounded memory.

    Args:
        spec: the grid.
        H: latent points in the box, ``(n, d)``.
        y: targets, ``(n, outputs)``.
    """
    points, targets = H.detach(), y.detach().to(torch.float64)
    outputs = y.shape[1]
    quadratic, linear = NODES**spec.dim, STENCIL**spec.dim
    width = quadratic + outputs * linear
    table = torch.zeros(spec.cells**spec.dim, width, dtype=torch.float64, device=H.device)
    local = basis(H.device)
    step = chunk_rows(width, H.device)
    for start in range(0, len(points), step):
        part = slice(start, start + step)
        cell, s = spec.locate(points[part].to(torch.float64))
        values = powers(s) @ local
        rows = s.new_empty(len(s), width)
        rows[:, :quadratic] = tensor_rows(values[..., STENCIL:])
        weighted = tensor_rows(values[..., :STENCIL]).unsqueeze(1) * targets[part].unsqueeze(-1)
        rows[:, quadratic:] = weighted.flatten(1)
        add_rows(table, spec.flat(cell), rows)
    cells = (spec.cells,) * spec.dim
    nodes = _fold(table[:, :quadratic].reshape(*cells, *(NODES,) * spec.dim), NODES - 1)
    slots = table[:, quadratic:].reshape(*cells, outputs, *(STENCIL,) * spec.dim)
    b = torch.stack([_fold(slots.select(spec.dim, o), 1) for o in range(outputs)])
    graph = H.requires_grad or y.requires_grad
    return GridStatistics(
        spec=spec,
        nodes=nodes,
        b=b,
        yy=targets.T @ targets,
        n=len(H),
        rows=((H, y, 1.0),) if graph else (),
    )


def _fold(local: Tensor, step: int) -> Tensor:
    """Sum slots ``(cells, …, k, …)`` of overlapping cells, ``step`` apart, on a shared axis each."""
    dim = local.ndim // 2
    for j in range(dim):
        # After j folds the layout is (j folded axes, cells of the rest, slots of the rest).
        local = local.movedim((j, dim), (0, 1))
        cells, slots = local.shape[:2]
        shape = local.shape[2:]
        out = local.new_zeros(step * (cells - 1) + slots, *shape)
        whole = slots - slots % step
        for k in range(0, whole, step):  # slots that fill the room between two cells
            out[k : k + step * cells] += local[:, k : k + step].flatten(0, 1)
        for k in range(whole, slots):
            out[k::step][:cells] += local[:, k]
        local = out.movedim(0, j)
    return local.contiguous()


# Two grid points share a row of data only if they are at most three steps apart in each dimension,
# so S, and any symmetric matrix like it, has 7^d entries per point: a band. It is stored by offset,
# half of it by symmetry: ``(size, 4, size, 7, …)``, offsets 0…3 in the first dimension and -3…3 in
# the others.

_SPAN = STENCIL - 1


class Stencil:
    """Products with a symmetric band by a sparse matrix with rows of equal length."""

    def __init__(self, stored: Tensor) -> None:
        dim, size = stored.ndim // 2, stored.shape[0]
        points, width = size**dim, (2 * _SPAN + 1) ** dim
        axes = range(stored.ndim)
        blocks = stored.permute(*axes[1::2], *axes[0::2])  # offsets first
        flat = torch.arange(points, dtype=torch.int32, device=stored.device)
        flat = flat.reshape((size,) * dim)
        # What would lie outside the grid points at the row itself, with a value of zero.
        columns = flat.unsqueeze(-1).repeat(*(1,) * dim, width)
        values = stored.new_zeros(*flat.shape, width)
        for slots, here, there, shift in _shifts(dim, size):
            slot = 0  # number of the offset among all 7^d; that of the opposite is 7^d - 1 less it
            for o in shift:
                slot = slot * (2 * _SPAN + 1) + o + _SPAN
            values[..., slot][here] = blocks[slots][here]
            columns[..., slot][here] = flat[there]
            if shift[0] > 0:  # the opposite offset is left to symmetry
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
    """The band of ``FᵀF`` for ``F`` ``(k, size, …, size)``."""
    dim, size = factor.ndim - 1, factor.shape[1]
    counts = [len(_offsets(j == 0)) for j in range(dim)]
    blocks = factor.new_zeros(*counts, *factor.shape[1:])
    for slots, here, there, _ in _shifts(dim, size):
        blocks[slots][here] = (factor[:, *here] * factor[:, *there]).sum(0)
    order = [axis for j in range(dim) for axis in (dim + j, j)]
    return blocks.permute(*order).contiguous()


Shift = tuple[tuple[int, ...], tuple[slice, ...], tuple[slice, ...], tuple[int, ...]]


def _shifts(dim: int, size: int) -> list[Shift]:
    """Per stored offset: its slots, the points it leaves from and those it reaches, and itself."""
    out = []
    for choice in product(*(list(enumerate(_offsets(j == 0))) for j in range(dim))):
        slots, shift = tuple(k for k, _ in choice), tuple(o for _, o in choice)
        here = tuple(slice(max(0, -o), max(0, size - max(0, o))) for o in shift)
        there = tuple(slice(max(0, o), max(0, size - max(0, -o))) for o in shift)
        out.append((slots, here, there, shift))
    return out


def _offsets(first: bool) -> list[int]:
    """Offsets of a dimension: half of them in the first, by symmetry."""
    return list(range(0 if first else -_SPAN, _SPAN + 1))


def _pairs(first: bool) -> list[tuple[int, int, int]]:
    """``(p, q, slot)``: stencil positions p, q and where their offset q - p is stored."""
    slots = {o: k for k, o in enumerate(_offsets(first))}
    return [(p, q, slots[q - p]) for p in range(STENCIL) for q in range(STENCIL) if q - p in slots]


def _pair_weights(pairs: list[tuple[int, int, int]], device: torch.device) -> Tensor:
    """Products of two interpolation weights at a cell's six nodes, ``(pairs, 6)``."""
    w = node_weights(device)
    return torch.stack([w[:, p] * w[:, q] for p, q, _ in pairs])


def band_from_nodes(nodes: Tensor) -> Tensor:
    """The band of ``S = WᵀW`` from node weights ``(nodes,) * d``."""

    def one(x: Tensor, first: bool) -> Tensor:
        cells, pairs = (len(x) - 1) // (NODES - 1), _pairs(first)
        terms = _pair_weights(pairs, x.device) @ x[:-1].reshape(cells, NODES - 1, -1)
        out = x.new_zeros(cells + 3, len(_offsets(first)), x.shape[1])
        for k, (p, _, slot) in enumerate(pairs):
            out[p : p + cells, slot] += terms[:, k]
        out[-2, _offsets(first).index(0)] += x[-1]  # the last node is the box's last grid point
        return out

    return _per_dimension(nodes, nodes.ndim, 1, one)


def band_at_nodes(band: Tensor) -> Tensor:
    """``wᵀBw`` at all nodes, ``(nodes,) * d``, from the band of a symmetric B."""

    def one(x: Tensor, first: bool) -> Tensor:
        cells, pairs = len(x) - 3, _pairs(first)
        # The mirrored half of the first dimension's offsets is not stored: it counts double.
        terms = torch.stack(
            [x[p : p + cells, slot] * (2.0 if first and q > p else 1.0) for p, q, slot in pairs],
            1,
        )
        inner = _pair_weights(pairs, x.device).T @ terms
        return torch.cat([inner.flatten(0, 1), x[-2:-1, _offsets(first).index(0)]])

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
