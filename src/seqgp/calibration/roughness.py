"""Roughness of a window, as features for the noise network.

An encoder that learns to predict a mean need not show how unsteady the series is; where it was unsteady a
moment ago it is hard to predict now.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["roughness", "roughness_width"]

_RECENT = 4  # second differences that are looked at alone, beside all of the window's
_LEAST = 1e-4  # size below which a difference of standardised values counts as none


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
