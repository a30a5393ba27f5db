"""The kernel matrix on the grid: from a gpytorch kernel to a low-rank square root of K_UU.

On a regular grid a stationary product kernel ``k(x, x') = Π_j k_j(x_j - x'_j)`` has the matrix
``K_UU = ⊗_j T_j`` with symmetric Toeplitz factors ``T_j``, each given by its first column. A sum of
such kernels is a sum of such products, here called components. The eigenvectors of ``⊗_j T_j`` are
products of those of its factors, so small eigenproblems give all of them, and the largest eigenvalues
of all components together a matrix P of few columns with ``K_UU ≈ PPᵀ``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
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

from seqgp.exceptions import NotPositiveDefiniteError
from seqgp.inference.grid.interpolation import GridSpec, at_nodes

__all__ = ["Component", "Eigenbasis", "Spectrum", "apply_each", "toeplitz", "toeplitz_columns"]

# Products over dimensions by their formula. (gpytorch's spectral mixture in several dimensions is
# a product of one-dimensional mixtures, not a mixture of products: it sums before it multiplies.)
_PRODUCTS = (RBFKernel, PeriodicKernel, SpectralMixtureKernel, ConstantKernel)
_ROUNDING = 1e-14  # eigenvalues below this share of the largest are rounding, not information


def toeplitz_columns(kernel: Kernel, spec: GridSpec, device: torch.device) -> Tensor:
    """First columns of all factors, ``(batch, components, d, size)``, differentiable in θ.

    ``batch`` is 1 for an unbatched kernel and the number of outputs for a batched one. The
    kernel's own variance is part of the first dimension's factor.

    Args:
        kernel: a sum of stationary products.
        spec: the grid.
        device: of the result.

    Raises:
        ValueError: when the kernel is not a sum of stationary products.
    """
    lags = spec.spacing * torch.arange(spec.size, dtype=torch.float64, device=device)
    components = _components(kernel, list(range(spec.dim)), spec.dim, lags)
    batch = max(len(column) for column in components)
    return torch.stack([c.expand(batch, spec.dim, spec.size) for c in components], 1)


def _components(
    kernel: Kernel, visible: list[int], dim: int, lags: Tensor, selected: bool = False
) -> list[Tensor]:
    """Columns ``(batch, dim, size)`` of each component.

    ``visible`` are the dimensions that reach the kernel, ``selected`` says that its own selection of
    them, active_dims, has been made already.
    """
    if kernel.active_dims is not None and not selected:
        visible = [visible[k] for k in kernel.active_dims.tolist()]
    if isinstance(kernel, ScaleKernel):
        # ScaleKernel takes over its base's active_dims and calls it past its own selection.
        base = _components(kernel.base_kernel, visible, dim, lags, selected=True)
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
    known = ", ".join([*(k.__name__ for k in _PRODUCTS), "ProductMatern"])
    if not kernel.is_stationary:
        raise ValueError(
            f"{name} is not stationary, but grid inference needs a kernel of x - x' alone: use "
            f"{known}, or inference='exact', which takes any kernel"
        )
    if count > 1:
        instead = "seqgp.kernels.ProductMatern" if "Matern" in name else known
        raise ValueError(
            f"{name} on {count} dimensions is a function of the distance, not a product over "
            f"dimensions, so it does not factor over a grid: use {instead}, a ProductKernel of one "
            f"{name} per dimension (active_dims), or inference='exact'"
        )


def toeplitz(column: Tensor) -> Tensor:
    """Dense symmetric Toeplitz matrices ``(…, g, g)`` from first columns ``(…, g)``."""
    g = column.shape[-1]
    mirrored = torch.cat([column.flip(-1)[..., :-1], column], -1)  # lags -(g-1) … g-1
    # Row i of the matrix is the window of the mirrored column that ends i places earlier.
    return mirrored.unfold(-1, g, 1).flip(-2)


def eigenpairs(column: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues ``(…, g)``, largest first and not negative, and vectors ``(…, g, g)``.

    A symmetric Toeplitz matrix is its own mirror image, so its eigenvectors are even or odd, and
    two problems of half the size give them all, in a quarter of the time.
    """
    T = toeplitz(column)
    g = T.shape[-1]
    half = g // 2
    near, far = T[..., :half, :half], T[..., :half, g - half :].flip(-1)
    even = near + far
    if g % 2:  # the even problem has the middle point as well
        middle = T[..., :half, half : half + 1] * math.sqrt(2.0)
        corner = T[..., half : half + 1, half : half + 1]
        even = torch.cat([torch.cat([even, middle], -1), torch.cat([middle.mT, corner], -1)], -2)
    even_values, even_vectors = torch.linalg.eigh(even)
    odd_values, odd_vectors = torch.linalg.eigh(near - far)
    top = torch.cat([even_vectors[..., :half, :], odd_vectors], -1) / math.sqrt(2.0)
    bottom = torch.cat([even_vectors[..., :half, :], -odd_vectors], -1).flip(-2) / math.sqrt(2.0)
    middle_row = torch.zeros_like(odd_vectors[..., : g % 2, :])  # none where the size is even
    centre = torch.cat([even_vectors[..., half:, :], middle_row], -1)
    value, order = torch.cat([even_values, odd_values], -1).sort(descending=True)
    vector = torch.cat([top, centre, bottom], -2).gather(-1, order.unsqueeze(-2).expand(*T.shape))
    return value.clamp_min(0.0), vector  # rounding leaves ±1e-16 of the largest


