"""The NLML as a number that knows its own slopes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .posterior import Spread
from .solvers import Solution

__all__ = ["Result", "attach"]


@dataclass(frozen=True)
class Result:
    """One output's part of a posterior."""

    nlml: Tensor
    mean: Tensor
    """At the grid points, ``(size, …)``."""
    spread: Spread
    noise_slope: Tensor
    """∂NLML/∂σ²."""
    column_slopes: Callable[[], Tensor]
    """∂NLML/∂(first columns), ``(components, d, size)``, worked out when called."""
    rank: int
    dropped: float = 0.0
    jitter: float = 0.0
    solutions: tuple[Solution, ...] = ()
    logdet_error: float = 0.0


class _Value(torch.autograd.Function):
    """The total NLML; its slopes were derived by hand, and are made only when asked for."""

    @staticmethod
    def forward(ctx: Any, columns: Tensor, noise: Tensor, results: list[Result]) -> Tensor:
        ctx.results, ctx.shared = results, len(columns) == 1
        return torch.stack([r.nlml for r in results]).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        columns = noise = None
        if ctx.needs_input_grad[0]:
            columns = torch.stack([r.column_slopes() for r in ctx.results])
            columns = grad * (columns.sum(0, keepdim=True) if ctx.shared else columns)
        if ctx.needs_input_grad[1]:
            noise = grad * torch.stack([r.noise_slope for r in ctx.results])
        return columns, noise, None


attach: Callable[[Tensor, Tensor, list[Result]], Tensor] = _Value.apply
"""``(columns (1 or outputs, components, d, size), noise (outputs,), results)`` → the NLML."""
