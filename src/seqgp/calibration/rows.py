"""Predicted rows beside their truths: what a calibration is fitted to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqgp.distributions import Gaussian

__all__ = ["Rows"]

Array = NDArray[np.float64]


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