def apply_each(matrices: Sequence[Tensor | None], x: Tensor) -> Tensor:
    """Multiply the last ``d`` axes of ``x`` by one matrix ``(out, in)`` each; None leaves an axis."""
    d = len(matrices)
    for j, matrix in enumerate(matrices):
        if matrix is not None:
            axis = x.ndim - d + j
            x = torch.tensordot(x, matrix, ([axis], [1])).movedim(-1, axis)
    return x


@dataclass(frozen=True)
class Component:
    """The kept part of one product ``⊗_j T_j``: columns ``⊗_j vectors[j][:, index[:, j]]``."""

    vectors: tuple[Tensor, ...]
    """Eigenvectors times the root of their eigenvalue, ``(size, r_j)`` per dimension."""
    at_nodes: tuple[Tensor, ...]
    """The same, interpolated at the nodes: ``(nodes, r_j)``."""
    index: Tensor
    """Which product of eigenvectors each kept column is, ``(rank, d)``. On the CPU, whatever the
    device of the vectors: what to gather is settled there, before anything is launched on a GPU."""

    @property
    def rank(self) -> int:
        """Kept columns."""
        return len(self.index)

    @cached_property
    def where(self) -> tuple[Tensor, ...]:
        """``index`` as one tensor ``(rank,)`` per dimension, on the vectors' device."""
        return self.index.T.contiguous().to(self.vectors[0].device).unbind(0)

    @cached_property
    def others(self) -> list[tuple[Tensor, Tensor]]:
        """Per dimension j the distinct index tuples of all others, and each column's own.

        ``(tuples, d - 1)`` and ``(rank,)``, on the CPU, as ``index`` is.
        """
        found = []
        for j in range(self.index.shape[1]):
            rest = without(self.index, j).numpy()
            # Numbers in place of tuples: unique over rows takes many times longer.
            number = np.zeros(len(rest), dtype=np.int64)
            for axis, reach in enumerate(rest.max(0, initial=0) + 1):
                number = number * reach + rest[:, axis]
            _, first, place = np.unique(number, return_index=True, return_inverse=True)
            found.append((torch.from_numpy(rest[first]), torch.from_numpy(place)))
        return found


def without(index: Tensor, j: int) -> Tensor:
    """Drop column j of ``(rank, d)``."""
    return torch.cat([index[:, :j], index[:, j + 1 :]], 1)


