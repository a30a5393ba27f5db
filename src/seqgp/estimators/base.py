"""What the estimators share: scikit-learn's manners around a :class:`seqgp.fitted.Fitted`."""

from __future__ import annotations

import copy
import os
from abc import abstractmethod
from collections.abc import Callable
from numbers import Real
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import nn

from seqgp.blueprint import Blueprint
from seqgp.data import WindowSet
from seqgp.encoders import Encoder, as_encoder
from seqgp.estimators.identity import identity
from seqgp.estimators.rows import as_pair, checked_targets, checked_windows
from seqgp.fitted import Fitted
from seqgp.fitting import fit_model, refit_model
from seqgp.means import MEANS
from seqgp.training import Checkpoint, Training
from seqgp.training.settings import is_integer
from seqgp.trial import Watch

__all__ = ["SequenceRegressor", "resolve_device"]

Array = NDArray[np.float64]

_LEAST_VALIDATION = 10  # fewer rows than this say nothing of the noise


class SequenceRegressor(RegressorMixin, BaseEstimator):
    """Windows ``(n, T, p)`` to a distribution of each target; the subclass says what is trained.

    Attributes:
        fitted_: the fitted model, :class:`seqgp.fitted.Fitted`; what ``seqgp.save`` writes.
        window_shape_: steps and features of a window, ``(T, p)``.
    """

    encoder: str | Encoder | nn.Module
    mean: str
    training: Training | None
    members: int
    calibrate: bool
    validation_fraction: float
    lag: int | None
    random_state: int | np.random.RandomState | None
    device: str | torch.device
    progress: bool

    fitted_: Fitted
    window_shape_: tuple[int, int]
    n_features_in_: int
    feature_names_in_: NDArray[np.object_]

    @abstractmethod
    def blueprint(self) -> Blueprint:
        """The options, checked and resolved.

        Raises:
            ValueError: one is out of its range.
        """

    def fit(
        self,
        X: ArrayLike | WindowSet,
        y: ArrayLike | None = None,
        validation: tuple[ArrayLike, ArrayLike] | WindowSet | None = None,
        stop: Callable[[], bool] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Train on windows and targets; a fit that fails leaves the estimator as it was.

        Args:
            X: windows ``(n, T, p)``, flattened ``(n, T p)`` with ``lag=T``, or a WindowSet.
            y: targets ``(n,)`` or ``(n, outputs)``; a WindowSet brings its own.
            validation: the validation set, ``(X, y)`` or a WindowSet, in place of the last
                ``validation_fraction`` of the rows; these never join the posterior.
            stop: asked now and then whether to end training early, with the best state so far.
            checkpoint: a file to which the state of training is written after every epoch,
                pre-training included. Where it exists, training goes on from it and ends with the
                numbers, bit for bit, of a fit that was never interrupted; options, data and versions must
                be those of that fit. It is removed when training has come to its end, since the model is
                what remains, and left where ``stop`` ended it early, to go on from.
        """
        blueprint = copy.deepcopy(self.blueprint())  # options set later are not those of this fit
        device = resolve_device(self.device)
        columns = type(self)()  # keeps scikit-learn's names of columns until the fit has succeeded
        windows = checked_windows(columns, X, self.lag, None)
        targets = checked_targets(X, y, len(windows))
        n, window = len(windows), (windows.shape[1], windows.shape[2])
        if n < 2:
            raise ValueError(
                f"X has {n} sample(s), expected at least 2: a single row says nothing about noise. "
                "Use a longer series or a shorter lag"
            )
        held = 0 if validation is not None else int(self.validation_fraction * n)
        held = held if held >= _LEAST_VALIDATION else 0
        given = None
        if validation is not None:
            X_held, y_held = as_pair(validation)
            held_windows = checked_windows(columns, X_held, self.lag, window)
            given = held_windows, checked_targets(X_held, y_held, len(held_windows))
            if given[1].shape[1:] != targets.shape[1:]:
                raise ValueError(
                    f"the validation targets have shape {given[1].shape}, expected the columns of y "
                    f"{targets.shape}: cut both from the same data"
                )
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        saved = None
        if checkpoint is not None:
            data = {"X": windows, "y": targets}
            if given is not None:
                data |= {"validation X": given[0], "validation y": given[1]}
            saved = Checkpoint(Path(checkpoint), identity(self, device, data), seed)
            seed = saved.seed
        # The global generator is put back afterwards: fitting a model changes nobody's random numbers.
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            fitted, stopped = fit_model(
                blueprint,
                (windows, targets),
                held,
                given,
                seed,
                device,
                Watch(stop, saved, self.progress),
            )
        self.fitted_, self.window_shape_ = fitted, window
        self.n_features_in_ = columns.n_features_in_
        if hasattr(columns, "feature_names_in_"):
            self.feature_names_in_ = columns.feature_names_in_
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        if saved is not None and not stopped:
            saved.remove()
        return self

    def refit(self, X: ArrayLike | WindowSet, y: ArrayLike | None = None) -> Self:
        """Train again with nothing held back, for as many epochs as were best in ``fit``.

        From the same initial weights; after pre-training the kernel's parameters are those that ``fit``
        ended with. Deviations stay as large as before on average over these rows, and a correction of the
        level is dropped, since the rows that it was estimated on are trained on now. Newer rows than those
        trained on are often worth the second training.

        Args:
            X: windows, those held back in ``fit`` among them.
            y: targets; a WindowSet brings its own.
        """
        windows, targets = self._more_rows(X, y)
        device = self.fitted_.device
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            self.fitted_ = refit_model(self.fitted_, (windows, targets), self.progress)
        return self

    def predict(
        self, X: ArrayLike | WindowSet, return_std: bool = False, observed: bool = True
    ) -> Array | tuple[Array, Array]:
        """Mean ``(n,)`` or ``(n, outputs)``, and with ``return_std`` the standard deviation.

        A new observation is Student's t about the mean with that deviation and ``dof_`` degrees of
        freedom, a Gaussian where these are infinite. For an interval that covers its share
        whatever the distribution see :meth:`interval`.

        Args:
            X: windows.
            return_std: whether to return the deviation too.
            observed: whether it is that of a new observation, or of the latent function, without noise.
        """
        windows = self._windows(X)
        found = self.fitted_.predict(windows, observed)
        return (found.mean, found.std) if return_std else found.mean

    def interval(self, X: ArrayLike | WindowSet, level: float = 0.95) -> tuple[Array, Array]:
        """Lower and upper ends, ``(n,)`` or ``(n, outputs)``, that hold new observations.

        With a probability of at least ``level``, if the new residual is exchangeable with those of the
        validation set (split conformal prediction). Under distribution shift it is not;
        :func:`seqgp.adaptive_quantiles` follows that.

        Args:
            X: windows.
            level: between 0 and 1.

        References:
            Algorithmic Learning in a Random World, Vovk, Gammerman and Shafer 2005.
        """
        if not 0.0 < level < 1.0:
            raise ValueError(f"level={level!r} must be between 0 and 1: 0.95 is 95%")
        windows = self._windows(X)
        found = self.fitted_.predict(windows)
        radius = self.fitted_.calibration.radius(level).reshape(found.mean.shape[1:])
        return found.mean - radius * found.std, found.mean + radius * found.std

    @property
    def dof_(self) -> Array:
        """Degrees of freedom of Student's t, one per output; infinite for a Gaussian."""
        return self.fitted_.calibration.dof

    @property
    def history_(self) -> pd.DataFrame:
        """One row per epoch of the best training; see :class:`seqgp.fitted.Record`."""
        return self.fitted_.members[0].record.history

    def set_params(self, **params: Any) -> Self:
        """Set options by name, nested ones as ``training__lr``, also where a shorthand stands now.

        Args:
            **params: options by name.
        """
        whole = {key: value for key, value in params.items() if "__" not in key}
        nested = {key: value for key, value in params.items() if "__" in key}
        super().set_params(**whole)
        for name in {key.partition("__")[0] for key in nested} & set(self._get_param_names()):
            setattr(self, name, self._resolved(name))
        super().set_params(**nested)
        return self

    def _resolved(self, name: str) -> Any:
        """An option as an object with options of its own, in place of a shorthand."""
        if name == "encoder":
            return as_encoder(self.encoder)
        if name == "training" and self.training is None:
            return Training()
        return getattr(self, name)

    def _checked_options(self) -> tuple[Encoder, Training]:
        training = Training() if self.training is None else self.training
        if not isinstance(training, Training):
            raise ValueError(
                f"training={training!r} is a {type(training).__name__}, expected a Training or None: "
                "write training=Training(epochs=50)"
            )
        training.check()
        if self.mean not in MEANS:
            raise ValueError(f"mean={self.mean!r} is not known: use one of {', '.join(MEANS)}")
        if not (is_integer(self.members) and self.members >= 1):
            raise ValueError(f"members={self.members!r} must be an integer of at least 1")
        fraction = self.validation_fraction
        if not (isinstance(fraction, Real) and 0.0 <= fraction < 1.0):
            raise ValueError(f"validation_fraction={fraction!r} must be in [0, 1)")
        if self.lag is not None and not (is_integer(self.lag) and self.lag >= 1):
            raise ValueError(f"lag={self.lag!r} must be a positive integer, or None")
        return as_encoder(self.encoder), training

    def _windows(self, X: Any) -> Array | WindowSet:
        check_is_fitted(self, "fitted_")
        return checked_windows(self, X, self.lag, self.window_shape_)

    def _more_rows(self, X: Any, y: Any) -> tuple[Array | WindowSet, Array]:
        """Checked windows and targets of the shapes in ``fit``."""
        windows = self._windows(X)
        return windows, checked_targets(X, y, len(windows), self.fitted_.y_scaler.shift.shape)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def resolve_device(device: str | torch.device) -> torch.device:
    """The torch device meant; ``"auto"`` is CUDA where there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"device={device!r} is not known: use auto, cpu or cuda") from error
    if found.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device={device!r} was asked for, but torch sees no CUDA: use 'cpu'")
    return found
