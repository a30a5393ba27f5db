"""Products of two basis functions at the nodes: how S meets a Kronecker basis cheaply.

A basis function is a product over dimensions, so the product of two of them is one too. For the
dimensions other than a chosen j, the distinct one-dimensional products are tabulated at the nodes
(a dozen eigenvectors make 78 of them), and a sum over all nodes becomes one matrix product per
dimension: ``Σ_x nodes[x] φ_a(x) φ_b(x)`` for all pairs a, b, without a matrix of the size of S.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .eigenbasis import Component

__all__ = ["Pairs"]


class Pairs:
    """Products of a function of ``left`` and one of ``right`` in all dimensions but j."""

    def __init__(self, left: Component, right: Component, j: int) -> None:
        self.j = j
        self._tables: list[Tensor] = []  # (nodes, pairs) per dimension
        self._lookups: list[Tensor] = []  # (r_left, r_right) → pair
        for axis in range(left.index.shape[1]):
            if axis == j:
                continue
            a, b = left.at_nodes[axis], right.at_nodes[axis]
            lookup, both = _enumerate(a.shape[1], b.shape[1], symmetric=left is right)
            first, second = both.to(a.device)
            self._tables.append(a[:, first] * b[:, second])
            self._lookups.append(lookup)
        self.count = math.prod(table.shape[1] for table in self._tables)
        """How many pairs there are."""
        places = self._places(left.others(j)[0], _without(right.index, j))
        self.slots = places.to(left.vectors[0].device)
        """Where in :meth:`sums` the pair (tuple of left, column of right) is: ``(tuples, rank)``."""

    def sums(self, nodes: Tensor) -> Tensor:
        """``Σ nodes[x] φ_a(x) φ_b(x)`` over all dimensions but j: ``(nodes, pairs)``."""
        total = nodes.movedim(self.j, 0)
        for axis in range(len(self._tables), 0, -1):
            total = torch.tensordot(total, self._tables[axis - 1], ([axis], [0]))
        return total.reshape(len(total), -1)

    def spread(self, values: Tensor) -> Tensor:
        """``Σ values[x_j, pair] φ_a φ_b`` at all nodes, adjoint to :meth:`sums`: ``(nodes, …)``."""
        total = values.reshape(-1, *(t.shape[1] for t in reversed(self._tables)))
        for done, table in enumerate(self._tables):
            total = torch.tensordot(total, table, ([total.ndim - 1 - done], [1]))
        return total.reshape((len(values),) * (1 + len(self._tables))).movedim(0, self.j)

    def _places(self, left: Tensor, right: Tensor) -> Tensor:
        # The last dimension first: the order in which the contractions leave their axes.
        place = left.new_zeros(len(left), len(right))
        for axis in range(len(self._tables) - 1, -1, -1):
            pair = self._lookups[axis][left[:, axis].unsqueeze(1), right[:, axis]]
            place = place * self._tables[axis].shape[1] + pair
        return place


def _without(index: Tensor, j: int) -> Tensor:
    return torch.cat([index[:, :j], index[:, j + 1 :]], 1)


def _enumerate(ra: int, rb: int, symmetric: bool) -> tuple[Tensor, Tensor]:
    """Number the products of ra functions and rb: lookup ``(ra, rb)``, and both members ``(2, pairs)``."""
    if not symmetric:
        lookup = torch.arange(ra * rb).reshape(ra, rb)
        return lookup, torch.stack([lookup.flatten() // rb, lookup.flatten() % rb])
    both = torch.triu_indices(ra, ra)
    lookup = torch.empty(ra, ra, dtype=torch.long)
    number = torch.arange(both.shape[1])
    lookup[both[0], both[1]] = number
    lookup[both[1], both[0]] = number
    return lookup, both
