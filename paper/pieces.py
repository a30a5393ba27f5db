"""A fitted model with one piece of its calibration left out, for the ablation.

The one module of ``paper/`` that uses private parts of :mod:`seqgp`.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import torch
from seqgp.estimator.calibrating import PIECES, errors_of, learn
from seqgp.estimator.mixing import mixture_of
from seqgp.estimator.rows import windows_on
from seqgp.estimator.sequence_gp import SequenceGP
from seqgp.training.noise import Calibration

from seqgp.data import WindowSet
from seqgp.training import Part

__all__ = ["ALL", "WITHOUT", "without"]

ALL = "all"
WITHOUT = ("mixing", "quieter", *PIECES, ALL)
"""What can be left out: the averaging of trainings, the shrinkage of signal variances, what is fitted to
validation errors beside their size, or all of it and their size too."""


def without(model: SequenceGP, piece: str, train: WindowSet, validation: WindowSet) -> SequenceGP:
    """A copy of a model, as ``fit`` on those rows left it, with a piece of its calibration left out.

    The epoch is still the one with the best calibrated density. The other pieces are fitted again, to the
    same validation rows.

    Args:
        model: as ``fit`` left it.
        piece: one of ``WITHOUT``; ``""`` leaves nothing out.
        train: the windows it was trained on.
        validation: the windows it was calibrated on.
    """
    if piece and piece not in WITHOUT:
        raise ValueError(f"piece={piece!r} is not known: use one of {', '.join(WITHOUT)}")
    members = model._all()[: 1 if piece in ("mixing", ALL) else None]
    parts = [_part(model, rows) for rows in (train, validation)]
    twins, found = zip(*(_without(one, piece, *parts) for one in members), strict=True)
    first: SequenceGP = twins[0]
    first.others_ = twins[1:]
    first.mixture_ = mixture_of(found) if len(twins) > 1 else None
    return first


def _part(model: SequenceGP, rows: WindowSet) -> Part:
    device = model.posterior_.noise.device
    z = torch.as_tensor(model.y_scaler_.transform(rows.y), device=device)
    return model._part(windows_on(device, rows, model.x_scaler_), z.reshape(len(z), -1))


def _without(one: SequenceGP, piece: str, train: Part, validation: Part) -> tuple[SequenceGP, Any]:
    """One training, and its validation errors with their calibrated variances."""
    twin = copy.copy(one)
    twin.layer_ = copy.deepcopy(one.layer_)
    quieter = one.calibration_.quieter
    if piece in ("quieter", ALL) and quieter is not None:
        twin.gp_.quieten(torch.as_tensor(1.0 / quieter))
        quieter = None
    with torch.no_grad():
        posterior = twin.layer_.posterior(twin.statistics_)
    held = errors_of(twin, posterior, validation)
    if piece == ALL:
        twin.calibration_, twin.noise_shape_ = Calibration.none(held.error.shape[1]), None
    else:
        said, twin.noise_shape_, held = learn(twin, posterior, train, held, piece)
        twin.calibration_ = replace(said, quieter=quieter)
    twin._condition()
    return twin, held
