"""From windows and targets to a fitted model: mean function, trainings, ensemble, calibration."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqgp.blueprint import Blueprint
from seqgp.calibration import Calibration, Labelled
from seqgp.data import Standardizer, TensorWindows, WindowSet
from seqgp.encoders import encode
from seqgp.fitted import Fitted, Inputs, standardised
from seqgp.gp import GP
from seqgp.kernels import lengthscale
from seqgp.likelihoods import NOISE_FLOOR
from seqgp.means import MeanFunction, fit_mean
from seqgp.training import Ends, Part, progress_bar, variance_scale
from seqgp.training.messages import warn_if_moved, warn_if_overconfident, warn_if_suspicious
from seqgp.trial import Trial, Watch, train_one

__all__ = ["Rows", "fit_model", "refit_model"]

Array = NDArray[np.float64]
Rows = tuple[Array | WindowSet, Array]
"""Windows ``(n, T, p)`` and targets ``(n,)`` or ``(n, outputs)``."""

# Nats a row behind the best training at which another is left out of the ensemble: errors a third larger.
_NEAR = 0.3
_CALIBRATION_ROWS = (
    20_000  # of the training set, evenly spaced: more say nothing new of its residuals
)
_PLAIN_ROWS = (
    10.0  # weight of a plain network's own noise, which is the size of its training residuals
)


def fit_model(
    blueprint: Blueprint,
    rows: Rows,
    held: int,
    validation: Rows | None,
    seed: int,
    device: torch.device,
    watch: Watch,
) -> tuple[Fitted, bool]:
    """Train, calibrate and condition on all rows; and whether it was stopped before its end.

    Args:
        blueprint: what to train.
        rows: in order of time.
        held: how many rows, the last, are the validation set; 0 where ``validation`` is given.
        validation: a validation set of its own, which is never conditioned on.
        seed: of torch's generator for the first training; the others have those after it.
        device: where to train.
        watch: who follows it.
    """
    windows, targets = rows
    n = len(windows) - held
    x_scaler, y_scaler = _scalers(windows, targets, n)
    x = standardised(windows, x_scaler, device)
    z = _standardised_targets(targets, y_scaler, device)
    first = torch.arange(n, device=device)
    mean = fit_mean(blueprint.mean, _some(x, first), z[:n])
    whole = _part(mean, x, z)
    part = Part(_some(x, first), whole.y[:n])
    held_x: Inputs | None = None
    held_z = z[n:]
    chosen_on: Part | None = None
    if held:
        held_x = _some(x, torch.arange(n, n + held, device=device))
        assert whole.mean_variance is not None
        chosen_on = Part(held_x, whole.y[n:], whole.mean_variance[n:])
    elif validation is not None:
        held_x = standardised(validation[0], x_scaler, device)
        held_z = _standardised_targets(validation[1], y_scaler, device)
        chosen_on = _part(mean, held_x, held_z)

    trials: list[Trial] = []
    stopped = False
    settings = blueprint.training
    with progress_bar(blueprint.members * settings.epochs, watch.progress) as on_epoch:
        for k in range(blueprint.members):
            stopped = stopped or (bool(trials) and watch.stop is not None and watch.stop())
            if stopped:
                break
            begins = (seed + k) % 2**63
            trial = train_one(blueprint, part, chosen_on, len(z), begins, watch, on_epoch)
            trials.append(trial)
            stopped = trial.trained.stopped
    best = min(trials, key=lambda trial: trial.trained.best_score)
    calibrate = blueprint.calibrate and chosen_on is not None
    chosen = _ensemble(best, trials, settings.select) if calibrate and blueprint.gp else [best]

    outputs = z.shape[1]
    fitted = Fitted(
        blueprint=blueprint,
        members=tuple(trial.member(part.windows, part.y) for trial in chosen),
        mean=mean,
        calibration=Calibration.none(outputs),
        x_scaler=x_scaler,
        y_scaler=y_scaler,
        rows=len(z),
    )
    if calibrate and held_x is not None:
        if best.trained.variance_scale is not None:  # an epoch was finished
            warn_if_overconfident(float(best.trained.variance_scale.max()))
        calibration = _calibrated(fitted, blueprint, (part.windows, z[:n]), (held_x, held_z))
        fitted = replace(fitted, calibration=calibration)
    # Rows of the validation set lie about the level that the calibration adds.
    shift = torch.as_tensor(fitted.calibration.shift, device=device)
    y = torch.cat([part.y, whole.y[n:] - shift])
    members = tuple(trial.member(x, y) for trial in chosen)
    _inspect(best, x)
    return replace(fitted, members=members), stopped


def refit_model(fitted: Fitted, rows: Rows, progress: bool) -> Fitted:
    """Train every member again, from its first weights to its best epoch, with no validation set.

    Args:
        fitted: the first fit.
        rows: to train on, those of the validation set among them.
        progress: whether to show a progress bar.
    """
    windows, targets = rows
    blueprint, device = fitted.blueprint, fitted.device
    x_scaler, y_scaler = _scalers(windows, targets, len(windows))
    x = standardised(windows, x_scaler, device)
    z = _standardised_targets(targets, y_scaler, device)
    mean = fit_mean(blueprint.mean, x, z)
    part = _part(mean, x, z)
    trials = []
    epochs = sum(member.record.best_epoch for member in fitted.members)
    with progress_bar(epochs, progress) as on_epoch:
        for member in fitted.members:
            again = Ends(member.record.pretrained_epochs, member.record.best_epoch)
            seed = member.record.seed
            trials.append(
                train_one(blueprint, part, None, len(z), seed, Watch(), on_epoch, again, member)
            )
    new = Fitted(
        blueprint=blueprint,
        members=tuple(trial.member(x, part.y) for trial in trials),
        mean=mean,
        calibration=fitted.calibration,
        x_scaler=x_scaler,
        y_scaler=y_scaler,
        rows=len(z),
    )
    if not fitted.calibration.rows:
        return new
    some = _spread(len(z), device)
    chosen = windows.subset(some) if isinstance(windows, WindowSet) else windows[some.cpu().numpy()]
    unit = np.ravel(fitted.y_scaler.scale / y_scaler.scale)
    before, _ = fitted.predicted(fitted.inputs(chosen))
    factor = torch.as_tensor(unit**2, device=device)
    before = replace(before, variance=before.variance * factor)
    after, features = new.predicted(_some(x, some))
    known = replace(fitted.calibration, shift=fitted.calibration.shift * unit)
    return replace(new, calibration=known.carried(before, after, z[some], features))


def _ensemble(best: Trial, trials: Sequence[Trial], select: str) -> list[Trial]:
    """The best training, then those that are nearly as good on the validation set."""
    least = best.trained.best_score
    most = least * math.exp(_NEAR) if select == "rmse" else least + _NEAR
    others = [t for t in trials if t is not best and t.trained.best_score < most]
    return [best, *others]


def _calibrated(
    fitted: Fitted,
    blueprint: Blueprint,
    train: tuple[Any, Tensor],
    validation: tuple[Inputs, Tensor],
) -> Calibration:
    """The calibration of a model that is conditioned on the training set alone."""
    held, features = fitted.predicted(validation[0])
    z = validation[1]
    if blueprint.gp is None:
        scale = variance_scale(z - held.mean, held.variance, _PLAIN_ROWS)
        return Calibration.constant(held, z, scale)
    some = _spread(len(train[1]), z.device)
    predicted, seen = fitted.predicted(_some(train[0], some))
    labelled: Labelled = (predicted, train[1][some], seen)
    found = Calibration.fit(held, z, features, train=labelled)
    warn_if_moved(torch.as_tensor(found.shift, device=z.device), z - held.mean)
    return found


def _inspect(best: Trial, x: Inputs) -> None:
    if isinstance(best.layer, GP):
        warn_if_suspicious(
            encode(best.network, x).latent,
            lengthscale(best.layer.kernel),
            best.layer.noise.detach(),
            NOISE_FLOOR,
            best.trained.diverged,
        )


def _scalers(
    windows: Array | WindowSet, targets: Array, n: int
) -> tuple[Standardizer, Standardizer]:
    """Standardisation from the first ``n`` rows; a target that does not vary is refused."""
    if isinstance(windows, WindowSet):
        inputs = windows.subset(slice(0, n)).rows()
    else:
        inputs = windows[:n].reshape(-1, windows.shape[-1])
    constant = np.flatnonzero(np.ptp(targets[:n].reshape(n, -1), axis=0) == 0)
    if len(constant):
        value = targets.reshape(len(targets), -1)[0, constant[0]]
        raise ValueError(
            f"y is constant in the training part (column {constant[0]}, value {value:g}), expected "
            "a target that varies: check the column, or use more rows"
        )
    return Standardizer.fit(inputs), Standardizer.fit(targets[:n])


def _standardised_targets(targets: Array, scaler: Standardizer, device: torch.device) -> Tensor:
    z = torch.as_tensor(scaler.transform(targets), device=device)
    return z.reshape(len(z), -1)


def _part(mean: MeanFunction, x: Inputs, z: Tensor) -> Part:
    """Rows with the mean function subtracted, and its variance."""
    line = mean.predict(x)
    return Part(x, z - line.mean, line.variance)


def _some(x: Inputs, rows: Tensor) -> Inputs:
    """Some of the rows, without materialising what is a view."""
    return x.subset(rows) if isinstance(x, TensorWindows) else x[rows]


def _spread(n: int, device: torch.device) -> Tensor:
    """Evenly spaced rows of ``n``, or all."""
    count = min(n, _CALIBRATION_ROWS)
    return torch.linspace(0, n - 1, count, device=device).round().long()
