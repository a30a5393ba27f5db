"""Looks at a trained model and says in one sentence what is suspicious about it."""

from __future__ import annotations

import warnings

from torch import Tensor

from seqgp.exceptions import TrainingWarning

__all__ = ["warn_if_moved", "warn_if_overconfident", "warn_if_suspicious"]

_OVERCONFIDENT = 4.0  # factor on the variance: deviations half of what they should be
_MOVED = 0.5  # shift, in deviations of what is left: a fifth of the squared error
_COLLAPSED = 0.05  # spread over lengthscale below which the GP is a constant on its own data


def warn_if_suspicious(
    H: Tensor, lengthscale: Tensor | None, noise: Tensor, floor: float, diverged: str | None
) -> None:
    """Warn of a divergence, of collapsed latent points ``H`` ``(n, d)``, and of noise at its floor."""
    if diverged is not None:
        _warn(
            f"training diverged ({diverged}). The best state before that is kept. "
            "Lower lr, or refresh the posterior more often"
        )
    spread = H.std(0, correction=0)  # (d,)
    ratio = spread if lengthscale is None else (spread / lengthscale).amax(0)
    if len(H) > 1 and float(ratio.max()) < _COLLAPSED:
        _warn(
            f"the latent points have collapsed: their spread is {float(ratio.max()):.3g} lengthscales, "
            "so the GP is close to a constant and predicts little beyond its mean function. The "
            "inputs may carry no more information than that; otherwise lower lr, use a smaller "
            "dropout, or pre-train the encoder"
        )
    if float(noise.min()) < 2.0 * floor:
        _warn(
            f"the noise σ² sits at its floor of {floor:g} (standardised targets): the model "
            "interpolates its training data and its error bars will be too narrow. Use fewer "
            "epochs, dropout, or a smaller encoder"
        )


def warn_if_overconfident(scale: float) -> None:
    """Warn where validation errors needed a large factor ``scale`` on the predicted variance."""
    if scale > _OVERCONFIDENT:
        _warn(
            f"errors on validation rows are {scale**0.5:.1f} times as large as the model itself says. "
            "Its intervals have been widened by that factor, but it has learnt its training rows by "
            "heart, or the validation rows are of another kind: try dropout, weight_decay, fewer "
            "units or epochs, or more rows"
        )


def warn_if_moved(shift: Tensor, error: Tensor) -> None:
    """Warn where the level has moved since training by much of what the errors ``(n, outputs)`` are."""
    size = float((shift.abs() / error.std(0, correction=0).clamp_min(1e-12)).max())
    if size > _MOVED:
        _warn(
            f"errors on validation rows lie {size:.1f} deviations to one side: the level has moved since "
            "training. Predictions are shifted by that, but intervals hold too little if it moves on: "
            "train on newer rows, add an input that explains it, or let intervals follow the truths "
            "(adaptive_quantiles, seqgp evaluate --adaptive)"
        )


def _warn(text: str) -> None:
    warnings.warn(text + ".", TrainingWarning, stacklevel=7)  # the line that called fit
