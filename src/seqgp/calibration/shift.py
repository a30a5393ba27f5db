"""A level that has moved since training: a bias that the whole validation set has."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["level_shift"]

# Residuals are autocorrelated, so their mean is judged by the means of blocks in time; fewer or shorter
# blocks say too little of how it varies. Three standard errors of ten independent means occur by chance
# in 1.5% of cases.
_BLOCKS, _BLOCK_ROWS, _STANDARD_ERRORS = 10, 50, 3.0


def level_shift(error: Tensor) -> Tensor:
    """Mean of residuals ``(n, outputs)`` in order of time, 0 where it may be chance: ``(outputs,)``.

    It counts where it is three standard errors from 0, as estimated from ten blocks in time.

    >>> even = torch.linspace(-1.0, 1.0, 50).repeat(20)[:, None]
    >>> level_shift(even + 0.1), level_shift(torch.linspace(-1.0, 1.1, 1000)[:, None])
    (tensor([0.1000]), tensor([0.]))
    """
    mean = error.mean(0)
    if len(error) < _BLOCKS * _BLOCK_ROWS:
        return torch.zeros_like(mean)
    means = torch.stack([block.mean(0) for block in error.tensor_split(_BLOCKS)])
    clear = mean.abs() > _STANDARD_ERRORS * means.std(0) / math.sqrt(_BLOCKS)
    return torch.where(clear, mean, torch.zeros_like(mean))
