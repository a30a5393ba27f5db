"""Pre-training: the encoder as a plain network first, then a head that keeps what it learned."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from seqgp.inference.readout import Readout
from seqgp.training.checkpoint import Checkpoint
from seqgp.training.loop import train
from seqgp.training.parts import Ends, Part, Settings, Trained, encode

__all__ = ["latent_directions", "pretrain"]


def pretrain(
    encoder: nn.Module,
    readout: nn.Linear,
    part: Part,
    settings: Settings,
    *,
    epochs: int,
    validation: Part | None,
    generator: torch.Generator | None,
    lr: float | None = None,
    checkpoint: Checkpoint | None = None,
    until: Ends | None = None,
) -> Trained:
    """Train ``encoder`` and a linear ``readout`` on squared errors, in place.

    ``lr`` takes the place of that in ``settings``; with ``until`` it ends where that says.
    """
    plain = replace(
        settings,
        algorithm="delayed",
        surrogate="posterior",
        refresh="epoch",
        epochs=epochs,
        lr=settings.lr if lr is None else lr,
        select="rmse",  # a plain network's density says more about its residuals' size than its fit
    )
    network = nn.Sequential(encoder, readout)
    return train(
        network,
        Readout(),
        part,
        plain,
        validation=validation,
        generator=generator,
        checkpoint=checkpoint,
        until=None if until is None else replace(until, epochs=until.pretrained),
    )


def latent_directions(encoder: nn.Module, readout: nn.Linear, part: Part, count: int) -> Tensor:
    """``(count, width)`` directions in feature space for the head to start from.

    First the directions in which the trained readout predicts, then the leading principal
    components of what is left of the features: the GP starts from the network's own prediction
    and has the features' main variation beside it.
    """
    features = encode(encoder, part.windows)
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
