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

from seqgp.inference.grid.interpolation import (
    NODES,
    STENCIL,
    GridSpec,
    basis,
    chunk_rows,
    powers,
    tensor_basis,
)

__all__ = ["Tables", "cell_rows", "row_losses"]


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


def row_losses(tables: Tables, h: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """``Σ_o weight_o [(y_o − m_o(h))² + v_o(h)]``, ``(n,)``, differentiable once in ``h`` and ``y``.

    Value and slopes are found together, so that the backward pass is one product. A mini-batch is
    small, and on a GPU its time is that of launching kernels, not of their work: arithmetic is spent
    to have few of them.

    Args:
        tables: of the posterior.
        h: latent points in the box, ``(n, d)``.
        y: targets in float64, ``(n, outputs)``.
        weight: of each output, ``(outputs,)``.
    """
    return _losses(h, y, tables, weight)


class _Losses(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, y: Tensor, tables: Tables, weight: Tensor) -> Tensor:
        width = tables.rows.shape[1] * tables.rows.shape[2]
        # One contraction holds factors of every dimension, for the value and for every slope.
        step = chunk_rows((1 + h.shape[1]) ** 2 * width if h.is_cuda else width, h.device)
        if len(h) <= step:
            both, residual = _with_slopes(tables, h, y, weight)
        else:
            chunks = zip(h.split(step), y.split(step), strict=True)
            found = [_with_slopes(tables, *chunk, weight) for chunk in chunks]
            both = torch.cat([losses for losses, _ in found])
            residual = torch.cat([residuals for _, residuals in found])
        slope_in_y = 2.0 * weight * residual if ctx.needs_input_grad[1] else None
        ctx.save_for_backward(both[:, 1:], slope_in_y)
        ctx.dtype = h.dtype
        return both[:, 0]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        slopes, slope_in_y = ctx.saved_tensors
        # Product and conversion, if h is float32, in one kernel.
        in_h = torch.empty(slopes.shape, dtype=ctx.dtype, device=slopes.device)
        torch.mul(grad.unsqueeze(1), slopes, out=in_h)
        return in_h, None if slope_in_y is None else grad.unsqueeze(1) * slope_in_y, None, None


_losses: Callable[[Tensor, Tensor, Tables, Tensor], Tensor] = _Losses.apply


def _with_slopes(tables: Tables, h: Tensor, y: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Loss and its slopes in ``h``, ``(n, 1 + d)``, and residuals ``(n, outputs)``."""
    if h.is_cuda:
        return _combine(*_one_contraction(tables, h), y, tables.floor, weight)
    mean, variance = tables.local(h, variance=True, slopes=True)
    assert variance is not None  # asked for
    both, residual = _combine(mean, variance, y, tables.floor, weight)
    return both.index_select(1, first_order(tables.spec.dim, h.device)), residual


def _combine(
    mean: Tensor, variance: Tensor, y: Tensor, floor: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor]:
    """From values and slopes ``(n, outputs, k)`` of both, which it overwrites.

    To those of the loss, ``(n, k)``, and residuals ``(n, outputs)``.
    """
    residual = y - mean[..., 0]
    variance[..., 0].clamp_(min=floor)  # as in a prediction
    # With -r/2 for the mean's value one formula serves values and slopes: v + r², v' - 2 r m'.
    torch.mul(residual, -0.5, out=mean[..., 0])
    both = torch.addcmul(variance, residual.unsqueeze(-1), mean, value=-2.0)
    return weight @ both, residual


def _one_contraction(tables: Tables, h: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance with their slopes, ``(n, outputs, 1 + d)``, by the fewest kernels.

    Every weight of a row is made at once, and mean and variance are contracted together.
    """
    dim, cells = tables.spec.dim, tables.spec.cells
    cell, s = tables.spec.locate(h)
    rows = tables.rows.index_select(0, tables.spec.flat(cell))
    factors = torch.bmm(powers(s).transpose(0, 1), tensor_basis(dim, cells, h.device))
    weights = factors.prod(0).unflatten(-1, (1 + dim, -1))
    both = (rows.unsqueeze(2) * weights.unsqueeze(1)) @ _halves(dim, h.device)
    return both[..., 0], both[..., 1]


@lru_cache(maxsize=16)
def _halves(dim: int, device: torch.device) -> Tensor:
    """Which entries of a row are of the mean, and which of the variance: ``(4^d + 7^d, 2)``."""
    with torch.inference_mode(False):  # kept, and used where gradients are on
        mean = torch.arange(STENCIL**dim + NODES**dim) < STENCIL**dim
        return torch.stack([mean, ~mean], 1).to(device, torch.float64)
