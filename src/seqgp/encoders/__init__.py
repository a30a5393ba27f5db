"""Encoders: windows ``(n, T, p)`` to features; and the network, which ends in latent points."""

from seqgp.encoders.base import ENCODERS, Encoder, Given, Skip, as_encoder, register, width_of
from seqgp.encoders.common import (
    check_rates,
    check_sizes,
    check_windows,
    drop_mask,
    drop_steps,
    orthogonal_gates,
    xavier_gates,
)
from seqgp.encoders.narx import NARX
from seqgp.encoders.network import Encoded, Head, Network, ScaledLinear, Windows, encode
from seqgp.encoders.recurrent import GRU, LSTM, RNN

__all__ = [
    "ENCODERS",
    "GRU",
    "LSTM",
    "NARX",
    "RNN",
    "Encoded",
    "Encoder",
    "Given",
    "Head",
    "Network",
    "ScaledLinear",
    "Skip",
    "Windows",
    "as_encoder",
    "check_rates",
    "check_sizes",
    "check_windows",
    "drop_mask",
    "drop_steps",
    "encode",
    "orthogonal_gates",
    "register",
    "width_of",
    "xavier_gates",
]
