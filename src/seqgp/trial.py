"""One training: a network and a layer built from their options, trained, and left in their best state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from seqgp.blueprint import Blueprint
from seqgp.encoders import Network, ScaledLinear, Windows, encode, width_of
from seqgp.fitted import Member, Record
from seqgp.gp import GP
from seqgp.training import (
    Checkpoint,
    Ends,
    EpochRecord,
    Layer,
    Part,
    Trained,
    latent_directions,
    pretrain,
    train,
)

__all__ = ["Trial", "Watch", "train_one"]


@dataclass(frozen=True)
class Watch:
    """Who follows a fit, and may end or resume it."""

    stop: Callable[[], bool] | None = None
    checkpoint: Checkpoint | None = None
    progress: bool = False


@dataclass(frozen=True)
class Trial:
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


def train_one(
    blueprint: Blueprint,
    part: Part,
    validation: Part | None,
    rows: int,
    seed: int,
    watch: Watch,
    on_epoch: Callable[[EpochRecord], None] | None,
    until: Ends | None = None,
    before: Member | None = None,
) -> Trial:
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
    return Trial(network.eval(), layer, trained, seed, pretrained_epochs)


def _features(network: Network, windows: Any) -> Tensor:
    """Of the encoder alone, ``(n, width)``, float64."""
    training = network.training
    network.eval()
    found = encode(network, windows, features=True).features
    network.train(training)
    assert found is not None  # asked for
    return found
