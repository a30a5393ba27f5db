"""Lane borders: from the coefficients of cubics to points, as the paper predicts them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from paper.datasets.rows import Array

__all__ = ["POINTS", "lane_points"]

POINTS = 7
"""Points on each border: the first, the last, and five between them at equal steps."""


def lane_points(coefficients: ArrayLike, at: ArrayLike) -> Array:
    """``(N, k)``: cubics ``(N, 4)``, lowest power first, at the positions ``at (k,)``.

    >>> lane_points([[1.0, 2.0, 0.0, 1.0]], [0.0, 1.0, 2.0])
    array([[ 1.,  4., 13.]])
    """
    cubics = np.asarray(coefficients, dtype=np.float64)
    if cubics.ndim != 2 or cubics.shape[1] != 4:
        raise ValueError(f"coefficients have shape {cubics.shape}; expected (N, 4): cubics")
    points: Array = cubics @ np.vander(np.asarray(at, dtype=np.float64), 4, increasing=True).T
    return points
