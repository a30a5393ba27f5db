"""Features ``(n, width)`` of an encoder with the window itself beside them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seqgp.encoders.common import check_rates

__all__ = ["Skip"]


class Skip(nn.Module):
    """``(n, T, p) → (n, width + T p)``: the encoder's features, then the flattened window.

    What follows can then use a plain linear filter of the window, which a recurrent network finds
    hard to imitate over many steps, and leave to the network what a filter cannot do. Dropout on
    the window shrinks that filter as a ridge penalty would.
    """

    def __init__(self, encoder: nn.Module, dropout: float = 0.0) -> None:
        super().__init__()
        check_rates(dropout=dropout)
        self.encoder = encoder
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, T, p) → (n, width + T p)``."""
        return torch.cat([self.encoder(x), self.dropout(x.flatten(1))], dim=1)
