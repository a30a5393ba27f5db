"""Training for free simulation: learn from the windows that one's own predictions lead to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from seqgp.data import WindowSet
from seqgp.estimators import SequenceGP, SequenceRegressor
from seqgp.forecasting.simulation import free_run, simulate, starts_of

__all__ = ["InputsOnly", "Multistep", "fit_multistep"]

Array = NDArray[np.float64]
Model = TypeVar("Model", bound=SequenceRegressor)


@dataclass(frozen=True)
class Multistep:
    """A model trained for free simulation, and how it was found."""

    model: Any
    """The fitted model that simulates best on the validation part."""
    scores: dict[str, float]
    """Validation RMSE of a free run, for each way of training tried."""

    @property
    def chosen(self) -> str:
        """The way of training that simulated best."""
        return min(self.scores, key=self.scores.__getitem__)


class InputsOnly:
    """A model that never sees past targets: wherever they stand in a window, it sees zeros.

    In a free run nothing it predicts comes back to it, so its errors cannot build up.
    """

    def __init__(
        self,
        model: SequenceRegressor,
        windows: WindowSet,
        validation: WindowSet,
        stop: Callable[[], bool] | None = None,
    ) -> None:
        self.inputs = windows.features - _outputs(windows)
        held = self._masked(validation[:]), validation.y
        seen = self._masked(windows[:])
        self.model = model.fit(seen, windows.y, validation=held, stop=stop)

    def update(self, windows: WindowSet) -> Self:
        """Condition the model inside on more windows, where it can be."""
        if isinstance(self.model, SequenceGP):
            self.model.update(self._masked(windows[:]), windows.y)
        return self

    @property
    def dof_(self) -> Array:
        """Of the model inside."""
        return self.model.dof_

    def predict(self, X: Array, return_std: bool = False) -> Any:
        """As the model inside, on windows with past targets hidden."""
        return self.model.predict(self._masked(X), return_std=return_std)

    def _masked(self, X: Array) -> Array:
        X = X.copy()
        X[:, :, self.inputs :] = 0.0
        return X


def fit_multistep(
    model: Model,
    windows: WindowSet,
    validation: WindowSet,
    *,
    steps: int = 100,
    rounds: int = 2,
    seed: int = 0,
    stop: Callable[[], bool] | None = None,
) -> Multistep:
    """Fit ``model`` for free simulation in several ways; keep what simulates best.

    - ``one-step``: on true windows, as for one step ahead.
    - ``round k``: on true windows and on windows of free runs. In each round the last model runs
      freely from every training window, and from every run the window at a random depth of up to
      ``steps`` is added, with its own predictions for past targets in it and the true target beside
      it. A model fitted to these has met its own errors and learnt not to build on them.
    - ``inputs-only``: on windows with past targets hidden, where there are inputs.

    Models are compared by the RMSE of one free run over ``validation``. ``stop`` is asked now and
    then whether to end early: what is in training ends with its best state, no more is begun.

    References:
        A Reduction of Imitation Learning and Structured Prediction to No-Regret Online Learning,
        Ross, Gordon and Bagnell 2011, arXiv:1011.0686 (DAgger).
    """
    rng = np.random.default_rng(seed)
    last = clone(model).fit(windows, validation=validation, stop=stop)
    models: dict[str, Any] = {"one-step": last}
    stopped = stop is not None and stop()
    if windows.features > _outputs(windows) and not stopped:
        models["inputs-only"] = InputsOnly(clone(model), windows, validation, stop)
    X, y = windows[:], windows.y
    X_val, y_val = validation[:], validation.y
    for k in range(1, rounds + 1):
        if stop is not None and stop():
            break
        met, met_targets = _met_windows(last, windows, steps, rng)
        X, y = np.concatenate([X, met]), np.concatenate([y, met_targets])
        # The best epoch, too, is chosen on windows of both kinds.
        met, met_targets = _met_windows(last, validation, steps, rng)
        X_val, y_val = np.concatenate([X_val, met]), np.concatenate([y_val, met_targets])
        last = models[f"round {k}"] = clone(model).fit(X, y, validation=(X_val, y_val), stop=stop)
    scores = {name: _score(each, validation) for name, each in models.items()}
    return Multistep(models[min(scores, key=scores.__getitem__)], scores)


def _met_windows(
    model: Any, windows: WindowSet, steps: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """One window of each free run, at a random depth ≥ 1, and its true target."""
    depth = min(steps, len(windows) // 2)
    inputs, history, targets = starts_of(windows, depth + 1)
    chosen = rng.integers(1, depth + 1, len(inputs))
    X = np.empty((len(inputs), *windows.shape[1:]))
    for t, (seen, _, _, _) in enumerate(free_run(model, inputs, history, draw=None)):
        X[chosen == t] = seen[chosen == t]
    y = targets[np.arange(len(inputs)), chosen]
    return X, y.reshape(len(y), *windows.y.shape[1:])


def _score(model: Any, validation: WindowSet) -> float:
    inputs, history, targets = starts_of(validation, len(validation))
    run = simulate(model, inputs, history, feedback="mean")
    return float(np.sqrt(np.mean((run.mean - targets) ** 2)))


def _outputs(windows: WindowSet) -> int:
    return 1 if windows.y.ndim == 1 else int(windows.y.shape[1])
