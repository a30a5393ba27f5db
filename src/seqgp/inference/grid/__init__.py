"""Grid inference: cubic convolution on a regular grid, sufficient statistics, a frozen posterior.

The way of the NLML: ``grid.Grid.statistics`` → ``statistics.accumulate`` (one pass over the rows),
then ``grid.Grid.posterior`` → ``direct.solve`` (or ``iterative.fit``), free of n.
"""

from .cost import Cost, estimate_cost
from .factors import toeplitz_columns
from .grid import Grid
from .interpolation import GridSpec
from .posterior import GridDiagnostics, GridPosterior
from .statistics import GridStatistics

__all__ = [
    "Cost",
    "Grid",
    "GridDiagnostics",
    "GridPosterior",
    "GridSpec",
    "GridStatistics",
    "estimate_cost",
    "toeplitz_columns",
]
