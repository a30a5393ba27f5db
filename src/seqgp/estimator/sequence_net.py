"""``SequenceNet``: the same encoders and the same training with a linear layer in the GP's place."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from seqgp.encoders import ScaledLinear
from seqgp.estimator.base import SequenceRegressor
from seqgp.inference import Readout
from seqgp.training import Checkpoint, Ends, Layer, Part, Settings

__all__ = ["SequenceNet"]


class SequenceNet(SequenceRegressor):
    """A plain recurrent network trained on squared errors: what a GP model must be better than.

    Its standard deviation is one number: that of its residuals on the rows it was fitted to, times a
    factor from validation rows (``calibrate``). The best epoch is chosen by validation RMSE.
    Options mean what they mean in :class:`seqgp.SequenceGP`.

    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.standard_normal((80, 6, 1)), rng.standard_normal(80)
    >>> SequenceNet(encoder="gru", hidden=4, epochs=1, random_state=0).fit(X, y).predict(X).shape
    (80,)
    """

    select = "rmse"

    def __init__(
        self,
        encoder: str | nn.Module = "lstm",
        hidden: int = 64,
        layers: int = 1,
        dropout: float = 0.0,
        input_dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        skip: bool = False,
        mean: str = "zero",
        epochs: int = 100,
        batch_size: int = 128,
        lr: float = 1e-3,
        schedule: str = "constant",
        grad_clip: float | None = 5.0,
        weight_decay: float = 0.0,
        validation_fraction: float = 0.1,
        patience: int | None = None,
        calibrate: bool = True,
        restarts: int = 1,
        lag: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        device: str | torch.device = "auto",
        progress: bool = True,
    ) -> None:
        self.encoder = encoder
        self.hidden = hidden
        self.layers = layers
        self.dropout = dropout
        self.input_dropout = input_dropout
        self.recurrent_dropout = recurrent_dropout
        self.skip = skip
        self.mean = mean
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.schedule = schedule
        self.grad_clip = grad_clip
        self.weight_decay = weight_decay
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.calibrate = calibrate
        self.restarts = restarts
        self.lag = lag
        self.random_state = random_state
        self.device = device
        self.progress = progress

    def _build(
        self,
        encoder: nn.Module,
        width: int,
        part: Part,
        validation: Part | None,
        settings: Settings,
        generator: torch.Generator,
        checkpoint: Checkpoint | None,
        until: Ends | None,
    ) -> tuple[nn.Sequential, Layer, int | None]:
        outputs = part.y.shape[1]
        readout = self._new_head(width, outputs).to(part.y.device)
        readout.measure(part.y)
        return nn.Sequential(encoder, readout), self._new_layer(outputs, "readout", None), None

    def _new_head(self, width: int, outputs: int) -> ScaledLinear:
        return ScaledLinear(width, outputs)

    def _new_layer(self, outputs: int, inference: str, grid_size: int | None) -> Readout:
        return Readout()
