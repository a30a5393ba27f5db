"""Features ``(n, width)`` of an encoder with the window itself beside them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["Skip"]


class Skip(nn.Module):
    """``(n, T, p) → (n, width + T p)``: the encoder's features, then the flattened window.

    What follows can then use a plain linear filter of the window, which a recurrent network finds
    hard to imitate over many steps, and leave to the network what a filter cannot do.
    """

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, x: Tensor) -> Tensor:
        """``(n, T, p) → (n, width + T p)``."""
        return torch.cat([self.encoder(x), x.flatten(1)], dim=1)
