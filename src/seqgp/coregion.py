"""How outputs, and their noise, vary together: low-rank covariances learned with θ."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seqgp.kernels import log_greater_than

__all__ = ["Coregion", "NoiseCorrelation"]

_FLOOR = 1e-6  # of the diagonal, on standardised targets: B stays positive definite
_SHARED = 0.9  # of the targets' covariance that starts in the low-rank part


class Coregion(nn.Module):
    """``B = LLᵀ + diag(d)`` ``(outputs, outputs)``: the prior covariance of outputs at one point.

    ``L`` is ``(outputs, rank)``; ``d`` is positive, on the log scale. Outputs start as independent,
    with unit variance.

    References:
        Multi-task Gaussian Process Prediction, Bonilla, Chai and Williams 2007. Kernels for
        Vector-Valued Functions: a Review, Álvarez, Rosasco and Lawrence 2012, arXiv:1106.6251.

    >>> Coregion(outputs=3, rank=1)().shape
    torch.Size([3, 3])
    """

    def __init__(self, outputs: int, rank: int) -> None:
        super().__init__()
        self._constraint = log_greater_than(_FLOOR).double()
        self.factor = nn.Parameter(torch.zeros(outputs, rank, dtype=torch.float64))
        self.raw_diagonal = nn.Parameter(torch.zeros(outputs, dtype=torch.float64))
        # At L = 0 the slope in L is zero as well: half of the variance starts there.
        half = torch.eye(outputs, rank, dtype=torch.float64) * 0.5**0.5
        self._set(half, torch.ones(outputs, dtype=torch.float64))

    def forward(self) -> Tensor:
        """B."""
        diagonal: Tensor = self._constraint.transform(self.raw_diagonal)
        return self.factor @ self.factor.T + diagonal.diag()

    def initialise(self, covariance: Tensor) -> None:
        """Start at the targets' own covariance ``(outputs, outputs)``, as closely as the rank allows."""
        value, vector = torch.linalg.eigh(covariance)
        rank = self.factor.shape[1]
        leading = vector[:, -rank:] * (_SHARED * value[-rank:].clamp_min(0.0)).sqrt()
        self._set(leading, covariance.diagonal())

    def _set(self, factor: Tensor, variance: Tensor) -> None:
        """Set L, and d to what it leaves of each output's variance."""
        left = (variance - factor.square().sum(1)).clamp_min(20.0 * _FLOOR)
        with torch.no_grad():
            self.factor.copy_(factor)
            self.raw_diagonal.copy_(self._constraint.inverse_transform(left))


class NoiseCorrelation(nn.Module):
    """Correlation of the outputs' noise ``(outputs, outputs)``: ``NNᵀ + I``, with a unit diagonal.

    ``N`` is ``(outputs, rank)``. What the latent points do not explain is noise to the GP, and common
    to outputs as a rule, even where the instruments' own noise is not. Were it independent, a short
    lengthscale would have to explain it. The noise starts uncorrelated: from the targets' own
    correlation, an optimiser may take for noise what is signal (seen on a sample of 40 rows).

    >>> NoiseCorrelation(outputs=2, rank=1)().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    def __init__(self, outputs: int, rank: int) -> None:
        super().__init__()
        # At N = 0 the slope is zero; one column per output is uncorrelated as well.
        self.factor = nn.Parameter(torch.eye(outputs, rank, dtype=torch.float64))

    def forward(self) -> Tensor:
        """The correlation."""
        scaled = self.factor / (1.0 + self.factor.square().sum(1, keepdim=True)).sqrt()
        correlation: Tensor = scaled @ scaled.T
        return correlation + (1.0 - correlation.diagonal()).diag()
