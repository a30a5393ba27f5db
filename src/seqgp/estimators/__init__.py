"""Estimators with scikit-learn's manners."""

from seqgp.estimators.base import SequenceRegressor, resolve_device
from seqgp.estimators.sequence_gp import SequenceGP
from seqgp.estimators.sequence_net import SequenceNet

__all__ = ["SequenceGP", "SequenceNet", "SequenceRegressor", "resolve_device"]
