"""What training says while it runs and when it ends: a progress bar, and warnings."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor

from seqgp.exceptions import TrainingWarning
from seqgp.training.parts import EpochRecord

__all__ = ["progress_bar", "warn_if_moved", "warn_if_overconfident", "warn_if_suspicious"]

_OVERCONFIDENT = 4.0  # factor on the variance: deviations half as large as they should be
_MOVED = 0.5  # bias over the standard deviation of the residuals: a fifth of the squared error
_COLLAPSED = 0.05  # spread over lengthscale below which the GP is a constant on its own data


@contextmanager
def progress_bar(epochs: int, show: bool) -> Iterator[Callable[[EpochRecord], None] | None]:
    """Gives a function to call after each epoch, or None where nobody is watching."""
    if not show:
        yield None
        return
    # Imported here: a library user who switched it off, or has no rich, should not pay for it.
    try:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )
    except ImportError:
        yield None
        return

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=epochs)

        def show_epoch(record: EpochRecord) -> None:
            text = f"NLML {record.nlml:.3f}"
            if record.val_rmse == record.val_rmse:  # NaN without a validation part
                text += f"  val RMSE {record.val_rmse:.3f}  val NLPD {record.val_nlpd:.3f}"
            bar.update(task, advance=1, description=text)

        yield show_epoch


def warn_if_suspicious(
    H: Tensor, lengthscale: Tensor | None, noise: Tensor, floor: float, diverged: str | None
) -> None:
    """Warn of a divergence, of collapsed latent points, and of noise at its floor.

    Args:
        H: latent points ``(n, d)``.
        lengthscale: of the kernel, ``(outputs or 1, d)``, if it has one.
        noise: variance ``(outputs,)``.
        floor: the least it can be.
        diverged: why training had to stop early, if it had to.
    """
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
    """Warn of a large factor ``scale`` on the predicted variance."""
    if scale > _OVERCONFIDENT:
        _warn(
            f"errors on the validation set are {scale**0.5:.1f} times as large as the model predicts: it "
            "overfits its training set, or the validation set is distributed differently. Intervals have "
            "been widened by that factor. Try dropout, weight_decay, fewer units or epochs, or more rows"
        )


def warn_if_moved(shift: Tensor, error: Tensor) -> None:
    """Warn of a distribution shift: a bias that is large beside the residuals.

    Args:
        shift: estimated bias ``(outputs,)``.
        error: validation residuals ``(n, outputs)``.
    """
    size = float((shift.abs() / error.std(0, correction=0).clamp_min(1e-12)).max())
    if size > _MOVED:
        _warn(
            f"distribution shift: the mean error on the validation set is {size:.1f} standard deviations, "
            "so the level has moved since training. Predictions are corrected by it, but intervals will "
            "cover too little if the level moves on: train on newer rows, add an input that explains it, "
            "or use intervals that adapt (adaptive_quantiles, seqgp evaluate --adaptive)"
        )


def _warn(text: str) -> None:
    """Warn at the line outside the package that called it."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals["__name__"].startswith("seqgp."):
        level, frame = level + 1, frame.f_back
    warnings.warn(text + ".", TrainingWarning, stacklevel=level)
