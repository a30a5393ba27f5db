"""Grid inference: cubic convolution on a regular grid, sufficient statistics, a frozen posterior.

The way of the NLML: ``grid.Grid.statistics`` → ``statistics.accumulate`` (one pass over the rows),
then ``grid.Grid.posterior`` → ``direct.solve`` (or ``iterative.fit``), free of n.
"""

from seqgp.inference.grid.cost import Cost, estimate_cost
from seqgp.inference.grid.grid import Grid
from seqgp.inference.grid.interpolation import GridSpec
from seqgp.inference.grid.iterative import LogDeterminant, System
from seqgp.inference.grid.kernel_matrix import toeplitz_columns
from seqgp.inference.grid.posterior import GridDiagnostics, GridPosterior
from seqgp.inference.grid.statistics import GridStatistics

__all__ = [
    "Cost",
    "Grid",
    "GridDiagnostics",
    "GridPosterior",
    "GridSpec",
    "GridStatistics",
    "LogDeterminant",
    "System",
    "estimate_cost",
    "toeplitz_columns",
]
