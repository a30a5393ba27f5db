"""A low-rank square root of K_UU from the eigenvectors of its Toeplitz factors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from seqgp.exceptions import NotPositiveDefiniteError

from .interpolation import at_nodes
from .toeplitz import apply_each, eigenpairs

__all__ = ["Component", "Eigenbasis", "Spectrum"]

_ROUNDING = 1e-14  # eigenvalues below this share of the largest are rounding, not information


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

    def others(self, j: int) -> tuple[Tensor, Tensor]:
        """Distinct index tuples of all dimensions but j, ``(tuples, d - 1)``, and each column's own.

        On the CPU, as ``index`` is.
        """
        return self._others[j]

    @cached_property
    def _others(self) -> list[tuple[Tensor, Tensor]]:
        found = []
        for j in range(self.index.shape[1]):
            rest = torch.cat([self.index[:, :j], self.index[:, j + 1 :]], 1).numpy()
            # Numbers in place of tuples: unique over rows takes many times longer.
            number = np.zeros(len(rest), dtype=np.int64)
            for axis, reach in enumerate(rest.max(0, initial=0) + 1):
                number = number * reach + rest[:, axis]
            _, first, place = np.unique(number, return_index=True, return_inverse=True)
            found.append((torch.from_numpy(rest[first]), torch.from_numpy(place)))
        return found

    def project(self, x: Tensor) -> Tensor:
        """``Pᵀx``: ``(…, size, …, size)`` → ``(…, rank)``."""
        full = apply_each([v.T for v in self.vectors], x)
        where: tuple[Any, ...] = (..., *self.where)
        return full[where]

    def expand(self, z: Tensor) -> Tensor:
        """``Pz``: ``(k, rank)`` → ``(k, size, …, size)``."""
        full = z.new_zeros(len(z), *(v.shape[1] for v in self.vectors))
        where: tuple[Any, ...] = (slice(None), *self.where)
        full[where] = z
        return apply_each(list(self.vectors), full)


@dataclass(frozen=True)
class Eigenbasis:
    """``K_UU ≈ PPᵀ`` with ``P = [P_1 … P_Q]``, one block per component of the kernel."""

    components: tuple[Component, ...]

    @property
    def rank(self) -> int:
        """Columns of P."""
        return sum(c.rank for c in self.components)

    @property
    def slices(self) -> list[slice]:
        """Where each component's columns stand in P."""
        stops, start = [], 0
        for c in self.components:
            stops.append(slice(start, start + c.rank))
            start += c.rank
        return stops

    def project(self, x: Tensor) -> Tensor:
        """``Pᵀx``: ``(…, size, …, size)`` → ``(…, rank)``."""
        return torch.cat([c.project(x) for c in self.components], -1)

    def expand(self, z: Tensor) -> Tensor:
        """``Pz``: ``(k, rank)`` → ``(k, size, …, size)``."""
        parts = [c.expand(z[:, s]) for c, s in zip(self.components, self.slices, strict=True)]
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

    @cached_property
    def values(self) -> Tensor:
        """Eigenvalues of each factor, largest first, ``(components, d, size)``."""
        return self._values.to(self.columns.device)

    @cached_property
    def vectors(self) -> Tensor:
        """Eigenvectors of each factor, ``(components, d, size, size)``."""
        return self._vectors.to(self.columns.device)

    def rank(self, tolerance: float) -> tuple[int, Tensor]:
        """Eigenvalues to keep so that at most ``tolerance`` of prior variance (per point) is lost.

        Also the variance lost at each rank, ``tail[r]``.
        """
        joint = torch.cat([p.flatten() for p in self._products()]).sort(descending=True).values
        tail = joint.flip(0).cumsum(0).flip(0) / self.points
        significant = int((joint > _ROUNDING * joint[0]).sum())
        needed = int((tail > tolerance).sum())
        return max(1, min(needed, significant)), torch.cat([tail, tail.new_zeros(1)])

    def basis(self, rank: int) -> Eigenbasis:
        """The ``rank`` largest eigenpairs of all components together."""
        products = self._products()
        joint = torch.cat([p.flatten() for p in products])
        chosen = torch.zeros_like(joint, dtype=torch.bool)
        chosen[joint.topk(min(rank, len(joint))).indices] = True
        parts = []
        for q, mask in enumerate(chosen.split([p.numel() for p in products])):
            mask[0] = True  # a component of hardly any weight keeps its place
            index = mask.reshape(products[q].shape).nonzero()
            reach = (index.amax(0) + 1).tolist()
            device = self.columns.device
            vectors = [
                self._vectors[q, j, :, :r] * self._values[q, j, :r].sqrt()
                for j, r in enumerate(reach)
            ]
            nodes = tuple(at_nodes(v).to(device) for v in vectors)
            parts.append(Component(tuple(v.to(device) for v in vectors), nodes, index))
        return Eigenbasis(tuple(parts))

    def _products(self) -> list[Tensor]:
        """Eigenvalues of each component as a tensor over dimensions, without hopeless ones."""
        out = []
        for values in self._values:
            product = values.new_ones(())
            for v in values:
                kept = max(1, int((v > _ROUNDING * v[0]).sum()))
                product = product.unsqueeze(-1) * v[:kept]
            out.append(product)
        return out
