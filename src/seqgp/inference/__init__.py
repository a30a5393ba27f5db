"""From latent points and targets to a posterior."""

from seqgp.inference.exact import Exact, ExactPosterior
from seqgp.inference.posterior import Diagnostics, Inference, Posterior
from seqgp.inference.readout import Readout

__all__ = ["Diagnostics", "Exact", "ExactPosterior", "Inference", "Posterior", "Readout"]
