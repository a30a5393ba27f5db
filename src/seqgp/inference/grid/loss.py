"""The loss of training from the tables' rows: value and slopes together, so that backward is one product.

A mini-batch is small, and on a GPU its time is that of launching kernels, not of their work: this
module spends arithmetic to have few of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .interpolation import NODES, STENCIL, chunk_rows, powers, tensor_basis
from .tables import Tables, first_order

__all__ = ["row_losses"]


def row_losses(tables: Tables, h: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """``Σ_o weight_o [(y_o − m_o(h))² + v_o(h)]``, ``(n,)``, differentiable once in ``h`` ``(n, d)``.

    Targets ``y`` are ``(n, outputs)``, weights ``(outputs,)``.
    """
    return _apply(h, y, tables, weight)


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, y: Tensor, tables: Tables, weight: Tensor) -> Tensor:
        width = tables.rows.shape[1] * tables.rows.shape[2]
        # One contraction holds factors of every dimension, for the value and for every slope.
        step = chunk_rows((1 + h.shape[1]) ** 2 * width if h.is_cuda else width, h.device)
        if len(h) <= step:
            both = _with_slopes(tables, h, y, weight)
        else:
            parts = zip(h.split(step), y.split(step), strict=True)
            both = torch.cat([_with_slopes(tables, *part, weight) for part in parts])
        ctx.save_for_backward(both[:, 1:])
        ctx.dtype = h.dtype
        return both[:, 0]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        (slopes,) = ctx.saved_tensors
        # Product and conversion, if h is float32, in one kernel.
        found = torch.empty(slopes.shape, dtype=ctx.dtype, device=slopes.device)
        return torch.mul(grad.unsqueeze(1), slopes, out=found), None, None, None


_apply: Callable[[Tensor, Tensor, Tables, Tensor], Tensor] = _Loss.apply


def _with_slopes(tables: Tables, h: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """Loss, and its slopes in ``h``: ``(n, 1 + d)``."""
    if h.is_cuda:
        return _combine(*_one_contraction(tables, h), y, tables.floor, weight)
    mean, variance = tables.local(h, variance=True, slopes=True)
    assert variance is not None  # asked for
    both = _combine(mean, variance, y, tables.floor, weight)
    return both.index_select(1, first_order(tables.spec.dim, h.device))


def _combine(mean: Tensor, variance: Tensor, y: Tensor, floor: Tensor, weight: Tensor) -> Tensor:
    """Values and slopes ``(n, outputs, k)`` of both, which it uses up, to those of the loss, ``(n, k)``."""
    residual = y - mean[..., 0]
    variance[..., 0].clamp_(min=floor)  # as in a prediction
    # With -r/2 for the mean's value one formula serves values and slopes: v + r², v' - 2 r m'.
    torch.mul(residual, -0.5, out=mean[..., 0])
    both = torch.addcmul(variance, residual.unsqueeze(-1), mean, value=-2.0)
    return weight @ both


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
