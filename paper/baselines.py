"""What any model must beat: the last value, a straight line, boosted trees."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge

from seqgp.data import WindowSet
from seqgp.forecasting.baselines import fit_linear

__all__ = ["Boosting", "LinearModel", "Persistence", "RidgeModel"]

Array = NDArray[np.float64]
_ROWS = 8192
_PENALTIES = np.logspace(-4, 4, 33)


class Persistence:
    """Tomorrow is today: the last past target of the window, deviation as its errors were."""

    def fit(self, windows: WindowSet, validation: WindowSet) -> Self:
        """Learn the size of the errors on the training rows."""
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
        """The line, and the size of its training errors."""
        flat = (X[:].reshape(len(X), -1) - self.shift) / self.scale
        mean = self.best.predict(flat)
        return (mean, np.full_like(mean, self.std)) if return_std else mean


class LinearModel:
    """A Bayesian ridge on the flattened window, streamed: for more windows than fit in memory."""

    def fit(self, windows: WindowSet, validation: WindowSet) -> Self:
        """Fit on both parts: the evidence chooses the penalty, so no rows are kept apart for it."""
        both = windows.union(validation)
        self.outputs = windows.y.shape[1:]
        self.line = fit_linear(both, both.y.reshape(len(both), -1))
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The line, and the size of its training errors."""
        chunks = [X[slice(start, start + _ROWS)] for start in range(0, len(X), _ROWS)]
        mean = np.concatenate(
            [c.reshape(len(c), -1) @ self.line.weight + self.line.intercept for c in chunks]
        ).reshape(-1, *self.outputs)
        std = self.line.std.reshape(self.outputs)
        return (mean, np.broadcast_to(std, mean.shape)) if return_std else mean


class Boosting:
    """Gradient boosted trees on the flattened window; the number of trees by early stopping."""

    def fit(self, windows: WindowSet, validation: WindowSet) -> Self:
        """Fit with scikit-learn's own early stopping, then learn the errors' size on validation."""
        both = windows.union(validation)
        X = both[:].reshape(len(both), -1).astype(np.float32)
        self.trees = HistGradientBoostingRegressor(
            max_iter=500, learning_rate=0.1, early_stopping=True, random_state=0
        ).fit(X, both.y)
        self.std = float(np.std(both.y - self.trees.predict(X)))
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The trees' mean, and the size of their training errors."""
        mean = self.trees.predict(X[:].reshape(len(X), -1).astype(np.float32))
        return (mean, np.full_like(mean, self.std)) if return_std else mean
