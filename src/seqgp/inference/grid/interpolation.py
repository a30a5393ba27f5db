"""Cubic convolution on a regular grid: cells, local polynomials, and the nodes that stand for them.

The grid has ``size`` points per dimension, one of them beyond the box ``[-1, 1]`` on each side,
so each of the ``size - 3`` cells has a full four-point stencil. Inside a cell the four weights are
cubic polynomials of the local coordinate ``s ∈ [-1, 1]``. Two facts follow, and all of grid
inference rests on them: an interpolated function is a cubic there, and a product of two of them a
polynomial of degree 6, known from its values at 7 nodes. The two outer nodes lie on the cell's
border and are shared with its neighbours, which leaves ``6 · cells + 1`` nodes a dimension.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.polynomial import polynomial as poly
from torch import Tensor

__all__ = [
    "NODES",
    "STENCIL",
    "GridSpec",
    "add_rows",
    "at_nodes",
    "basis",
    "chunk_rows",
    "from_nodes",
    "interp",
    "node_weights",
    "powers",
    "tensor_basis",
    "tensor_rows",
    "weights",
]

STENCIL = 4
"""Grid points that a point interpolates from, per dimension."""
NODES = 7
"""Nodes per cell and dimension: enough for degree 6, the product of two cubics."""
_STEP = NODES - 1  # nodes from one cell to the next: the last is the next cell's first


@dataclass(frozen=True)
class GridSpec:
    """A regular grid over ``[-1, 1]^dim`` with ``size`` points per dimension, two of them outside."""

    dim: int
    size: int

    def __post_init__(self) -> None:
        if self.dim < 1 or self.size < STENCIL:
            raise ValueError(
                f"a grid of {self.size} points in {self.dim} dimensions does not exist: cubic "
                f"interpolation needs dim ≥ 1 and at least {STENCIL} points per dimension"
            )

    @property
    def cells(self) -> int:
        """Cells per dimension."""
        return self.size - 3

    @property
    def spacing(self) -> float:
        """δ, the distance of neighbouring grid points."""
        return 2.0 / self.cells

    @property
    def nodes(self) -> int:
        """Nodes per dimension, shared borders counted once."""
        return _STEP * self.cells + 1

    def require_inside(self, h: Tensor, name: str) -> None:
        """Refuse points ``h``, called ``name`` in the message, that are outside the box."""
        reach = float(h.detach().abs().max()) if h.numel() else 0.0
        if not reach <= 1.0:
            raise ValueError(
                f"{name} reaches {reach:g}, expected points inside the box [-1, 1]^{self.dim}, where "
                "the grid is: scale them, or squash them with tanh as seqgp's own head does"
            )

    def locate(self, h: Tensor) -> tuple[Tensor, Tensor]:
        """Cell index ``(n, dim)`` (int64) and local coordinate s ``(n, dim)`` of points ``h``.

        The box is closed: ``h = 1`` is the right end of the last cell. ``s`` is differentiable.
        """
        # cells · (h + 1) - 1, in one step and in float64 whatever h is; borders are odd numbers.
        last = _sequence(self.cells - 1, self.cells, 1, h.device)
        x = torch.add(last, h, alpha=self.cells)
        if x.is_cuda:  # a search is one kernel, which counts there; it ends in the box, too
            borders = _sequence(1, 2 * self.cells - 1, 2, x.device)
            cell = torch.bucketize(x, borders, right=True)
        else:
            cell = ((x.detach() + 1.0) * 0.5).long().clamp_(0, self.cells - 1)
        return cell, torch.sub(x, cell, alpha=2)

    def flat(self, cell: Tensor) -> Tensor:
        """Row-major number of cells ``(n, dim)`` → ``(n,)``."""
        flat = cell[:, 0]
        for j in range(1, self.dim):
            flat = torch.add(cell[:, j], flat, alpha=self.cells)
        return flat


@lru_cache(maxsize=64)
def _sequence(start: int, stop: int, step: int, device: torch.device) -> Tensor:
    return _constant(np.arange(start, stop, step, dtype=float), device)


@lru_cache(maxsize=1)
def _coefficients() -> tuple[np.ndarray, np.ndarray]:
    """Powers of s → values, and → slopes, of 4 cubic weights and 7 cardinal polynomials: (7, 11)."""
    half = [0.5, 0.5]  # t = (1 + s) / 2 runs over [0, 1]
    in_t = 0.5 * np.array([[0, -1, 2, -1], [2, 0, -5, 3], [0, 1, 4, -3], [0, 0, -1, 1]], float)
    value = np.zeros((NODES, STENCIL + NODES))
    for p in range(STENCIL):
        terms = [c * poly.polypow(half, k) for k, c in enumerate(in_t[p])]
        for term in terms:
            value[: len(term), p] += term
    value[:, STENCIL:] = np.linalg.inv(np.vander(_local_nodes(), NODES, increasing=True))
    slope = np.zeros_like(value)
    slope[:-1] = value[1:] * np.arange(1, NODES)[:, None]
    return value, slope


def _local_nodes() -> np.ndarray:
    # Chebyshev–Lobatto: both ends are nodes, and the cardinal polynomials stay below 1 in size.
    return -np.cos(np.pi * np.arange(NODES) / _STEP)


@lru_cache(maxsize=16)
def basis(device: torch.device, cells: int = 0) -> Tensor:
    """Powers of s to local basis values, ``(7, 11)``: 4 interpolation weights, then 7 cardinals.

    With the number of cells per dimension each value is followed by its slope in h, ``(7, 22)``.
    """
    value, slope = _coefficients()
    # ds/dh = cells.
    table = np.stack([value, cells * slope], -1).reshape(NODES, -1) if cells else value
    return _constant(table, device)


@lru_cache(maxsize=16)
def tensor_basis(dim: int, cells: int, device: torch.device) -> Tensor:
    """:func:`basis` at every entry of a cell's row: powers of s in each dimension to its factors.

    ``(dim, 7, (1 + dim) · (4^dim + 7^dim))``: the product over dimensions of what it gives are
    the 4^dim weights and 7^dim cardinals, then their slopes in h, one dimension after the other.
    """
    value, slope = _coefficients()
    digits = [np.indices((k,) * dim).reshape(dim, -1) for k in (STENCIL, NODES)]
    entry = np.concatenate([digits[0], STENCIL + digits[1]], 1)
    table = np.stack([value[:, own] for own in entry])[:, :, None].repeat(1 + dim, 2)
    for j in range(dim):
        table[j, :, 1 + j] = cells * slope[:, entry[j]]
    return _constant(table.reshape(dim, NODES, -1), device)


def _constant(value: np.ndarray, device: torch.device) -> Tensor:
    with torch.inference_mode(False):  # it is kept, and may be needed where gradients are on
        return torch.as_tensor(value, device=device)


def powers(s: Tensor) -> Tensor:
    """``s^0 … s^6``, a new last axis of 7."""
    if s.is_cuda:  # vander is a scan there, many times slower than seven powers
        return s.unsqueeze(-1).pow(_sequence(0, NODES, 1, s.device))
    table: Tensor = torch.linalg.vander(s, N=NODES)
    return table


def weights(s: Tensor) -> Tensor:
    """Cubic convolution weights (Keys, a = -1/2) at local coordinates ``s``: a new last axis of 4.

    References:
        Cubic convolution interpolation for digital image processing, Keys 1981.

    >>> weights(torch.tensor([-1.0, 0.0], dtype=torch.float64))
    tensor([[ 0.0000,  1.0000,  0.0000,  0.0000],
            [-0.0625,  0.5625,  0.5625, -0.0625]], dtype=torch.float64)
    """
    return powers(s) @ basis(s.device)[:, :STENCIL]


def interp(spec: GridSpec, h: Tensor) -> list[Tensor]:
    """One-dimensional interpolation matrices of ``h`` ``(n, d)``, ``(n, size)`` per dimension."""
    cell, s = spec.locate(h)
    w = weights(s)
    out = []
    for j in range(spec.dim):
        column = cell[:, j, None] + torch.arange(STENCIL, device=h.device)
        out.append(w.new_zeros(len(h), spec.size).scatter(1, column, w[:, j]))
    return out


@lru_cache(maxsize=16)
def node_weights(device: torch.device) -> Tensor:
    """Interpolation weights at a cell's first six nodes, ``(6, 4)``; the seventh is the next cell's."""
    value = np.vander(_local_nodes(), NODES, increasing=True) @ _coefficients()[0][:, :STENCIL]
    return _constant(value[:_STEP], device)


def at_nodes(u: Tensor) -> Tensor:
    """Interpolate grid values ``(size, k)`` of one dimension at its nodes: ``(nodes, k)``."""
    inner = torch.einsum("sp,ckp->csk", node_weights(u.device), u.unfold(0, STENCIL, 1))
    return torch.cat([inner.reshape(-1, u.shape[1]), u[-2:-1]])


def from_nodes(x: Tensor) -> Tensor:
    """The adjoint of :func:`at_nodes`: ``(nodes, k)`` → ``(size, k)``."""
    cells = (len(x) - 1) // _STEP
    local = node_weights(x.device).T @ x[:-1].reshape(cells, _STEP, -1)
    out = x.new_zeros(cells + 3, x.shape[1])
    for p in range(STENCIL):
        out[p : p + cells] += local[:, p]
    out[-2] += x[-1]
    return out


def tensor_rows(factors: Tensor) -> Tensor:
    """Tensor products over dimensions: ``(n, dim, k)`` → ``(n, k^dim)``."""
    rows = factors[:, 0]
    for j in range(1, factors.shape[1]):
        rows = (rows.unsqueeze(-1) * factors[:, j].unsqueeze(-2)).flatten(1)
    return rows


def chunk_rows(width: int, device: torch.device) -> int:
    """Rows of ``width`` float64 to handle at once: 4 MiB, which stay in cache, or 256 MiB for a GPU."""
    budget = 2.0**22 if device.type == "cpu" else 2.0**28
    return max(256, math.floor(budget / (8.0 * width)))


def add_rows(table: Tensor, index: Tensor, rows: Tensor) -> None:
    """``table[index] += rows``, with the same rounding at each run."""
    if table.is_cuda:
        # Sorts first, so the order of the sums is fixed; scatter_add_ would use atomics.
        table.index_put_((index,), rows, accumulate=True)
    else:
        # One index per row, expanded: a parallel path, 5 to 8 times faster than index_add_.
        table.scatter_add_(0, index.unsqueeze(1).expand_as(rows), rows)
