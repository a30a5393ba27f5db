"""The noise network: where residuals are large, and where they are small (heteroscedastic noise).

It is trained on the training set, whose rows are many: the pattern of their residuals is that of new
rows, only their size is not. The validation set decides when to stop, and whether it is used at all.
Beside the encoder's features it sees how rough the window is: an encoder that learns to predict a mean need
not show how unsteady the series is, and where it was unsteady a moment ago it is hard to predict now.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seqgp.calibration.corrections import fit_tails
from seqgp.distributions import Gaussian

__all__ = ["NoiseNet", "Rows", "fit_noise", "roughness", "roughness_width"]

_RECENT = 4  # second differences that are looked at alone, beside all of the window's
_LEAST = 1e-4  # size below which a difference of standardised values counts as none
Array = NDArray[np.float64]
_UNITS = 16
_STEPS, _EVERY = 300, 25  # of training; compared on the validation set every so often
_DOF = 5.0  # of Student's t, the loss it is trained on: a few large residuals must not bend it
_WORTH = 3.0  # nats that it must gain over the whole validation set


def roughness(x: Tensor) -> Tensor:
    """Log sizes of second differences: windows ``(n, T, p)`` → ``(n, 2 p)``.

    Of each column the root mean square over the last few steps, then over all. A straight line has none,
    however steep. Windows of one or two steps have no second difference: ``(n, 0)``.

    >>> x = torch.tensor([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 9.0])[None, :, None]
    >>> roughness(x).exp()
    tensor([[1.0000, 0.8165]])
    """
    if x.shape[1] < 3:
        return x.new_zeros(len(x), 0)
    bend = x.diff(dim=1).diff(dim=1).square()
    sizes = [part.mean(1).add(_LEAST**2).sqrt().log() for part in (bend[:, -_RECENT:], bend)]
    return torch.cat(sizes, 1)


def roughness_width(lag: int, features: int) -> int:
    """Columns of :func:`roughness`.

    Args:
        lag: steps in a window.
        features: columns of a window.
    """
    return 2 * features if lag >= 3 else 0


@dataclass(frozen=True)
class Rows:
    """Predictions ``(n, outputs)`` of observations, their residuals, and features ``(n, width)``."""

    predicted: Gaussian
    error: Tensor
    features: Tensor

    def seen(self) -> Tensor:
        """What a noise network sees of each row: the features and the predicted mean."""
        return torch.cat([self.features, self.predicted.mean], 1)

    def columns(self, net: Callable[[Tensor], Tensor] | None) -> list[tuple[Array, Array | None]]:
        """For each output the squared residuals over variances, and the noise network's log factor."""
        ratio = (self.error.square() / self.predicted.variance).cpu().numpy()
        factor = None if net is None else net(self.seen()).cpu().numpy()
        outputs = range(ratio.shape[1])
        return [(ratio[:, k], None if factor is None else factor[:, k]) for k in outputs]


class NoiseNet(nn.Module):
    """``(n, inputs) → (n, outputs)``: the log of a factor on the variance, 0 on average.

    Args:
        inputs: features of a row.
        outputs: columns of the targets.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(inputs, _UNITS)
        self.out = nn.Linear(_UNITS, outputs)
        # Parameters, though nothing trains them: they are saved and loaded with the rest.
        self.shift = nn.Parameter(torch.zeros(inputs), requires_grad=False)
        self.unit = nn.Parameter(torch.ones(inputs), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """The log factor ``(n, outputs)``, in float64."""
        x = (x.float() - self.shift) / self.unit
        value: Tensor = self.out(torch.tanh(self.hidden(x)))
        return value.double()


def fit_noise(
    train: Rows, validation: Rows | None = None, steps: int = _STEPS
) -> tuple[NoiseNet, int]:
    """The network after so many steps, or at the best step for the validation set; and that step.

    The step is 0 where no network gains enough on the validation set.

    Args:
        train: rows of the training set.
        validation: rows of the validation set, to stop early.
        steps: most steps of training.
    """
    seen = train.seen()
    with torch.device("meta"):  # first weights are drawn below: nobody's random numbers change
        net = NoiseNet(seen.shape[1], train.error.shape[1])
    net.to_empty(device=seen.device)
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        start = torch.empty(net.hidden.weight.shape)
        net.hidden.weight.copy_(nn.init.xavier_uniform_(start, generator=draw))
        net.hidden.bias.zero_()
        net.shift.copy_(seen.mean(0))
        net.unit.copy_(seen.std(0, correction=0).clamp_min(1e-6))
        net.out.weight.zero_()
        net.out.bias.zero_()
    ratio = train.error.square() / train.predicted.variance
    ratio = ratio / ratio.mean(0).clamp_min(1e-12)
    weights = [p for p in net.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(weights, lr=0.01, weight_decay=0.01)
    best, best_step, kept = math.inf, 0, copy.deepcopy(net.state_dict())
    plain = math.inf if validation is None else _loss(validation, None) - _WORTH
    for step in range(1, steps + 1):
        g = net(seen)
        g = g - g.mean(0)
        tails = 0.5 * (_DOF + 1.0) * torch.log1p(ratio * torch.exp(-g) / (_DOF - 2.0))
        optimiser.zero_grad()
        (0.5 * g + tails).mean().backward()
        optimiser.step()
        if validation is not None and step % _EVERY == 0:
            value = _loss(validation, _centred(net, seen))
            if value < min(best, plain):
                best, best_step, kept = value, step, copy.deepcopy(net.state_dict())
    if validation is not None:
        net.load_state_dict(kept)
        return _centred(net, seen), best_step
    return _centred(net, seen), steps


@torch.no_grad()
def _centred(net: NoiseNet, seen: Tensor) -> NoiseNet:
    """The same, with a mean of 0 on the rows it was trained on, and frozen."""
    net = copy.deepcopy(net)
    net.out.bias.sub_(net(seen).mean(0).float())
    return net.requires_grad_(False)


@torch.no_grad()
def _loss(rows: Rows, net: NoiseNet | None) -> float:
    """Penalised negative log likelihood of the rows, at the best scale, trust and tails."""
    return sum(fit_tails(ratio, factor).loss for ratio, factor in rows.columns(net))
