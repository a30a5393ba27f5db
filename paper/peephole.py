"""The paper's LSTM, whose gates also see the memory cell: ``(n, T, p) → (n, width)``."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqgp.encoders import (
    LSTM,
    Skip,
    check_rates,
    check_sizes,
    check_windows,
    drop_mask,
    drop_steps,
    orthogonal_gates,
    register,
    xavier_gates,
)

__all__ = ["LSTMPeephole", "PeepholeLSTM"]


@register("lstm-peephole")
class LSTMPeephole(LSTM):
    """The paper's LSTM; the options are those of :class:`seqgp.encoders.LSTM`."""

    def build(self, features: int, lag: int) -> nn.Module:
        network = PeepholeLSTM(
            features,
            self.hidden,
            self.layers,
            self.dropout,
            self.input_dropout,
            self.recurrent_dropout,
        )
        return Skip(network, self.dropout) if self.skip else network


class PeepholeLSTM(nn.Module):
    """``(n, T, p) → (n, hidden)``: the last hidden state of the top layer.

    In the paper's symbols, products by full matrices (no diagonal peepholes)::

        i^t   = tanh(W_xc x^t + W_hc h^{t-1} + b_c)
        g_i^t = sigmoid(W_xi x^t + W_hi h^{t-1} + W_ci c^{t-1} + b_i)
        g_c^t = sigmoid(W_xf x^t + W_hf h^{t-1} + W_cf c^{t-1} + b_f)
        c^t   = g_c^t c^{t-1} + g_i^t i^t
        g_o^t = sigmoid(W_xo x^t + W_ho h^{t-1} + W_co c^t + b_o)
        h^t   = g_o^t tanh(c^t)

    Rows of ``weight_ih``, ``weight_hh`` and ``bias`` are in torch's order: g_i, g_c (forget), i
    (candidate), g_o; rows of ``weight_ch`` are W_ci, W_cf, W_co. The recurrent mask acts on
    ``h^{t-1}`` and leaves the memory alone.

    References:
        Al-Shedivat, Wilson, Saatchi, Hu and Xing, Learning Scalable Deep Kernels with Recurrent
        Structure, 2017, arXiv:1610.08936.
    """

    def __init__(
        self,
        input_size: int,
        hidden: int = 64,
        layers: int = 1,
        dropout: float = 0.0,
        input_dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_sizes(input_size=input_size, hidden=hidden, layers=layers)
        check_rates(
            dropout=dropout, input_dropout=input_dropout, recurrent_dropout=recurrent_dropout
        )
        self.input_size = input_size
        self.width = hidden
        self.dropout = dropout
        self.input_dropout = input_dropout
        self.recurrent_dropout = recurrent_dropout
        self.cells = nn.ModuleList(
            _Layer(hidden if layer else input_size, hidden) for layer in range(layers)
        )

    def forward(self, x: Tensor) -> Tensor:
        """``(n, T, p) → (n, width)``."""
        check_windows(x, self.input_size)
        sequence = drop_steps(x, self.input_dropout, self.training).transpose(0, 1)
        last = sequence[-1]
        for k, cell in enumerate(self.cells):
            if k:
                sequence = F.dropout(sequence, self.dropout, self.training)
            mask = None
            if self.training and self.recurrent_dropout > 0:
                mask = drop_mask(x, self.width, self.recurrent_dropout)
            states: list[Tensor] = cell(sequence, mask)
            last = states[-1]
            if k + 1 < len(self.cells):
                sequence = torch.stack(states)
        return F.dropout(last, self.dropout, self.training)


class _Layer(nn.Module):
    """One layer: a time-first sequence ``(T, n, p)`` to its T hidden states ``(n, H)``."""

    def __init__(self, input_size: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.weight_ih = nn.Parameter(torch.empty(4 * hidden, input_size))
        self.weight_hh = nn.Parameter(torch.empty(4 * hidden, hidden))
        self.weight_ch = nn.Parameter(torch.empty(3 * hidden, hidden))
        self.bias = nn.Parameter(torch.empty(4 * hidden))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As in ``Recurrent``; the peepholes start at zero."""
        with torch.no_grad():
            xavier_gates(self.weight_ih, self.hidden)
            orthogonal_gates(self.weight_hh)
            # Zero, so that training starts from a plain LSTM: the memory is not bounded, and
            # through matrices of norm 1 it would saturate the gates before anything is learnt.
            self.weight_ch.zero_()
            self.bias.zero_()
            self.bias[self.hidden : 2 * self.hidden] = 1.0

    def forward(self, x: Tensor, mask: Tensor | None) -> list[Tensor]:
        """``(T, n, p) → T times (n, H)``."""
        size = self.hidden
        w_h, w_c = self.weight_hh.t(), self.weight_ch.t()
        h = c = x.new_zeros(x.shape[1], size)
        peep_if = x.new_zeros(x.shape[1], 2 * size)
        states = []
        for a in F.linear(x, self.weight_ih, self.bias).unbind(0):
            a = torch.addmm(a, h if mask is None else h * mask, w_h)
            a_if, a_g, a_o = torch.split(a, [2 * size, size, size], 1)
            g_i, g_c = torch.sigmoid(a_if + peep_if).chunk(2, 1)
            c = g_c * c + g_i * torch.tanh(a_g)
            # One product with c^t serves the output gate now and the other gates at the next step.
            peep_if, peep_o = torch.split(c @ w_c, [2 * size, size], 1)
            h = torch.sigmoid(a_o + peep_o) * torch.tanh(c)
            states.append(h)
        return states
