"""From a gpytorch kernel to the Toeplitz factors of its matrix on a regular grid.

On a grid, a stationary product kernel ``k(x, x') = Π_j k_j(x_j - x'_j)`` has the matrix
``K_UU = ⊗_j T_j`` with symmetric Toeplitz ``T_j``, each given by its first column. A sum of such
kernels is a sum of such products, here called components.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from gpytorch.kernels import (
    AdditiveKernel,
    ConstantKernel,
    Kernel,
    PeriodicKernel,
    ProductKernel,
    RBFKernel,
    ScaleKernel,
    SpectralMixtureKernel,
)
from torch import Tensor

from seqgp.kernels import ProductMatern

from .interpolation import GridSpec

__all__ = ["toeplitz_columns"]

# Products over dimensions by their formula. (gpytorch's spectral mixture in several dimensions is
# a product of one-dimensional mixtures, not a mixture of products: it sums before it multiplies.)
_PRODUCTS = (RBFKernel, PeriodicKernel, SpectralMixtureKernel, ConstantKernel)


def toeplitz_columns(kernel: Kernel, spec: GridSpec, device: torch.device) -> Tensor:
    """First columns of all factors, ``(batch, components, d, size)``, differentiable in θ.

    ``batch`` is 1 for an unbatched kernel and the number of outputs for a batched one. The
    kernel's own variance is part of the first dimension's factor.

    Raises:
        ValueError: when the kernel is not a sum of stationary products.
    """
    lags = spec.spacing * torch.arange(spec.size, dtype=torch.float64, device=device)
    components = _components(kernel, list(range(spec.dim)), spec.dim, lags)
    batch = max(len(column) for column in components)
    return torch.stack([c.expand(batch, spec.dim, spec.size) for c in components], 1)


def _components(kernel: Kernel, visible: list[int], dim: int, lags: Tensor) -> list[Tensor]:
    """Columns ``(batch, dim, size)`` of each component; ``visible``: dimensions that reach it."""
    if kernel.active_dims is not None:
        visible = [visible[k] for k in kernel.active_dims.tolist()]
    if isinstance(kernel, ScaleKernel):
        # ScaleKernel takes over its base's active_dims and calls it past its own selection.
        base = _components(kernel.base_kernel, _undo(kernel, visible, dim), dim, lags)
        return [_scaled(c, kernel.outputscale.reshape(-1)) for c in base]
    if isinstance(kernel, AdditiveKernel):
        return [c for k in kernel.kernels for c in _components(k, visible, dim, lags)]
    if isinstance(kernel, ProductKernel):
        product: list[Tensor] = [lags.new_ones(1, dim, len(lags))]
        for k in kernel.kernels:
            parts = _components(k, visible, dim, lags)
            product = [left * right for left in product for right in parts]
        return product
    _require_product(kernel, len(visible))
    return [_leaf(kernel, visible, dim, lags)]


def _undo(kernel: ScaleKernel, visible: list[int], dim: int) -> list[int]:
    """What the base of a scale kernel must be given so that its active_dims select ``visible``."""
    if kernel.base_kernel.active_dims is None:
        return visible
    slots = list(range(dim))
    for k, d in zip(kernel.base_kernel.active_dims.tolist(), visible, strict=True):
        slots[k] = d
    return slots


def _leaf(kernel: Kernel, visible: list[int], dim: int, lags: Tensor) -> Tensor:
    """Columns of a product kernel, read off it along each axis: ``k_j(τ) = k(τ e_j) / k(0)``."""
    size, count = len(lags), len(visible)
    along = lags.new_zeros(count, size, count)
    for j in range(count):
        along[j, :, j] = lags
    x = along.reshape(count * size, count)
    # diag=True evaluates pair by pair, from the difference itself: exact at zero distance, where
    # the matrix route expands a square and loses half the digits.
    values = kernel.forward(x, torch.zeros_like(x), diag=True)
    values = values.expand(*values.shape[:-1], count * size).reshape(-1, count, size)
    variance = values[:, 0, 0]
    shape = values / variance[:, None, None]
    columns = [lags.new_ones(len(values), size) for _ in range(dim)]
    for k, j in enumerate(visible):
        columns[j] = columns[j] * shape[:, k]
    return _scaled(torch.stack(columns, 1), variance)


def _scaled(columns: Tensor, variance: Tensor) -> Tensor:
    """Multiply a component ``(batch, dim, size)`` by ``variance`` ``(batch,)``: in its first factor."""
    columns = columns.expand(max(len(columns), len(variance)), *columns.shape[1:])
    return torch.cat([columns[:, :1] * variance[:, None, None], columns[:, 1:]], 1)


def _require_product(kernel: Kernel, count: int) -> None:
    # The type itself: a subclass may well have another formula (RBFKernelGrad has).
    if type(kernel) in _PRODUCTS or getattr(kernel, "is_product", False):
        return
    name = type(kernel).__name__
    if not kernel.is_stationary:
        raise ValueError(
            f"{name} is not stationary, but grid inference needs a kernel of x - x' alone: use "
            f"{_known()}, or inference='exact', which takes any kernel"
        )
    if count > 1:
        instead = "seqgp.kernels.ProductMatern" if "Matern" in name else _known()
        raise ValueError(
            f"{name} on {count} dimensions is a function of the distance, not a product over "
            f"dimensions, so it does not factor over a grid: use {instead}, a ProductKernel of one "
            f"{name} per dimension (active_dims), or inference='exact'"
        )


def _known() -> str:
    names: Iterable[str] = (k.__name__ for k in (*_PRODUCTS, ProductMatern))
    return ", ".join(names)
