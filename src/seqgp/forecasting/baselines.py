"""What a forecast is compared with, and what carries inputs forward: lines, and the newest value."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from seqgp.data import Standardizer, WindowSet
from seqgp.forecasting.state import Linear
from seqgp.means import LinearMean, fit_mean

__all__ = ["fit_linear", "newest_known", "persistence_errors"]

Array = NDArray[np.float64]


def fit_linear(windows: WindowSet, y: Array) -> Linear:
    """A Bayesian ridge from windows ``(n, lag, p)`` to ``y`` ``(n, outputs)``, its weights kept only.

    The windows are streamed, so there may be a million. The uncertainty of the weights is left
    out: beside the errors around the line it is small wherever rows outnumber weights.
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


def newest_known(targets: Array, horizon: int) -> Array:
    """For each row of ``targets`` ``(N, outputs)`` the newest known value ``horizon`` rows before it."""
    row = np.arange(len(targets))[:, None]
    newest = np.maximum.accumulate(np.where(np.isfinite(targets), row, -1))
    values = np.where(newest >= 0, np.take_along_axis(targets, np.maximum(newest, 0), 0), np.nan)
    late = np.full_like(values, np.nan)
    late[horizon:] = values[: max(len(values) - horizon, 0)]
    return late


def persistence_errors(targets: Array, horizon: int) -> Array:
    """Deviation ``(outputs,)`` of targets ``(N, outputs)`` from their newest known values."""
    spread = np.nanstd(targets - newest_known(targets, horizon), axis=0)
    # A series whose steps are all alike has no spread; a density needs some.
    floor = 1e-6 * np.nanstd(targets, axis=0)
    errors: Array = np.maximum(spread, np.maximum(floor, np.finfo(float).tiny))
    return errors
