"""The prior on a grid: its variance is the same polynomial in every cell."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from .interpolation import NODES, STENCIL, GridSpec, node_weights, weights
from .toeplitz import toeplitz

__all__ = [
    "interp",
    "least_prior_variance",
    "prior_at_nodes",
    "prior_covariance",
    "stencil_slopes",
    "trace",
]


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
    return sum_of_products(factors.repeat(1, 1, repeats)[..., :count])


def sum_of_products(factors: Tensor) -> Tensor:
    """``Σ_q ⊗_j factors[q, j]``: ``(components, d, k)`` → ``(k,) * d``."""
    total = factors.new_zeros((factors.shape[-1],) * factors.shape[1])
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


def trace(columns: Tensor, nodes: Tensor) -> Tensor:
    """``Σ_i k(h_i, h_i)`` over the rows behind node weights ``(nodes,) * d``."""
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


def interp(spec: GridSpec, h: Tensor) -> list[Tensor]:
    """One-dimensional interpolation matrices of ``h`` ``(n, d)``, ``(n, size)`` per dimension."""
    cell, s = spec.locate(h)
    w = weights(s)
    out = []
    for j in range(spec.dim):
        column = cell[:, j, None] + torch.arange(STENCIL, device=h.device)
        out.append(w.new_zeros(len(h), spec.size).scatter(1, column, w[:, j]))
    return out


def prior_covariance(columns: Tensor, rows: list[Tensor]) -> Tensor:
    """``W K_UU Wᵀ`` of a few rows from :func:`interp`, ``(…, n, n)``.

    Columns are ``(…, components, d, size)``.
    """
    parts = []
    for component in toeplitz(columns).unbind(-4):
        factors = [
            row @ factor @ row.T for factor, row in zip(component.unbind(-3), rows, strict=True)
        ]
        parts.append(torch.stack(factors).prod(0))
    return torch.stack(parts).sum(0)
