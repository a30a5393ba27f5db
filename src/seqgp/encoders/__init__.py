"""Encoders ``(n, T, p) → (n, width)``, and the head that maps their output into the latent box."""

from __future__ import annotations

from torch import nn

from seqgp.encoders.head import Head, ReadoutHead, ScaledLinear
from seqgp.encoders.narx import Narx
from seqgp.encoders.peephole import PeepholeLSTM
from seqgp.encoders.recurrent import Recurrent
from seqgp.encoders.skip import Skip
from seqgp.encoders.width import width_of

__all__ = [
    "ENCODERS",
    "Head",
    "Narx",
    "PeepholeLSTM",
    "ReadoutHead",
    "Recurrent",
    "ScaledLinear",
    "Skip",
    "build_encoder",
    "width_of",
]

ENCODERS = ("narx", "rnn", "gru", "lstm", "lstm-peephole")


def build_encoder(
    name: str,
    input_size: int,
    lag: int,
    hidden: int = 64,
    layers: int = 1,
    dropout: float = 0.0,
    input_dropout: float = 0.0,
    recurrent_dropout: float = 0.0,
) -> nn.Module:
    """An encoder ``(n, lag, input_size) → (n, hidden)`` by name, with its ``width`` attribute.

    Args:
        name: ``"narx"``, ``"rnn"``, ``"gru"``, ``"lstm"`` or ``"lstm-peephole"``.
        input_size: features ``p`` in a window.
        lag: steps in a window; only ``narx`` is tied to it.
        hidden: units in each layer.
        layers: number of layers.
        dropout: on the output of every layer, the last one included.
        input_dropout: variational, on the window: one mask per sequence, shared by all steps.
        recurrent_dropout: variational, on the previous hidden state of every layer. Training then
            runs step by step instead of in torch's fused kernel.

    Example:
        >>> import torch
        >>> encoder = build_encoder("gru", input_size=3, lag=16, hidden=8)
        >>> encoder(torch.zeros(5, 16, 3)).shape
        torch.Size([5, 8])
    """
    rates = (dropout, input_dropout, recurrent_dropout)
    if name == "narx":
        return Narx(input_size, lag, hidden, layers, *rates)
    if name == "lstm-peephole":
        return PeepholeLSTM(input_size, hidden, layers, *rates)
    if name in ENCODERS:
        return Recurrent(name, input_size, hidden, layers, *rates)
    raise ValueError(
        f"encoder is {name!r}; expected one of {', '.join(map(repr, ENCODERS))}, "
        "or an nn.Module mapping (n, T, p) to (n, width)."
    )
