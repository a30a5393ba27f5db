"""How large the errors on held-out rows are beside what the model says of them.

A deep kernel trained on the marginal likelihood tends to be over-confident: its noise is that of rows
it has seen. One factor on the predictive variance, taken from rows it has not seen, corrects that, at
no cost in accuracy. It is part of how the best epoch is chosen too: without it, the density on held-out
rows turns worse as soon as the noise is too small, while the errors still fall for many epochs.

References:
    The Promises and Pitfalls of Deep Kernel Learning, Ober, Rasmussen and van der Wilk 2021,
    arXiv:2102.12108.
"""

from __future__ import annotations

from torch import Tensor

__all__ = ["variance_scale"]

_PRIOR_ROWS = 10.0
"""The factor starts from 1 with the weight of so many rows: a few held-out rows move it little."""


def variance_scale(error: Tensor, variance: Tensor) -> Tensor:
    """Factor ``(outputs,)`` on ``variance`` under which ``error`` has its size, both ``(n, outputs)``.

    The maximum of the Gaussian likelihood of the errors, but for the weight of 1 at the start.

    >>> import torch
    >>> error, variance = torch.full((990, 1), 2.0), torch.ones(990, 1)
    >>> round(float(variance_scale(error, variance)), 3)
    3.97
    """
    ratio = error.square() / variance
    return (ratio.sum(0) + _PRIOR_ROWS) / (len(ratio) + _PRIOR_ROWS)
