"""The one Cholesky factorisation, with as little jitter as it takes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["cholesky"]


def cholesky(C: Tensor, scale: float, ladder: Sequence[float]) -> tuple[Tensor | None, float]:
    """Lower factor of ``C + jitter I`` with the least jitter of a ladder that works, and the jitter.

    The factor is None where none of them does; the caller knows why, and says so.

    Args:
        C: symmetric, ``(..., n, n)``.
        scale: what the ladder is relative to.
        ladder: increasing, from 0 on.

    >>> cholesky(torch.eye(2), scale=1.0, ladder=(0.0, 1e-8))[1]
    0.0
    """
    for relative in ladder:
        jitter = relative * scale
        shifted = C
        if jitter:
            shifted = C.clone()
            shifted.diagonal(dim1=-2, dim2=-1).add_(jitter)
        L, info = torch.linalg.cholesky_ex(shifted)
        if not bool(info.any()):
            return L, jitter
    return None, ladder[-1] * scale
