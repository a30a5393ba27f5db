"""From latent points and targets to a posterior."""

from seqgp.inference.exact import EXACT_ROWS, Exact, ExactPosterior, Rows
from seqgp.inference.grid import Grid, GridPosterior, GridStatistics
from seqgp.inference.posterior import (
    INFERENCES,
    Diagnostics,
    Inference,
    Posterior,
    Take,
    register,
)

__all__ = [
    "EXACT_ROWS",
    "INFERENCES",
    "Diagnostics",
    "Exact",
    "ExactPosterior",
    "Grid",
    "GridPosterior",
    "GridStatistics",
    "Inference",
    "Posterior",
    "Rows",
    "Take",
    "register",
]