@dataclass(frozen=True)
class Eigenbasis:
    """``K_UU ≈ PPᵀ`` with ``P = [P_1 … P_Q]``, one block per component of the kernel."""

    components: tuple[Component, ...]

    @property
    def rank(self) -> int:
        """Columns of P."""
        return sum(c.rank for c in self.components)

    def split(self, z: Tensor, axis: int) -> tuple[Tensor, ...]:
        """Each component's share of an axis of length ``rank``."""
        shares: tuple[Tensor, ...] = z.split([c.rank for c in self.components], axis)
        return shares

    def project(self, x: Tensor) -> Tensor:
        """``Pᵀx``: ``(…, size, …, size)`` → ``(…, rank)``."""
        parts = []
        for c in self.components:
            where: tuple[Any, ...] = (..., *c.where)
            parts.append(apply_each([v.T for v in c.vectors], x)[where])
        return torch.cat(parts, -1)

    def expand(self, z: Tensor) -> Tensor:
        """``Pz``: ``(k, rank)`` → ``(k, size, …, size)``."""
        parts = []
        for c, own in zip(self.components, self.split(z, 1), strict=True):
            full = z.new_zeros(len(z), *(v.shape[1] for v in c.vectors))
            where: tuple[Any, ...] = (slice(None), *c.where)
            full[where] = own
            parts.append(apply_each(c.vectors, full))
        return torch.stack(parts).sum(0)


class Spectrum:
    """All eigenpairs of the factors of one kernel: columns ``(components, d, size)``."""

    def __init__(self, columns: Tensor) -> None:
        near = columns.cpu()
        if not bool(torch.isfinite(near).all()):
            raise NotPositiveDefiniteError(
                "the kernel has values on the grid that are not finite. A kernel parameter has "
                "diverged: lower the learning rate of θ, or set gp.kernel's parameters to finite "
                "values."
            )
        self.columns = columns
        # Matrices too small to fill a GPU, whose solver takes several times longer.
        self._values, self._vectors = eigenpairs(near)
        self.size = columns.shape[-1]
        self.points = self.size ** columns.shape[1]
        # Eigenvalues of each component as a tensor over dimensions, without hopeless ones.
        self._products = []
        for values in self._values:
            product = values.new_ones(())
            for v in values:
                kept = max(1, int((v > _ROUNDING * v[0]).sum()))
                product = product.unsqueeze(-1) * v[:kept]
            self._products.append(product)
        self._joint = torch.cat([p.flatten() for p in self._products])

    @cached_property
    def roots(self) -> Tensor:
        """Eigenvectors times the root of their eigenvalue, ``(components, d, size, size)``."""
        values = self._values.to(self.columns.device)
        return self._vectors.to(self.columns.device) * values.sqrt().unsqueeze(-2)

    def rank(self, tolerance: float) -> tuple[int, Tensor]:
        """Eigenvalues to keep so that at most ``tolerance`` of prior variance (per point) is lost.

        Also the variance lost at each rank, ``tail[r]``.
        """
        joint = self._joint.sort(descending=True).values
        tail = joint.flip(0).cumsum(0).flip(0) / self.points
        significant = int((joint > _ROUNDING * joint[0]).sum())
        needed = int((tail > tolerance).sum())
        return max(1, min(needed, significant)), torch.cat([tail, tail.new_zeros(1)])

    def basis(self, rank: int) -> Eigenbasis:
        """The ``rank`` largest eigenpairs of all components together."""
        chosen = torch.zeros_like(self._joint, dtype=torch.bool)
        chosen[self._joint.topk(min(rank, len(chosen))).indices] = True
        device = self.columns.device
        parts = []
        for q, mask in enumerate(chosen.split([p.numel() for p in self._products])):
            mask[0] = True  # a component of hardly any weight keeps its place
            index = mask.reshape(self._products[q].shape).nonzero()
            vectors = [
                self._vectors[q, j, :, :r] * self._values[q, j, :r].sqrt()
                for j, r in enumerate((index.amax(0) + 1).tolist())
            ]
            nodes = tuple(at_nodes(v).to(device) for v in vectors)
            parts.append(Component(tuple(v.to(device) for v in vectors), nodes, index))
        return Eigenbasis(tuple(parts))
