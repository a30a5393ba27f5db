"""What to train: the options of an estimator, resolved, and the untrained parts they describe."""

from __future__ import annotations

import copy
from dataclasses import dataclass

from torch import nn

from seqgp.encoders import Encoder, Head, Network, ScaledLinear
from seqgp.gp import GP
from seqgp.inference import EXACT_ROWS
from seqgp.training import Plain, Training

__all__ = ["Blueprint"]


@dataclass(frozen=True)
class Blueprint:
    """The options of a model, which an estimator checks and resolves."""

    encoder: Encoder
    gp: GP | None
    """Whose options the GP of each training has; None for a plain network."""
    readout: bool
    mean: str
    training: Training
    members: int
    calibrate: bool

    def network(self, encoder: nn.Module, width: int, outputs: int) -> Network:
        """An untrained network.

        Args:
            encoder: windows to features ``(n, width)``.
            width: of the features.
            outputs: columns of the targets.
        """
        head = None if self.gp is None else Head(width, self.gp.latent_dim)
        readout = None
        if self.readout or self.gp is None:
            readout = ScaledLinear(width, outputs)
            if self.gp is not None:  # one that has not been trained says nothing
                nn.init.zeros_(readout.weight)
                nn.init.zeros_(readout.bias)
        return Network(encoder, head, readout, outputs)

    def layer(self, outputs: int, inference: str, grid_size: int | None = None) -> GP | Plain:
        """An untrained layer on the network.

        Args:
            outputs: columns of the targets.
            inference: name of the inference, other than ``"auto"``.
            grid_size: points per latent dimension, where they are not the options' own.
        """
        if self.gp is None:
            return Plain(outputs)
        return self.gp.with_options(
            kernel=copy.deepcopy(self.gp.options["kernel"]),
            outputs=outputs,
            inference=inference,
            grid_size=self.gp.grid_size if grid_size is None else grid_size,
        )

    def inference(self, rows: int) -> str:
        """The inference that ``"auto"`` comes to for so many rows."""
        name = "exact" if self.gp is None else self.gp.inference
        if name == "auto":
            return "exact" if rows <= EXACT_ROWS else "grid"
        return name
