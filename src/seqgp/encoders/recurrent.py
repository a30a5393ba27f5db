"""RNN, GRU and LSTM encoders ``(n, T, p) → (n, width)`` on torch's fused kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqgp.encoders.base import Encoder, Skip, register
from seqgp.encoders.common import (
    check_rates,
    check_sizes,
    check_windows,
    drop_mask,
    drop_steps,
    orthogonal_gates,
    xavier_gates,
)

__all__ = ["GRU", "LSTM", "RNN", "Recurrent"]

_CELLS: dict[str, Callable[..., nn.RNNBase]] = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}


@dataclass(repr=False)
class _Options(Encoder):
    """Options that the recurrent networks share; :class:`LSTM` explains them."""

    cell: ClassVar[str]
    hidden: int = 64
    layers: int = 1
    dropout: float = 0.0
    input_dropout: float = 0.0
    recurrent_dropout: float = 0.0
    skip: bool = False

    def build(self, features: int, lag: int) -> nn.Module:
        network = Recurrent(
            self.cell,
            features,
            self.hidden,
            self.layers,
            self.dropout,
            self.input_dropout,
            self.recurrent_dropout,
        )
        return Skip(network, self.dropout) if self.skip else network


@register("rnn")
class RNN(_Options):
    """Elman's recurrent network with tanh units; the options are those of :class:`LSTM`."""

    cell = "rnn"


@register("gru")
class GRU(_Options):
    """Gated recurrent units; the options are those of :class:`LSTM`.

    References:
        Learning Phrase Representations using RNN Encoder-Decoder, Cho et al. 2014, arXiv:1406.1078.
    """

    cell = "gru"


@register("lstm")
class LSTM(_Options):
    """Long short-term memory; the features are the last hidden state of its top layer, ``(n, hidden)``.

    Args:
        hidden: units in each layer.
        layers: number of layers.
        dropout: on the output of every layer, the last one included.
        input_dropout: variational, on the window: one mask per sequence, shared by all steps.
        recurrent_dropout: variational, on the previous hidden state of every layer. Training then
            runs step by step instead of in torch's fused kernel.
        skip: the flattened window joins the features: ``(n, hidden + lag p)``.

    References:
        Long Short-Term Memory, Hochreiter and Schmidhuber 1997.

    >>> LSTM(hidden=8).build(features=3, lag=16)(torch.zeros(5, 16, 3)).shape
    torch.Size([5, 8])
    """

    cell = "lstm"


class Recurrent(nn.Module):
    """``(n, T, p) → (n, hidden)``: the last hidden state of the top layer.

    The fused kernel runs except in training with ``recurrent_dropout``, which it cannot do; then
    the same parameters go through a loop over the steps. In the GRU the recurrent mask acts on
    what enters the gates; the state that is carried over by the update gate is not dropped.
    """

    def __init__(
        self,
        cell: str,
        input_size: int,
        hidden: int = 64,
        layers: int = 1,
        dropout: float = 0.0,
        input_dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if cell not in _CELLS:
            raise ValueError(f"cell is {cell!r}; expected one of {', '.join(map(repr, _CELLS))}.")
        check_sizes(input_size=input_size, hidden=hidden, layers=layers)
        check_rates(
            dropout=dropout, input_dropout=input_dropout, recurrent_dropout=recurrent_dropout
        )
        self.cell = cell
        self.input_size = input_size
        self.width = hidden
        self.layers = layers
        self.dropout = dropout
        self.input_dropout = input_dropout
        self.recurrent_dropout = recurrent_dropout
        # torch drops between layers only and warns when there is one; the output's dropout is ours.
        self.core = _CELLS[cell](
            input_size,
            hidden,
            num_layers=layers,
            batch_first=True,
            dropout=dropout if layers > 1 else 0.0,
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Orthogonal recurrent weights, Xavier input weights, zero biases, forget bias 1."""
        with torch.no_grad():
            for name, value in self.core.named_parameters():
                if name.startswith("weight_hh"):
                    orthogonal_gates(value)
                elif name.startswith("weight_ih"):
                    xavier_gates(value, self.width)
                else:
                    value.zero_()
                    # torch adds two biases: in one of them only, so that their sum is 1.
                    if self.cell == "lstm" and name.startswith("bias_ih"):
                        value[self.width : 2 * self.width] = 1.0

    def forward(self, x: Tensor) -> Tensor:
        """``(n, T, p) → (n, width)``."""
        check_windows(x, self.input_size)
        x = drop_steps(x, self.input_dropout, self.training)
        if self.training and self.recurrent_dropout > 0:
            last = self._loop(x)
        else:
            # The final state and not output[:, -1]: its gradient needs no (n, T, width) of zeros.
            state = self.core(x)[1]
            last = (state[0] if self.cell == "lstm" else state)[-1]
        return F.dropout(last, self.dropout, self.training)

    def _loop(self, x: Tensor) -> Tensor:
        """``(n, T, p) → (n, width)``: what the fused kernel computes, with recurrent dropout."""
        run_layer = {"rnn": _rnn_layer, "gru": _gru_layer, "lstm": _lstm_layer}[self.cell]
        sequence = x.transpose(0, 1)  # time first, so that a step is one block of memory
        for layer in range(self.layers):
            if layer:
                sequence = F.dropout(sequence, self.dropout, self.training)
            mask = drop_mask(x, self.width, self.recurrent_dropout)
            w_ih, w_hh, b_ih, b_hh = (
                getattr(self.core, f"{kind}_l{layer}")
                for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            )
            states = run_layer(sequence, mask, w_ih, w_hh, b_ih, b_hh)
            if layer + 1 < self.layers:
                sequence = torch.stack(states)
        return states[-1]


# Each function runs one layer over a time-first sequence (T, n, p) and gives the T states (n, H).
# Projections of the inputs are one product for all steps; unbind, because its gradient is one
# stack where indexing would allocate a full sequence of zeros at every step.


def _rnn_layer(
    x: Tensor, mask: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor, b_hh: Tensor
) -> list[Tensor]:
    w, h, states = w_hh.t(), torch.zeros_like(mask), []
    for a in F.linear(x, w_ih, b_ih + b_hh).unbind(0):
        h = torch.tanh(torch.addmm(a, h * mask, w))
        states.append(h)
    return states


def _gru_layer(
    x: Tensor, mask: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor, b_hh: Tensor
) -> list[Tensor]:
    w, h, states = w_hh.t(), torch.zeros_like(mask), []
    # b_hh stays with the recurrent part: the reset gate multiplies its share of the candidate.
    for a in F.linear(x, w_ih, b_ih).unbind(0):
        a_r, a_z, a_n = a.chunk(3, 1)
        r_r, r_z, r_n = torch.addmm(b_hh, h * mask, w).chunk(3, 1)
        candidate = torch.tanh(a_n + torch.sigmoid(a_r + r_r) * r_n)
        h = torch.lerp(candidate, h, torch.sigmoid(a_z + r_z))
        states.append(h)
    return states


def _lstm_layer(
    x: Tensor, mask: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor, b_hh: Tensor
) -> list[Tensor]:
    w, h, c, states = w_hh.t(), torch.zeros_like(mask), torch.zeros_like(mask), []
    for a in F.linear(x, w_ih, b_ih + b_hh).unbind(0):
        i, f, g, o = torch.addmm(a, h * mask, w).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        states.append(h)
    return states
