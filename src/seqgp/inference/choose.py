"""Exact inference for few rows, grid inference for many."""

from __future__ import annotations

from gpytorch.kernels import Kernel
from torch import Tensor

from seqgp.inference.exact import Exact, Rows
from seqgp.inference.grid import Grid, GridStatistics
from seqgp.inference.posterior import Inference, Posterior

__all__ = ["EXACT_ROWS", "INFERENCES", "Auto", "build_inference"]

INFERENCES = ("auto", "exact", "grid")
EXACT_ROWS = 2000
"""Up to here ``auto`` is exact: a conditioning takes about as long as one on the default grid."""


class Auto:
    """Exact up to :data:`EXACT_ROWS` rows, else on a grid."""

    def __init__(self, grid_size: int | None = None) -> None:
        self.exact = Exact()
        self.grid = Grid(grid_size)

    def statistics(self, H: Tensor, y: Tensor) -> Rows | GridStatistics:
        """Statistics for whichever inference the number of rows asks for."""
        chosen: Exact | Grid = self.exact if len(y) <= EXACT_ROWS else self.grid
        return chosen.statistics(H, y)

    def posterior(
        self, kernel: Kernel, noise: Tensor, statistics: Rows | GridStatistics, squeeze: bool
    ) -> Posterior:
        """The posterior by the inference that made the statistics."""
        if isinstance(statistics, Rows):
            return self.exact.posterior(kernel, noise, statistics, squeeze)
        return self.grid.posterior(kernel, noise, statistics, squeeze)

    def restart(self) -> None:
        """Forget where iterative solves on the grid ended."""
        self.grid.restart()


def build_inference(name: str, grid_size: int | None = None) -> Inference:
    """The inference of that name."""
    if name == "exact":
        return Exact()
    if name == "grid":
        return Grid(grid_size)
    if name == "auto":
        return Auto(grid_size)
    raise ValueError(f"inference={name!r} is not known: use one of {', '.join(INFERENCES)}")
