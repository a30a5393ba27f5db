"""From windows and targets to a fitted model: mean function, trainings, ensemble, calibration."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqgp.blueprint import Blueprint
from seqgp.calibration import Calibration, Labelled
from seqgp.data import Standardizer, TensorWindows, WindowSet
from seqgp.encoders import Network, ScaledLinear, Windows, encode, width_of
from seqgp.fitted import Fitted, Inputs, Member, Record, standardised
from seqgp.gp import GP
from seqgp.kernels import lengthscale
from seqgp.likelihoods import NOISE_FLOOR
from seqgp.means import MeanFunction, fit_mean
from seqgp.training import (
    Checkpoint,
    Ends,
    EpochRecord,
    Layer,
    Part,
    Trained,
    latent_directions,
    pretrain,
    progress_bar,
    train,
    variance_scale,
)
from seqgp.training.warn import warn_if_moved, warn_if_overconfident, warn_if_suspicious

__all__ = ["Rows", "Watch", "fit_model", "refit_model"]

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


@dataclass(frozen=True)
class Watch:
    """Who follows a fit, and may end or resume it."""

    stop: Callable[[], bool] | None = None
    checkpoint: Checkpoint | None = None
    progress: bool = False


@dataclass(frozen=True)
class _Trial:
    """A finished training."""

    network: Network
    layer: Layer
    trained: Trained
    seed: int
    pretrained_epochs: int

    def member(self, x: Windows, y: Tensor) -> Member:
        """Conditioned on rows ``x`` with targets ``y`` less the mean function."""
        history = pd.DataFrame([asdict(record) for record in self.trained.history])
        record = Record(history, self.trained.best_epoch, self.pretrained_epochs, self.seed)
        encoded = encode(self.network, x)
        return Member.conditioned(self.network, self.layer, encoded, y, record)


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

    trials: list[_Trial] = []
    stopped = False
    settings = blueprint.training
    with progress_bar(blueprint.members * settings.epochs, watch.progress) as on_epoch:
        for k in range(blueprint.members):
            stopped = stopped or (bool(trials) and watch.stop is not None and watch.stop())
            if stopped:
                break
            begins = (seed + k) % 2**63
            trial = _train(blueprint, part, chosen_on, len(z), begins, watch, on_epoch)
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
                _train(blueprint, part, None, len(z), seed, Watch(), on_epoch, again, member)
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


def _train(
    blueprint: Blueprint,
    part: Part,
    validation: Part | None,
    rows: int,
    seed: int,
    watch: Watch,
    on_epoch: Callable[[EpochRecord], None] | None,
    until: Ends | None = None,
    before: Member | None = None,
) -> _Trial:
    """Build a network and a layer, and train them.

    Args:
        blueprint: what to train.
        part: training rows.
        validation: rows on which epochs are compared.
        rows: that the model will be conditioned on, by which ``inference="auto"`` is decided.
        seed: of everything random.
        watch: who follows it.
        on_epoch: called with the record of every epoch.
        until: where each stage ends, for a second training.
        before: the first training then.
    """
    settings, device, outputs = blueprint.training, part.y.device, part.y.shape[1]
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    sample = part.windows[slice(0, 2)]
    lag, features = sample.shape[1:]
    encoder = blueprint.encoder.build(features, lag).to(device)
    width = width_of(encoder, sample)
    pretrained: Trained | None = None
    warm: ScaledLinear | None = None
    if settings.pretrain_epochs and blueprint.gp is not None:
        # First of all, so that a plain network of the same seed and options is this one.
        warm = ScaledLinear(width, outputs).to(device)
        warm.measure(part.y)
        pretrained = pretrain(
            encoder,
            warm,
            part,
            settings,
            validation=validation,
            generator=generator,
            checkpoint=watch.checkpoint,
            until=until,
        )
    network = blueprint.network(encoder, width, outputs).to(device)
    layer = blueprint.layer(outputs, blueprint.inference(rows)).to(device)
    if network.readout is not None:
        network.readout.measure(part.y)
    if network.head is not None:
        seen = _features(network, part.windows)
        if warm is not None:
            network.head.point(latent_directions(seen, warm, network.head.linear.out_features))
            if network.readout is not None:
                network.readout.load_state_dict(warm.state_dict())
        network.head.centre(seen.float())
    if isinstance(layer, GP):
        network.eval()
        layer.initialise(part.y - encode(network, part.windows).offset)
        if pretrained is not None and before is not None:
            layer.load_state_dict(before.layer.state_dict())
    trained = train(
        network,
        layer,
        part,
        settings,
        validation=validation,
        calibrate=blueprint.calibrate,
        generator=generator,
        on_epoch=on_epoch,
        stop=watch.stop,
        checkpoint=watch.checkpoint,
        pretrained=pretrained is not None,
        until=until,
    )
    pretrained_epochs = 0 if pretrained is None else pretrained.best_epoch
    return _Trial(network.eval(), layer, trained, seed, pretrained_epochs)


def _ensemble(best: _Trial, trials: Sequence[_Trial], select: str) -> list[_Trial]:
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


def _inspect(best: _Trial, x: Inputs) -> None:
    if isinstance(best.layer, GP):
        warn_if_suspicious(
            encode(best.network, x).latent,
            lengthscale(best.layer.kernel),
            best.layer.noise.detach(),
            NOISE_FLOOR,
            best.trained.diverged,
        )


def _features(network: Network, windows: Any) -> Tensor:
    """Of the encoder alone, ``(n, width)``, float64."""
    training = network.training
    network.eval()
    found = encode(network, windows, features=True).features
    network.train(training)
    assert found is not None  # asked for
    return found


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
