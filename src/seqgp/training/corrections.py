"""What rows that were not trained on say of a trained model's mean.

- The *slope* of validation targets on what was learnt beyond a line, and of what a network's readout leaves
  on the GP beside it (the GP's *share*), where they are below 1: part of what was learnt is not there in
  new rows. Where they gain little by what was learnt, the line alone predicts.
- A *shift*, where validation errors are off to one side from their beginning to their end: a level that has
  moved since training goes on being where it is.

References:
    Regression, Prediction and Shrinkage, Copas 1983.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["beyond_line", "clear_shift", "clear_slope"]

# Errors of neighbouring rows are alike, so a mean is judged by those of blocks in time, and so is a slope;
# fewer or shorter blocks say nothing of how it varies. Of ten independent ones 1.5% have a mean three
# deviations from 0.
_BLOCKS, _BLOCK_ROWS, _CLEAR = 10, 50, 3.0
# Nats over all validation rows and outputs that a line must be beaten by: of rows enough for blocks as many
# as for anything that those rows, on which the epoch was chosen too, may overrule
# (seqgp.training.validation). Of a hundred rows that would be a quarter of the error, so fewer rows have to
# say less.
_WORTH, _WORTH_FEW = 30.0, 10.0


def clear_slope(learnt: Tensor, left: Tensor, start: float) -> Tensor:
    """Slope, 0 to 1, of what was ``left`` to be learnt on what was: ``(n, outputs)`` → ``(outputs,)``.

    Moved to where it starts from by as much as it is uncertain (James and Stein's rule). For what was
    learnt beyond a line that is 0: a part that explains little and may be chance is left out. For a GP
    beside the readout that it was trained on it is 1: the likelihood of many rows speaks for the GP.

    Both were tried on the rows before the test parts, cut again into training, validation and test rows.
    With past targets of the car, load and wind (74 fits of GP-LSTM and LSTM about a line), test errors fell
    by 0.4% on average, those of GP-LSTM by 0.7% on yaw rates and 3.4% on lanes; from 1 by 0.1%. Of 16
    fits with a readout six lost 0.7 to 6.7% by their GP, with the share only one of them, 0.7%; six gained
    1.4 to 11.7%, with the share 1.4 to 11.1% (from 0 less). Without a line (load, wind, speed and yaw rate
    from other columns) there is no simpler model to go back to, and a slope did harm.

    >>> import torch
    >>> wave = torch.sin(torch.arange(1000.0))[:, None]
    >>> clear_slope(wave, 0.6 * wave, 0.0), clear_slope(wave, -wave, 0.0), clear_slope(wave, 2 * wave, 1.0)
    (tensor([0.6000]), tensor([0.]), tensor([1.]))
    """
    if len(left) < _BLOCKS * _BLOCK_ROWS:
        return torch.ones_like(left[0])
    learnt, left = learnt - learnt.mean(0), left - left.mean(0)  # a level is the shift's

    def summed(rows: Tensor) -> Tensor:
        return torch.stack([block.sum(0) for block in rows.tensor_split(_BLOCKS)])

    products, squares = summed(learnt * left), summed(learnt.square())
    total = squares.sum(0).clamp_min(torch.finfo(left.dtype).tiny)
    slope = products.sum(0) / total
    chance = (products - slope * squares).square().sum(0) * _BLOCKS / (_BLOCKS - 1)
    # Not less than if no two rows were alike: ten blocks may agree by chance.
    alone = (left - slope * learnt).square().mean(0) * total
    uncertain = torch.maximum(chance, alone) / total.square()
    away = slope - start
    moved = torch.where(away.square() > uncertain, away - uncertain / away, torch.zeros_like(away))
    return (start + moved).clamp(0.0, 1.0)


def beyond_line(learnt: Tensor, left: Tensor) -> Tensor:
    """How much of what was ``learnt`` beyond a line to add to it: ``(n, outputs)`` → ``(outputs,)``.

    The clear slope of what the line ``left``, or nothing where all rows gain less than 30 nats by it, or
    less than ten where they are fewer than 500. Outputs are of one network, so what they gain is added up.

    Tried on rows before the test parts with past targets: table 3's options with most rows of the car's
    tasks, and defaults with 300 to 1,600 rows of load, speed and yaw rate. Errors on later rows with what
    was learnt, over those of the line alone, by what validation rows gained (outputs of fits in brackets):
    below 0 nats 1.03 (31), to 3 nats 1.014 (18), to 10 nats 1.04 (16, of which four of few rows 1.07 to
    1.34, the others 0.999), to 30 nats 1.0006 (13), above 0.994 (73). On four other parts of those rows
    (``reproduce quarters``) speed, which gained 4 to 19 nats, came to 0.997 to 1.012 of the line's error,
    and lanes, where each of 14 outputs gained 3 to 41 and all together 150 to 300, to 0.978; with 30 asked
    of each it was 0.993.

    >>> import torch
    >>> wave, other = (f(torch.arange(1000.0))[:, None] for f in (torch.sin, torch.cos))
    >>> beyond_line(wave, wave + other), beyond_line(wave, 0.05 * wave + other)
    (tensor([0.9990]), tensor([0.]))
    """
    slope = clear_slope(learnt, left, start=0.0)
    before, after = (
        (each - each.mean(0)).square().sum(0) for each in (left, left - slope * learnt)
    )
    tiny = torch.finfo(left.dtype).tiny
    gain = 0.5 * len(left) * (before.clamp_min(tiny) / after.clamp_min(tiny)).log()
    worth = _WORTH if len(left) >= _BLOCKS * _BLOCK_ROWS else _WORTH_FEW
    return torch.where((gain > 0.0) & (gain.sum() > worth), slope, torch.zeros_like(slope))


def clear_shift(error: Tensor) -> Tensor:
    """The mean of errors ``(n, outputs)`` in order of time, 0 where it may be chance: ``(outputs,)``.

    On GEF-power from temperatures the load has grown since training: in each tenth of the validation
    rows the mean error is above 0, 0.7 deviations in all. Calibrated on one half of those rows and scored
    on the other, the shift gains 0.19 nats and a sixth of the CRPS there, 0.04 nats on car-lead.

    >>> import torch
    >>> alike = torch.linspace(-1.0, 1.0, 50).repeat(20)[:, None]
    >>> clear_shift(alike + 0.1), clear_shift(torch.linspace(-1.0, 1.1, 1000)[:, None])
    (tensor([0.1000]), tensor([0.]))
    """
    mean = error.mean(0)
    if len(error) < _BLOCKS * _BLOCK_ROWS:
        return torch.zeros_like(mean)
    means = torch.stack([block.mean(0) for block in error.tensor_split(_BLOCKS)])
    clear = mean.abs() > _CLEAR * means.std(0) / math.sqrt(_BLOCKS)
    return torch.where(clear, mean, torch.zeros_like(mean))
