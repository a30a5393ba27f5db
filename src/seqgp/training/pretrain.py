"""Pre-training: the encoder as a plain network first, then a head that keeps what it learned."""

from __future__ import annotations

from dataclasses import replace

import torch
from sklearn.base import clone
from torch import Tensor, nn

from seqgp.encoders import Network, ScaledLinear
from seqgp.training.checkpoint import Checkpoint
from seqgp.training.loop import train
from seqgp.training.parts import Ends, Part, Trained
from seqgp.training.plain import Plain
from seqgp.training.settings import Training

__all__ = ["latent_directions", "pretrain"]


def pretrain(
    encoder: nn.Module,
    readout: ScaledLinear,
    part: Part,
    settings: Training,
    *,
    validation: Part | None,
    generator: torch.Generator | None,
    checkpoint: Checkpoint | None = None,
    until: Ends | None = None,
) -> Trained:
    """Train an encoder and a linear readout on squared errors, in place.

    Args:
        encoder: windows to features ``(n, width)``.
        readout: features to predictions ``(n, outputs)``.
        part: training rows.
        settings: of the training that comes after; its ``pretrain_epochs`` and ``pretrain_lr`` are used.
        validation: rows on which epochs are compared.
        generator: of the order of rows.
        checkpoint: of the fit.
        until: where it ends, if that is known.
    """
    plain = clone(settings).set_params(
        algorithm="delayed",
        surrogate="posterior",
        refresh="epoch",
        epochs=settings.pretrain_epochs,
        lr=settings.lr if settings.pretrain_lr is None else settings.pretrain_lr,
        select="rmse",  # a plain network's density says more about its residuals' size than its fit
    )
    outputs = part.y.shape[1]
    return train(
        Network(encoder, None, readout, outputs),
        Plain(outputs).to(part.y.device),
        part,
        plain,
        validation=validation,
        generator=generator,
        checkpoint=checkpoint,
        until=None if until is None else replace(until, epochs=until.pretrained),
    )


def latent_directions(features: Tensor, readout: nn.Linear, count: int) -> Tensor:
    """``(count, width)`` directions in feature space for the head to start from.

    First the directions in which the trained readout predicts, then the leading principal
    components of what is left of the features: the GP starts from the network's own prediction
    and has the features' main variation beside it.

    Args:
        features: of the training rows, ``(n, width)``, float64.
        readout: trained on them.
        count: of directions.
    """
    features = features - features.mean(0)
    weight = readout.weight.detach().double()  # (outputs, width)
    predictions = features @ weight.T
    mix = torch.linalg.svd(predictions, full_matrices=False).Vh[:count]
    chosen = mix @ weight
    seen = features @ chosen.T
    explained = torch.linalg.lstsq(seen, features).solution
    left = features - seen @ explained
    rest = torch.linalg.svd(left, full_matrices=False).Vh[: count - len(chosen)]
    # left @ v as a direction of the features themselves, so that it stays uncorrelated with `seen`
    return torch.cat([chosen, rest - rest @ explained.T @ chosen])
