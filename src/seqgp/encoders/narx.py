"""NARX: a multi-layer perceptron on the flattened window, ``(n, lag, p) → (n, width)``."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from torch import Tensor, nn

from seqgp.encoders.base import Encoder, Skip, register
from seqgp.encoders.common import check_rates, check_sizes, check_windows, drop_steps

__all__ = ["NARX", "Narx"]


@register("narx")
@dataclass(repr=False)
class NARX(Encoder):
    """A multi-layer perceptron on the flattened window; the features are its last hidden layer.

    Args:
        hidden: units in each layer.
        layers: hidden layers.
        dropout: on the output of every layer.
        input_dropout: variational, on the window: one mask per sequence, shared by all steps.
        skip: the flattened window joins the features: ``(n, hidden + lag p)``.
    """

    hidden: int = 64
    layers: int = 1
    dropout: float = 0.0
    input_dropout: float = 0.0
    skip: bool = False

    def build(self, features: int, lag: int) -> nn.Module:
        network = Narx(features, lag, self.hidden, self.layers, self.dropout, self.input_dropout)
        return Skip(network, self.dropout) if self.skip else network


class Narx(nn.Module):
    """``(n, lag, p) → (n, hidden)``: ``layers`` times linear, ReLU, dropout."""

    def __init__(
        self,
        input_size: int,
        lag: int,
        hidden: int = 64,
        layers: int = 1,
        dropout: float = 0.0,
        input_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_sizes(input_size=input_size, lag=lag, hidden=hidden, layers=layers)
        check_rates(dropout=dropout, input_dropout=input_dropout)
        self.input_size = input_size
        self.lag = lag
        self.width = hidden
        self.input_dropout = input_dropout
        stack: list[nn.Module] = []
        for before, after in pairwise([lag * input_size] + [hidden] * layers):
            linear = nn.Linear(before, after)
            # Xavier as in the other encoders, with the gain that keeps the scale through a ReLU.
            nn.init.xavier_uniform_(linear.weight, gain=nn.init.calculate_gain("relu"))
            nn.init.zeros_(linear.bias)
            stack += [linear, nn.ReLU(), nn.Dropout(dropout)]
        self.stack = nn.Sequential(*stack)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, lag, p) → (n, width)``."""
        check_windows(x, self.input_size, self.lag)
        x = drop_steps(x, self.input_dropout, self.training)
        out: Tensor = self.stack(x.flatten(1))
        return out
