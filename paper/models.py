"""The models of the tables: estimators built from recipes, baselines, and what either predicts.

All calls of the estimators' interface are here, but for free simulation (:mod:`paper.table2`).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge

import paper.peephole
import paper.schedules
import paper.surrogates  # noqa: F401 (recipes may name what these three register)
from paper.predictive import Predictive, Student, WithIntervals
from paper.recipes import Recipe
from seqgp import (
    GP,
    Calibration,
    Fitted,
    SequenceGP,
    SequenceNet,
    Training,
    TrainingWarning,
    WindowSet,
)
from seqgp.encoders import ENCODERS, Encoder
from seqgp.forecasting import fit_linear
from seqgp.metrics import coverage, nlpd, rmse

__all__ = [
    "BASELINES",
    "LinearModel",
    "Persistence",
    "RidgeModel",
    "build",
    "encoder_of",
    "fit",
    "fit_twice",
    "predicted",
    "predictive_of",
    "quietly",
    "scores",
]

Array = NDArray[np.float64]
_ROWS = 8192
_PENALTIES = np.logspace(-4, 4, 33)


class _Trainable(Protocol):
    def fit(self, windows: WindowSet, /, *, validation: WindowSet) -> Any: ...


Model = TypeVar("Model", bound=_Trainable)


def build(model: str, recipe: Recipe, seed: int, device: str = "auto") -> SequenceGP | SequenceNet:
    """The unfitted estimator of a recipe.

    A recipe is flat: each option goes to the object that has one of its name, and those of the estimator
    itself are left. The number of trainings, ``restarts`` in a recipe, is ``members`` there.

    Args:
        model: an encoder's name, with ``gp-`` before it for a GP model.
        recipe: options, see :mod:`paper.recipes`.
        seed: of the initial weights and the order of mini-batches.
        device: ``"cpu"``, ``"cuda"`` or ``"auto"``.
    """
    rest = dict(recipe)
    encoder = encoder_of(rest)
    training = Training(**_taken(rest, Training()))
    members = rest.pop("restarts", 1)
    rest |= {"random_state": int(seed), "device": device, "progress": False}
    if model.startswith("gp-"):
        gp = GP(**_taken(rest, GP()))
        return SequenceGP(encoder, gp=gp, training=training, members=members, **rest)
    return SequenceNet(encoder, training=training, members=members, **rest)


def encoder_of(recipe: Recipe) -> Encoder:
    """The encoder of a recipe, whose options are removed from it.

    Args:
        recipe: options, see :mod:`paper.recipes`.
    """
    kind = ENCODERS[recipe.pop("encoder")]
    return kind(**_taken(recipe, kind()))


def _taken(recipe: Recipe, options: Encoder | GP | Training) -> Recipe:
    """Those of the recipe that the object has, removed from the recipe."""
    names = options.get_params(deep=False)
    return {name: recipe.pop(name) for name in list(recipe) if name in names}


@contextmanager
def quietly() -> Iterator[None]:
    """Without warnings about training: a table has rows of bad models too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)
        yield


def fit(model: Model, train: WindowSet, validation: WindowSet) -> Model:
    """Fit a model in place, without warnings.

    Args:
        model: an estimator, a baseline or a rival of :mod:`paper.rivals`.
        train: windows to train on.
        validation: windows for the choice of the epoch and whatever is calibrated.
    """
    with quietly():
        model.fit(train, validation=validation)
    return model


def fit_twice(
    model: SequenceGP | SequenceNet, train: WindowSet, validation: WindowSet
) -> SequenceGP | SequenceNet:
    """Fit in place, then train again on all rows for as long as was best the first time.

    Args:
        model: an unfitted estimator.
        train: windows to train on.
        validation: windows for the first training's choices; training data of the second.
    """
    with quietly():
        return fit(model, train, validation).refit(train.union(validation))


def predicted(model: Any, windows: WindowSet) -> Student:
    """The predictive distribution of a fitted model's mean and deviation.

    Args:
        model: an estimator, what it has fitted, or a baseline.
        windows: to predict the targets of.
    """
    if isinstance(model, SequenceGP | SequenceNet):
        model = model.fitted_
    if isinstance(model, Fitted):
        return model.predict(windows)
    mean, std = model.predict(windows, return_std=True)
    return Student(mean, std)


def predictive_of(model: Any, windows: WindowSet) -> Predictive:
    """The predictive distribution of a fitted model, with the intervals that the model itself makes.

    Args:
        model: an estimator, what it has fitted, a baseline or a rival of :mod:`paper.rivals`.
        windows: to predict the targets of.
    """
    if hasattr(model, "predictive"):
        found: Predictive = model.predictive(windows)
        return found
    one = predicted(model, windows)
    fitted = model.fitted_ if isinstance(model, SequenceGP | SequenceNet) else model
    if isinstance(fitted, Fitted) and fitted.calibration.scores is not None:
        return _with_conformal_intervals(one, fitted.calibration)
    return one


