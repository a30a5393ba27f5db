"""What any model must beat: the last value, and a straight line."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import Ridge

from seqgp.data import WindowSet

__all__ = ["Persistence", "RidgeModel"]

Array = NDArray[np.float64]
_PENALTIES = np.logspace(-4, 4, 33)


class Persistence:
    """Tomorrow is today: the last past target of the window, deviation as its errors were."""

    def fit(self, windows: WindowSet, validation: WindowSet) -> Self:
        """Learn the size of the errors on the training rows."""
        self.std = float(np.std(windows.y - self._last(windows[:])))
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The last past target, which is the window's last column."""
        mean = self._last(X[:])
        return (mean, np.full_like(mean, self.std)) if return_std else mean

    @staticmethod
    def _last(X: Array) -> Array:
        last: Array = X[:, -1, -1]
        return last


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
