"""``SequenceNet``: the same encoders and the same training with a linear layer in the GP's place."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.base import clone
from torch import nn

from seqgp.blueprint import Blueprint
from seqgp.encoders import Encoder
from seqgp.estimators.base import SequenceRegressor
from seqgp.training import Training

__all__ = ["SequenceNet"]


class SequenceNet(SequenceRegressor):
    """A plain recurrent network trained on squared errors: what a GP model must be better than.

    Its standard deviation is one number: that of its residuals on the rows it was fitted to, times a
    factor from the validation set (``calibrate``). The best epoch is selected by validation RMSE, and of
    several ``members`` the best is kept. The other options are those of :class:`seqgp.SequenceGP`; those of
    ``training`` that concern a GP have no effect.

    Args:
        encoder: the network.
        mean: the mean function, ``"zero"`` or ``"linear"``.
        training: a :class:`seqgp.Training`; None for its defaults.
        members: train so many times from different random weights.
        calibrate: estimate the size of residuals on the validation set.
        validation_fraction: share of the rows, the last in order, that are the validation set.
        lag: T, for flattened ``X``.
        random_state: seed.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``, or a torch device.
        progress: show a progress bar when standard error is a terminal.

    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.standard_normal((80, 6, 1)), rng.standard_normal(80)
    >>> model = SequenceNet("gru", training=Training(epochs=1), random_state=0)
    >>> model.fit(X, y).predict(X).shape
    (80,)
    """

    def __init__(
        self,
        encoder: str | Encoder | nn.Module = "lstm",
        mean: str = "zero",
        training: Training | None = None,
        members: int = 1,
        calibrate: bool = True,
        validation_fraction: float = 0.1,
        lag: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        device: str | torch.device = "auto",
        progress: bool = True,
    ) -> None:
        self.encoder = encoder
        self.mean = mean
        self.training = training
        self.members = members
        self.calibrate = calibrate
        self.validation_fraction = validation_fraction
        self.lag = lag
        self.random_state = random_state
        self.device = device
        self.progress = progress

    def blueprint(self) -> Blueprint:
        """The options, checked and resolved."""
        encoder, training = self._checked_options()
        plain = clone(training).set_params(
            select="rmse",
            algorithm="delayed",
            refresh="epoch",
            surrogate="posterior",
            pretrain_epochs=0,
        )
        return Blueprint(encoder, None, True, self.mean, plain, self.members, self.calibrate)
