"""A fitted model with one piece of its calibration left out, for the ablation."""

from __future__ import annotations

from dataclasses import replace

import torch

from seqgp import Calibration, Fitted, WindowSet

__all__ = ["ALL", "WITHOUT", "without"]

ALL = "all"
WITHOUT = ("mixing", "shift", "shape", "tails", ALL)
"""What can be left out: the ensemble, the correction of the level, the noise network, Student's tails,
or all of these and the factor on the variance too."""

_ROWS = 20_000  # of the training set, evenly spaced, as many as the estimator takes


def without(fitted: Fitted, piece: str, train: WindowSet, validation: WindowSet) -> Fitted:
    """A fitted model with a piece of its calibration left out.

    The other pieces are fitted again, on the same validation set. The epoch is still the one with the best
    calibrated density.

    Args:
        fitted: conditioned on its training set alone, as ``fit`` with a separate validation set leaves it.
        piece: one of ``WITHOUT``; ``""`` leaves nothing out.
        train: the windows it was trained on.
        validation: the windows it was calibrated on.
    """
    if piece and piece not in WITHOUT:
        raise ValueError(f"piece={piece!r} is not known: use one of {', '.join(WITHOUT)}")
    kept = fitted.members[:1] if piece in ("mixing", ALL) else fitted.members
    left = replace(fitted, members=kept)
    z = left.targets(validation.y)
    if piece == ALL:
        return replace(left, calibration=Calibration.none(z.shape[1]))
    labelled = None
    if piece != "shape":
        rows = torch.linspace(0, len(train) - 1, min(len(train), _ROWS)).round().long()
        some = train.subset(rows)
        predicted, seen = left.predicted(left.inputs(some))
        labelled = predicted, left.targets(some.y), seen
    held, features = left.predicted(left.inputs(validation))
    calibration = Calibration.fit(
        held, z, features, train=labelled, tails=piece != "tails", shift=piece != "shift"
    )
    return replace(left, calibration=calibration)