def _with_conformal_intervals(one: Student, calibration: Calibration) -> WithIntervals:
    def interval(level: float) -> tuple[Array, Array]:
        half = calibration.radius(level).reshape(one.mean.shape[1:]) * one.std
        return one.mean - half, one.mean + half

    return WithIntervals(one.mean, one.std, one.dof, intervals=interval)


def scores(predicted: Student, y: Array, scale: Array | float) -> dict[str, float]:
    """RMSE in own units; RMSE and NLPD of ``y / scale``; coverage of the 95% interval.

    Args:
        predicted: distributions of ``y``.
        y: targets ``(n,)`` or ``(n, outputs)``.
        scale: the deviation of training targets, one number or ``(outputs,)``.
    """
    mean, std, dof = predicted.mean, predicted.std, predicted.dof
    return {
        "rmse": rmse(y, mean),
        "rmse_z": rmse(y / scale, mean / scale),
        "nlpd": nlpd(y / scale, mean / scale, std / scale, dof),
        "cov95": coverage(y, mean, std, dof=dof),
    }


class Persistence:
    """The last past target of the window; the deviation is that of the training errors."""

    def fit(self, windows: WindowSet, validation: WindowSet) -> Self:
        """Measure the errors on the training rows."""
        self.outputs = windows.y.shape[1:]
        self.std = np.std(windows.y - self.predict(windows), axis=0)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The last past target, which is the window's last columns."""
        k = self.outputs[0] if self.outputs else 1
        steps = [X[slice(start, start + _ROWS)][:, -1, -k:] for start in range(0, len(X), _ROWS)]
        mean = np.concatenate(steps).reshape(-1, *self.outputs)
        return (mean, np.broadcast_to(self.std, mean.shape)) if return_std else mean


class RidgeModel:
    """Ridge regression on the flattened window, its penalty chosen on validation rows."""

    def fit(self, windows: WindowSet, validation: WindowSet) -> Self:
        """Fit for each penalty and keep the best."""
        X, held = windows[:].reshape(len(windows), -1), validation[:].reshape(len(validation), -1)
        self.shift, self.scale = X.mean(0), X.std(0) + 1e-12
        fits = [Ridge(p * len(X)).fit((X - self.shift) / self.scale, windows.y) for p in _PENALTIES]
        held = (held - self.shift) / self.scale
        errors = [np.mean((fit.predict(held) - validation.y) ** 2) for fit in fits]
        self.best = fits[int(np.argmin(errors))]
        self.std = float(np.std(windows.y - self.predict(windows)))
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The linear prediction, and the deviation of its training errors."""
        flat = (X[:].reshape(len(X), -1) - self.shift) / self.scale
        mean = self.best.predict(flat)
        return (mean, np.full_like(mean, self.std)) if return_std else mean


class LinearModel:
    """A Bayesian ridge on the flattened window, streamed: for more windows than fit in memory."""

    def fit(self, windows: WindowSet, validation: WindowSet) -> Self:
        """Fit on both parts: the evidence chooses the penalty, so no rows are held back for it."""
        both = windows.union(validation)
        self.outputs = windows.y.shape[1:]
        self.line = fit_linear(both, both.y.reshape(len(both), -1))
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The linear prediction, and the deviation of its training errors."""
        mean, std = (part.reshape(-1, *self.outputs) for part in self.line.predict(X, True))
        return (mean, std) if return_std else mean


class Boosting:
    """Gradient boosted trees on the flattened window; early stopping sets the number of trees."""

    def fit(self, windows: WindowSet, validation: WindowSet) -> Self:
        """Fit on both parts, with scikit-learn's own early stopping."""
        both = windows.union(validation)
        X = both[:].reshape(len(both), -1).astype(np.float32)
        self.trees = HistGradientBoostingRegressor(
            max_iter=500, learning_rate=0.1, early_stopping=True, random_state=0
        ).fit(X, both.y)
        self.std = float(np.std(both.y - self.trees.predict(X)))
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The trees' mean, and the deviation of their training errors."""
        mean = self.trees.predict(X[:].reshape(len(X), -1).astype(np.float32))
        return (mean, np.full_like(mean, self.std)) if return_std else mean


BASELINES: dict[str, Any] = {
    "persistence": Persistence,
    "ridge": LinearModel,
    "boosting": Boosting,
}
"""Models without random numbers. Table 2 has :class:`RidgeModel` in the place of ``"ridge"``."""
