"""From latent points and targets to a posterior."""

from seqgp.inference.choose import EXACT_ROWS, INFERENCES, Auto, build_inference
from seqgp.inference.coregional import CoregionalPosterior, coregionalise
from seqgp.inference.exact import Exact, ExactPosterior, Rows
from seqgp.inference.grid import Grid, GridPosterior, GridStatistics
from seqgp.inference.offset import OffsetPosterior
from seqgp.inference.posterior import Diagnostics, Inference, Posterior
from seqgp.inference.readout import Readout

__all__ = [
    "EXACT_ROWS",
    "INFERENCES",
    "Auto",
    "CoregionalPosterior",
    "Diagnostics",
    "Exact",
    "ExactPosterior",
    "Grid",
    "GridPosterior",
    "GridStatistics",
    "Inference",
    "OffsetPosterior",
    "Posterior",
    "Readout",
    "Rows",
    "build_inference",
    "coregionalise",
]
