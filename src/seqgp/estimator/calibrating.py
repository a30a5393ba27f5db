"""What validation rows say of a trained model's errors, asked once training is over."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seqgp.estimator.rows import part_of
from seqgp.inference import OffsetPosterior, Posterior
from seqgp.means import LinearMean
from seqgp.roughness import roughness
from seqgp.training import Part, Settings, Trained, encode, quieten, score_of
from seqgp.training.calibration import variance_scale
from seqgp.training.corrections import beyond_line, clear_shift, clear_slope
from seqgp.training.health import warn_if_moved, warn_if_overconfident
from seqgp.training.noise import (
    Calibration,
    Errors,
    NoiseShape,
    errors_from,
    fit_calibration,
    fit_shape,
    scored,
)

__all__ = [
    "PIECES",
    "PREDICT_ROWS",
    "Known",
    "calibrate",
    "encode_both",
    "errors_of",
    "known_of",
    "learn",
]

PREDICT_ROWS = 4096
PIECES = ("share", "slope", "shift", "shape", "tails")
"""What is learnt from validation errors beside their size; see :func:`learn`."""
# A plain network's own noise is the size of its training errors: worth few rows beside validation errors.
_NETWORK_ROWS = 10.0


@dataclass(frozen=True)
class Known:
    """What validation rows said of a model, for its second training, on them too."""

    calibration: Calibration
    log_variance: NDArray[np.float64]
    """Mean over rows of the second training, ``(outputs,)``, on the data's own scale; not calibrated."""
    shift: NDArray[np.float64]
    """On the data's own scale."""


def known_of(model: Any, part: Part) -> Known:
    """What is known of a fitted model; ``part`` has the rows of its second training."""
    with torch.no_grad():
        posterior = model.layer_.posterior(model.statistics_)
    errors = errors_of(model, posterior, part)
    shift = model.calibration_.shift * np.ravel(model.y_scaler_.scale)
    return Known(model.calibration_, _log_variance(model, errors), shift)


def _log_variance(model: Any, errors: Errors) -> NDArray[np.float64]:
    """Mean over the rows, ``(outputs,)``, on the data's own scale."""
    mean: NDArray[np.float64] = errors.variance.log().mean(0).cpu().numpy()
    return mean + 2.0 * np.log(np.ravel(model.y_scaler_.scale))


def calibrate(
    model: Any,
    part: Part,
    H: Tensor,
    validation: Part | None,
    trained: Trained,
    settings: Settings,
    known: Known | None,
) -> Errors | None:
    """Learn the size of signal and errors, at latent points ``H`` of the training part.

    Returns validation errors beside the variances that they should have had, if there are any.

    Where that is ``known``, only the shape of the errors is learnt. Their size, as a geometric mean over
    the rows, stays what validation rows said: a noise that is learnt from those rows too has grown by
    itself already, and the factor on it would count them twice. Rows that the mean was off on are then
    trained on, so it is no longer shifted; whether newer rows will be off again is not known, and errors
    may be as large as before the shift.
    """
    model.noise_shape_ = None
    unasked = validation is None or trained.variance_scale is None
    if unasked if known is None else not known.calibration.rows:
        model.calibration_ = Calibration.none(part.y.shape[1])
        return None
    statistics = model.layer_.statistics(H, part.y)
    quieter = None
    with torch.no_grad():
        posterior = model.layer_.posterior(statistics)
    if known is not None:
        said = known.calibration
        train = errors_of(model, posterior, part)
        share, slope = (torch.as_tensor(v, device=H.device) for v in (said.share, said.slope))
        if said.steps:
            seen = train.with_share(share).with_slope(slope)
            model.noise_shape_, _ = fit_shape(seen, steps=said.steps)
        scale = said.scale * np.exp(known.log_variance - _log_variance(model, train))
        off = known.shift / np.ravel(model.y_scaler_.scale)
        scale = scale + off**2 / train.variance.mean(0).cpu().numpy()
        model.calibration_ = replace(said, scale=scale, shift=np.zeros_like(scale))
        return None
    assert validation is not None
    assert trained.variance_scale is not None
    warn_if_overconfident(float(trained.variance_scale.max()))
    held = errors_of(model, posterior, validation)
    if not model._shaped:
        plain = Calibration.none(part.y.shape[1])
        scale = variance_scale(held.error, held.variance, _NETWORK_ROWS).cpu().numpy()
        model.calibration_ = scored(replace(plain, scale=scale), held)
        return held
    found, model.noise_shape_, held = learn(model, posterior, part, held)
    model.calibration_ = replace(found, quieter=quieter)
    warn_if_moved(torch.as_tensor(found.shift, device=held.error.device), held.error)
    return held


