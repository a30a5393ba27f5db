"""``SequenceGP``: windows in, mean and standard deviation out, with scikit-learn's manners."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import nn

from seqgp.blueprint import Blueprint
from seqgp.data import WindowSet
from seqgp.encoders import Encoder
from seqgp.estimators.base import SequenceRegressor
from seqgp.gp import GP
from seqgp.training import Training

__all__ = ["SequenceGP"]


class SequenceGP(SequenceRegressor):
    """Gaussian process regression on sequences, with a recurrent network inside the kernel.

    ``X`` is ``(n, T, p)``: n windows of T steps of p features; or flattened ``(n, T*p)`` with
    ``lag=T``; or a :class:`seqgp.WindowSet`. ``y`` is ``(n,)`` or ``(n, outputs)``. Inputs and
    targets are standardised inside, on the training part only.

    Args:
        encoder: the network: ``"lstm"``, ``"gru"``, ``"rnn"``, ``"narx"``, another registered name, an
            :class:`seqgp.encoders.Encoder` with options such as ``LSTM(hidden=32)``, or any ``nn.Module``
            mapping ``(n, T, p)`` to ``(n, width)`` (copied, never changed).
        gp: the Gaussian process on the latent space: a :class:`seqgp.GP`, or the name of its kernel. Its
            options are taken, and each training starts with a GP of its own.
        mean: the mean function: ``"linear"`` in the window (Bayesian, with an automatic relevance
            determination prior that tightens with the lag), or ``"zero"``.
        readout: a linear readout of the encoder's features joins the mean, trained with them, as in
            a plain network; the GP is about its residual. For targets that do not fit through
            ``latent_dim`` numbers: many outputs, or very little noise.
        training: a :class:`seqgp.Training`; None for its defaults.
        members: train so many times from different random weights, since the likelihood of a recurrent
            kernel has bad local optima. With a validation set and ``calibrate`` those that score nearly as
            well as the best are averaged as an ensemble; else the best is kept.
        calibrate: correct the predicted distribution by the residuals on the validation set (see
            :class:`seqgp.Calibration`). Nothing is done without a validation set.
        validation_fraction: share of the rows, the last in order, that are the validation set, on which
            the best epoch is selected. They join the posterior at the end. A set of fewer than 10
            rows is not made: then the lowest training NLML is selected.
        lag: T, for flattened ``X``; without it each column is one step of a single feature.
        random_state: seed; the same seed gives the same numbers on the same machine.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``, or a torch device.
        progress: show a progress bar when standard error is a terminal.

    Attributes:
        fitted_: the fitted model, :class:`seqgp.fitted.Fitted`: members, mean function, calibration,
            scalers.
        history_: DataFrame with one row per epoch of the best training.
        dof_: degrees of freedom of the predicted Student's t, one per output.

    References:
        Learning Scalable Deep Kernels with Recurrent Structure, Al-Shedivat et al. 2017,
        arXiv:1610.08936.

    >>> from seqgp import LSTM, Training
    >>> rng = np.random.default_rng(0)
    >>> series = np.sin(np.arange(220) / 5) + 0.1 * rng.standard_normal(220)
    >>> X = np.stack([series[i : i + 12] for i in range(200)])[:, :, None]
    >>> y = series[12:212]
    >>> model = SequenceGP(LSTM(hidden=8), training=Training(epochs=5), random_state=0)
    >>> mean, std = model.fit(X[:150], y[:150]).predict(X[150:], return_std=True)
    >>> mean.shape, bool(model.score(X[150:], y[150:]) > 0.9)
    ((50,), True)
    """

    def __init__(
        self,
        encoder: str | Encoder | nn.Module = "lstm",
        gp: str | GP = "rbf",
        mean: str = "linear",
        readout: bool = False,
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
        self.gp = gp
        self.mean = mean
        self.readout = readout
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
        if self.readout and training.surrogate != "posterior":
            raise ValueError(
                f"readout=True with surrogate={training.surrogate!r}: a readout is trained through the "
                "posterior's own loss, so it needs surrogate='posterior'"
            )
        gp = self.gp if isinstance(self.gp, GP) else GP(self.gp)
        return Blueprint(
            encoder, gp, bool(self.readout), self.mean, training, self.members, self.calibrate
        )

    def update(self, X: ArrayLike | WindowSet, y: ArrayLike | None = None) -> Self:
        """Condition on more rows, at the network, parameters, scales and mean function of ``fit``.

        The posterior is that of all rows from scratch; with grid inference the old ones are not needed
        for it.

        Args:
            X: windows.
            y: targets; a WindowSet brings its own.
        """
        windows, targets = self._more_rows(X, y)
        self.fitted_ = self.fitted_.updated(windows, targets)
        return self

    def _resolved(self, name: str) -> Any:
        if name == "gp" and isinstance(self.gp, str):
            return GP(self.gp)
        return super()._resolved(name)
