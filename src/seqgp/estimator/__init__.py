"""Estimators on windows, with scikit-learn's manners."""

from seqgp.estimator.sequence_gp import SequenceGP
from seqgp.estimator.sequence_net import SequenceNet

__all__ = ["SequenceGP", "SequenceNet"]
