"""The prior between grid points, and the slopes of forms in K_UU.

The prior's variance ``wᵀK_UU w`` is the same polynomial in every cell, so its value at a cell's six
nodes gives all of it, and only the first four entries of a Toeplitz column have a part in it. The
slope of any form ``Σ M_ik (K_UU)_ik`` in the first column of a factor is a sum along diagonals.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from seqgp.inference.grid.interpolation import NODES, STENCIL, node_weights, weights
from seqgp.inference.grid.kernel_matrix import apply_each, toeplitz

__all__ = [
    "bilinear_slopes",
    "diagonal_sums",
    "kronecker_product",
    "least_prior_variance",
    "prior_at_nodes",
    "prior_covariance",
    "stencil_slopes",
    "trace",
]

FFT_FROM = 512
"""Points from which a product with a factor goes by FFT. Measured on one core, 16 right-hand sides:
256 points, dense 0.21 ms and FFT 0.22 ms; 512: 0.54 and 0.22; 2,048: 29 and 0.56. Below, a matrix
product runs at the speed of the arithmetic. (One FFT over all dimensions at once, with its padding
in each, loses at any size tried: d = 2, 400 points, 538 ms where dense factors take 126 ms.)"""


@lru_cache(maxsize=16)
def _by_lag(device: torch.device) -> Tensor:
    """Weights of a Toeplitz column's first four entries in ``wᵀTw`` at six nodes, ``(6, 4)``."""
    w = node_weights(device)
    with torch.inference_mode(False):  # kept, and used where gradients are on
        out = torch.zeros(NODES - 1, STENCIL, dtype=w.dtype, device=device)
        for p in range(STENCIL):
            for q in range(STENCIL):
                out[:, abs(p - q)] += w[:, p] * w[:, q]
    return out


def prior_at_nodes(columns: Tensor, count: int) -> Tensor:
    """``wᵀK_UU w`` at ``count`` nodes a dimension, columns ``(components, d, size)``: ``(count,) * d``."""
    factors = columns[..., :STENCIL] @ _by_lag(columns.device).T  # (components, d, 6)
    repeats = -(-count // (NODES - 1))  # each cell has the same, and the last node is a grid point
    factors = factors.repeat(1, 1, repeats)[..., :count]
    total = factors.new_zeros((count,) * factors.shape[1])
    for component in factors:
        product = component[0]
        for factor in component[1:]:
            product = product.unsqueeze(-1) * factor
        total += product
    return total


def least_prior_variance(columns: Tensor) -> Tensor:
    """A lower bound of ``wᵀK_UU w`` over the box, columns ``(components, d, size)``: a scalar above 0."""
    s = torch.linspace(-1.0, 1.0, 1025, dtype=columns.dtype, device=columns.device)
    w = weights(s)  # (1025, 4)
    factors = torch.einsum("sp,qdpr,sr->qds", w, toeplitz(columns[..., :STENCIL]), w)
    # Between samples a polynomial of degree 6 falls by at most 36 max|p| times half a step (Markov).
    # Where interpolation makes the prior itself vanish (a frequency at the grid's own), what is
    # left is rounding: 1e-12 of the prior.
    most = factors.amax(-1)
    least = torch.maximum(factors.amin(-1) - 36.0 / 1024.0 * most, 1e-12 * most)
    return least.prod(-1).sum()


def prior_covariance(columns: Tensor, rows: list[Tensor]) -> Tensor:
    """``W K_UU Wᵀ`` of a few rows from ``interp``, ``(…, n, n)``; columns ``(…, components, d, size)``."""
    parts = []
    for component in toeplitz(columns).unbind(-4):
        pairs = zip(component.unbind(-3), rows, strict=True)
        parts.append(torch.stack([row @ factor @ row.T for factor, row in pairs]).prod(0))
    return torch.stack(parts).sum(0)


def trace(columns: Tensor, nodes: Tensor) -> Tensor:
    """``tr(S K_UU) = Σ_i k(h_i, h_i)`` over the rows behind node weights ``(nodes,) * d``."""
    return (prior_at_nodes(columns, NODES - 1) * _per_local_node(nodes)).sum()


def stencil_slopes(columns: Tensor, nodes: Tensor) -> Tensor:
    """Slopes of ``tr(S K_UU)`` in all columns, ``(components, d, size)``; only four lags matter."""
    lag = _by_lag(columns.device)
    local = _per_local_node(nodes)
    slopes = torch.zeros_like(columns)
    for q, component in enumerate(columns[..., :STENCIL] @ lag.T):  # (d, 6)
        for j in range(len(component)):
            reduced = local.movedim(j, 0)
            for axis in reversed([k for k in range(len(component)) if k != j]):
                reduced = reduced @ component[axis]
            slopes[q, j, :STENCIL] = reduced @ lag
    return slopes


def _per_local_node(nodes: Tensor) -> Tensor:
    """Sum node weights over cells: ``(nodes,) * d`` → ``(6,) * d``."""
    for j in range(nodes.ndim):
        x = nodes.movedim(j, 0)
        inner = x[:-1].unflatten(0, (-1, NODES - 1)).sum(0)
        # The last node is a grid point, as the first node of each cell is.
        nodes = torch.cat([inner[:1] + x[-1:], inner[1:]]).movedim(0, j)
    return nodes


def diagonal_sums(matrix: Tensor) -> Tensor:
    """Slope of ``Σ_ik M_ik T_ik`` in the first column of a Toeplitz T: ``(g, g)`` → ``(g,)``."""
    g = len(matrix)
    # Rows of 2g read as rows of 2g - 1 shift by one each: the diagonals become columns.
    padded = torch.nn.functional.pad(matrix.flip(1), (0, g))
    sums = padded.flatten()[: g * (2 * g - 1)].reshape(g, 2 * g - 1).sum(0)
    upper, lower = sums[g - 1 :], sums[:g].flip(0)
    return torch.cat([upper[:1], upper[1:] + lower[1:]])


def bilinear_slopes(columns: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Slopes of ``Σ_k x_kᵀ K_UU y_k`` in all columns ``(components, d, g)``; x, y ``(k, g, …, g)``."""
    out = torch.empty_like(columns)
    for q, component in enumerate(columns):
        for j in range(len(component)):
            left = x.movedim(j + 1, 0).flatten(1)
            right = kronecker_product(component, y, skip=j).movedim(j + 1, 0).flatten(1)
            out[q, j] = diagonal_sums(left @ right.T)
    return out


def kronecker_product(columns: Tensor, x: Tensor, skip: int | None = None) -> Tensor:
    """``(⊗_j T_j) x`` for columns ``(d, g)`` and ``x`` ``(…, g, …, g)``; T_skip is left out."""
    d, g = columns.shape
    keep = [j for j in range(d) if j != skip]
    if g < FFT_FROM:
        factors = toeplitz(columns)
        return apply_each([factors[j] if j in keep else None for j in range(d)], x)
    # Each factor is a corner of a circulant of twice its size, which the FFT makes diagonal.
    spectra = torch.fft.rfft(torch.cat([columns, columns[:, :1], columns.flip(-1)[:, :-1]], -1))
    for j in keep:
        moved = x.movedim(x.ndim - d + j, -1)
        product = torch.fft.irfft(torch.fft.rfft(moved, n=2 * g) * spectra[j], n=2 * g)
        x = product[..., :g].movedim(-1, x.ndim - d + j)
    return x
