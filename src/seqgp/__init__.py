"""seqgp: Gaussian processes with recurrent kernels.

Sequence regression with an honest error bar: a window of a time series goes through a recurrent
network to a latent point, and a Gaussian process maps that point to the target.
"""

from seqgp._version import __version__
from seqgp.data import Standardizer, WindowSet, split_in_time
from seqgp.estimator import SequenceGP, SequenceNet
from seqgp.exceptions import NotPositiveDefiniteError, TrainingWarning
from seqgp.gp import GP
from seqgp.inference import Posterior

__all__ = [
    "GP",
    "NotPositiveDefiniteError",
    "Posterior",
    "SequenceGP",
    "SequenceNet",
    "Standardizer",
    "TrainingWarning",
    "WindowSet",
    "__version__",
    "split_in_time",
]