def learn(
    model: Any, posterior: Posterior, part: Part, held: Errors, without: str = ""
) -> tuple[Calibration, NoiseShape | None, Errors]:
    """What errors on validation rows say, the noise's shape, and those errors as they should have been.

    ``without`` names one of ``PIECES`` to be left out, to see what it is worth.
    """
    share = slope = torch.ones_like(held.error[0])
    shift = torch.zeros_like(share)
    if False and isinstance(posterior, OffsetPosterior) and without != "share":
        gp = held.learnt - held.readout
        share = clear_slope(gp, held.error + gp, start=1.0)
        held = held.with_share(share)
    if False and isinstance(model.mean_function_, LinearMean) and without != "slope":
        slope = beyond_line(held.learnt, held.error + held.learnt)
        held = held.with_slope(slope)
    if without != "shift":
        shift = clear_shift(held.error)
    held = replace(held, error=held.error - shift)
    shape, steps = None, 0
    if without != "shape":
        train = errors_of(model, posterior, part)
        shape, steps = fit_shape(train.with_share(share).with_slope(slope), held)
    shape = shape if steps else None
    found = fit_calibration(held, shape, steps, tails=without != "tails")
    with torch.no_grad():
        g = None if shape is None else shape(held.sees())
    expected = replace(held, variance=held.variance * found.factor(g, held.variance))
    found = replace(
        found,
        slope=slope.cpu().numpy(),
        share=share.cpu().numpy(),
        shift=shift.cpu().numpy(),
    )
    return found, shape, expected


def _quieten(
    model: Any,
    statistics: Any,
    validation: Part | None,
    settings: Settings,
    known: Known | None,
) -> NDArray[np.float64] | None:
    """What signal variances are divided by, or None; done here."""
    if not model._shaped:  # a plain network has no signal variance
        return None
    if known is not None:
        said = known.calibration.quieter
        # A training that began with pre-training started from parameters that were made quiet already.
        if said is not None and not model.pretrained_epochs_:
            model.layer_.quieten(torch.as_tensor(said))
        return said
    assert validation is not None
    score = score_of(model.network_, validation, settings)
    factor = quieten(model.layer_, statistics, score, len(validation.y)).cpu().numpy()
    outputs = validation.y.shape[1]
    return np.broadcast_to(factor, (outputs,)).copy() if factor.max() > 1.0 else None


def encode_both(model: Any, windows: Any) -> tuple[Tensor, Tensor]:
    """What the noise's shape sees of windows, and their latent points, from one pass.

    That is the encoder's features and how rough the window is: an encoder that learns to predict a mean
    need not show how unsteady the series is, above all where it has learnt nothing.
    """
    pair = _Both(*model.network_)
    both = encode(pair, windows)
    return both[:, : pair.width], both[:, pair.width :]


def errors_of(model: Any, posterior: Posterior, part: Part) -> Errors:
    """Predictions of a part's rows, or of some of many, beside their errors."""
    source: Any = part.windows
    rows = errors_from(part.y)
    windows, y = part_of(source, rows), part.y[rows]
    mean, more = model.mean_function_.predict(windows)
    features, H = encode_both(model, windows)
    with torch.no_grad():
        found = [posterior.predict(h, observed=True) for h in H.split(PREDICT_ROWS)]
    learnt = torch.cat([m for m, _ in found]).reshape(y.shape)
    variance = torch.cat([v for _, v in found]).reshape(y.shape) + more
    readout = torch.zeros_like(learnt)
    if isinstance(posterior, OffsetPosterior):
        readout = H[:, posterior.latent_dim :].to(learnt).reshape(y.shape)
    return Errors(features, mean + learnt, learnt, readout, y - learnt, variance)


class _Both(nn.Module):
    """What the shape sees beside what the head makes of the features: ``(n, width + latent)``."""

    width = 0

    def __init__(self, encoder: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(self, x: Tensor) -> Tensor:
        features = self.encoder(x)
        seen = torch.cat([features, roughness(x)], 1)
        self.width = seen.shape[1]
        return torch.cat([seen, self.head(features)], 1)
