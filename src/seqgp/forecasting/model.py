"""The models of a forecaster: its estimator, and linear models beside it.

Estimators are created, trained, asked and updated here alone; everything else in this package works
with the :class:`seqgp.distributions.Student` that :func:`predictive` returns.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone

from seqgp.data import Standardizer, WindowSet
from seqgp.distributions import Student
from seqgp.encoders import LSTM
from seqgp.estimators import SequenceGP, SequenceRegressor
from seqgp.means import LinearMean, fit_mean
from seqgp.training import Training

__all__ = [
    "InputsOnly",
    "Linear",
    "Model",
    "TrainedModel",
    "TrainingSummary",
    "default_model",
    "dof_of",
    "estimator_of",
    "fit_linear",
    "interval_radius",
    "predictive",
    "train",
    "training_summary",
    "update",
]

Array = NDArray[np.float64]
Windows = Array | WindowSet
Validation = WindowSet | tuple[Array, Array]

_STEPS_IN_TRAINING = 12_000_000  # rows of windows over all epochs: about a minute on two cores
_CHUNK = 4096  # windows in memory at a time


class Model(Protocol):
    """A fitted model of windows ``(n, lag, features)``.

    It may have an attribute ``dof_``, degrees of freedom of Student's t; without it, its predictions
    are Gaussian.
    """

    def predict(self, X: Any, return_std: bool = ...) -> Any:
        """Mean, and with ``return_std`` standard deviation, ``(n,)`` or ``(n, outputs)`` each."""
        ...


@dataclass(frozen=True)
class InputsOnly:
    """A model that never sees past targets: in their place in a window it sees zeros.

    In a free run none of its predictions are fed back to it, so its errors cannot build up.
    """

    inputs: int
    """Columns of a window before the past targets."""
    model: SequenceRegressor

    @classmethod
    def trained(
        cls,
        template: SequenceRegressor,
        inputs: int,
        windows: WindowSet,
        validation: WindowSet,
        stop: Callable[[], bool] | None = None,
    ) -> InputsOnly:
        """Train a copy of an estimator on windows whose past targets are hidden.

        Args:
            template: with the options to train with; it is not changed.
            inputs: columns of a window before the past targets.
            windows: with their targets.
            validation: windows and targets to choose the epoch and to calibrate on.
            stop: asked now and then whether to end training early.
        """
        blind = cls(inputs, template)
        held = blind.hide_targets(validation), validation.y
        return cls(inputs, train(template, blind.hide_targets(windows), windows.y, held, stop))

    @property
    def dof_(self) -> Array:
        """Degrees of freedom of the model inside."""
        return self.model.dof_

    def predict(self, X: Windows, return_std: bool = False, observed: bool = True) -> Any:
        """As the model inside, on windows whose past targets are hidden.

        Args:
            X: windows ``(n, lag, features)``.
            return_std: whether to return the standard deviation too.
            observed: whether it is that of an observation, or of the latent function.
        """
        return self.model.predict(self.hide_targets(X), return_std=return_std, observed=observed)

    def hide_targets(self, X: Windows) -> Array:
        """Windows ``(n, lag, features)`` with zeros for past targets."""
        hidden = X[:].copy()
        hidden[:, :, self.inputs :] = 0.0
        return hidden


TrainedModel = SequenceRegressor | InputsOnly


@dataclass(frozen=True)
class Linear:
    """A linear model of flattened windows ``(n, lag p)`` on their own scale, with Gaussian errors."""

    weight: Array
    """``(lag p, outputs)``."""
    intercept: Array
    """``(outputs,)``."""
    std: Array
    """Standard deviation of the residuals, ``(outputs,)``."""

    def predict(self, X: Windows, return_std: bool = False) -> Any:
        """Mean ``(n, outputs)``, and with ``return_std`` standard deviation.

        Args:
            X: windows ``(n, lag, p)``.
            return_std: whether to return the standard deviation too.
        """
        parts = [
            X[slice(i, i + _CHUNK)].reshape(-1, len(self.weight)) @ self.weight + self.intercept
            for i in range(0, len(X), _CHUNK)
        ]
        mean = np.concatenate(parts) if parts else np.empty((0, len(self.intercept)))
        return (mean, np.broadcast_to(self.std, mean.shape)) if return_std else mean


def fit_linear(windows: WindowSet, y: Array) -> Linear:
    """Bayesian ridge regression, its one prior variance chosen by the evidence.

    The windows are streamed, so there may be a million. The uncertainty of the weights is left
    out: it is small beside the residuals wherever rows outnumber weights.

    Args:
        windows: ``(n, lag, p)``.
        y: targets ``(n, outputs)``.
    """
    x_scale, y_scale = Standardizer.fit(windows.rows()), Standardizer.fit(y)
    z = torch.as_tensor(y_scale.transform(y))
    inputs = windows.map_features(x_scale.transform).tensor(torch.float64)
    fitted = fit_mean("linear", inputs, z, plain=True)
    assert isinstance(fitted, LinearMean)
    slope = fitted.weight.numpy()
    level = fitted.intercept.numpy() - fitted.centre.numpy() @ slope
    # Back from standardised windows and targets to their own scales.
    shift, scale = (np.tile(each, windows.lag)[:, None] for each in (x_scale.shift, x_scale.scale))
    residual = fitted.intercept_variance.numpy() * len(y)  # the variance of one row's error
    return Linear(
        # Contiguous, as a saved model will have it: the rounding of a product depends on that.
        weight=np.ascontiguousarray(slope / scale * y_scale.scale),
        intercept=y_scale.inverse(level - (slope * shift / scale).sum(0)),
        std=y_scale.inverse_std(np.sqrt(residual)),
    )


def default_model(windows: WindowSet, **options: Any) -> SequenceGP:
    """A GP-LSTM that trains in about a minute: the more windows there are, the fewer epochs.

    Args:
        windows: to train on.
        **options: of :class:`seqgp.SequenceGP` in place of the default ones, nested as ``training__lr``.
    """
    epochs = int(np.clip(_STEPS_IN_TRAINING // (len(windows) * windows.lag), 5, 50))
    training = Training(epochs=epochs, patience=10, lr=3e-3)
    model = SequenceGP(LSTM(hidden=64), training=training, random_state=0)
    return model.set_params(**options)


def train(
    template: SequenceRegressor,
    windows: Windows,
    y: Array | None = None,
    validation: Validation | None = None,
    stop: Callable[[], bool] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> SequenceRegressor:
    """A copy of an estimator, trained.

    Args:
        template: with the options to train with; it is not changed.
        windows: ``(n, lag, features)``; a WindowSet has its targets with it.
        y: targets of an array of windows.
        validation: windows and targets to choose the epoch and to calibrate on.
        stop: asked now and then whether to end training early.
        checkpoint: file to resume training from.
    """
    model: SequenceRegressor = clone(template)
    return model.fit(windows, y, validation=validation, stop=stop, checkpoint=checkpoint)


def update(model: TrainedModel, windows: WindowSet) -> None:
    """Condition a model on more windows; one without a Gaussian process stays as it is.

    Args:
        model: trained.
        windows: new ones, with their targets.
    """
    estimator = estimator_of(model)
    if not isinstance(estimator, SequenceGP):
        return
    if isinstance(model, InputsOnly):
        estimator.update(model.hide_targets(windows), windows.y)
    else:
        estimator.update(windows)


def estimator_of(model: TrainedModel) -> SequenceRegressor:
    """The estimator: the model itself, or the one inside if past targets are hidden from it."""
    return model.model if isinstance(model, InputsOnly) else model


@dataclass(frozen=True)
class TrainingSummary:
    """How the training of a model went."""

    epochs: int
    """Epochs of the member that is best on validation rows."""
    best_epoch: int
    """The epoch whose state was kept."""
    members: int
    """Of the ensemble; 1 for a single training."""


def training_summary(model: TrainedModel) -> TrainingSummary:
    """How the training of a model went."""
    estimator = estimator_of(model)
    epochs = int(estimator.history_.epoch.max()) if len(estimator.history_) else 0
    members = estimator.fitted_.members
    return TrainingSummary(epochs, members[0].record.best_epoch, len(members))


def predictive(model: Model, windows: Windows, outputs: int, observed: bool = True) -> Student:
    """Predictive distributions, mean and standard deviation ``(n, outputs)``, one for each window.

    Args:
        model: fitted.
        windows: ``(n, lag, features)``.
        outputs: how many targets the model has.
        observed: whether they are of a new observation, or of the latent function, without noise,
            which is Gaussian; only estimators have one.
    """
    if not len(windows):
        return Student(np.empty((0, outputs)), np.empty((0, outputs)))
    options = {} if observed else {"observed": False}
    mean, std = model.predict(windows, return_std=True, **options)
    shape = (len(windows), outputs)
    dof = dof_of(model) if observed else math.inf
    return Student(np.reshape(mean, shape), np.reshape(std, shape), dof)


def dof_of(model: Model) -> Array | float:
    """Degrees of freedom of a model's predictions; infinite, for a Gaussian, if it has none."""
    dof: Array | float = getattr(model, "dof_", math.inf)
    return dof


def interval_radius(model: TrainedModel, level: float) -> Array:
    """Deviations ``(outputs,)`` from the mean to either end of the conformal interval.

    Args:
        model: calibrated.
        level: of the interval.
    """
    return estimator_of(model).fitted_.calibration.radius(level)
