"""Directions of the data in which the iterative path resolves the variance."""

from __future__ import annotations

import torch
from torch import Tensor

from .iterative import System
from .solvers import cholesky
from .toeplitz import kronecker_product

__all__ = ["resolved_factor"]

_WORK = 2e9  # multiplications allowed for the band of the result


def resolved_factor(system: System) -> Tensor:
    """``F`` ``(directions, size, …)`` with posterior covariance ``⪯ K_UU - FᵀF`` on the grid.

    With ``B`` such that the columns of ``WB`` are orthonormal, the numbers ``BᵀWᵀy`` are noisy
    observations of f with noise σ²; conditioning on them alone leaves
    ``K_UU - K_UU SB (BᵀSK_UUSB + σ²I)⁻¹ BᵀS K_UU``.
    """
    gram = system.leading.gram
    value, vector = torch.linalg.eigh(gram)
    dim = len(system.shape) - 1
    limit = max(16, int(_WORK / (4 * 7 ** (dim - 1) * system.spectrum.points)))
    keep = value > 1e-12 * value[-1].clamp_min(1e-300)  # of the rest the data say nothing
    keep[: max(0, len(keep) - limit)] = False
    directions = (vector[:, keep] / value[keep].sqrt()).T
    seen = system.S @ system.leading.basis.expand(directions)  # (directions, size, …)
    shape = seen.shape
    image = torch.stack([kronecker_product(c, seen) for c in system.spectrum.columns]).sum(0)
    R = seen.flatten(1) @ image.flatten(1).T
    R = 0.5 * (R + R.T)
    R.diagonal().add_(system.noise)
    L, _ = cholesky(R)  # jitter resolves less: it errs on the safe side
    factor: Tensor = torch.linalg.solve_triangular(L, image.flatten(1), upper=False)
    return factor.reshape(shape)
