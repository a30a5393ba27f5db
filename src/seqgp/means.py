"""Mean functions of the window: ``zero``, or ``linear`` with a Bayesian ridge in closed form.

scikit-learn's ``BayesianRidge`` wants all windows in memory at once; this one streams them, since
a million windows of a hundred steps do not fit. The two agree where both can run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

__all__ = ["MEANS", "LinearMean", "MeanFunction", "ZeroMean", "fit_mean"]

MEANS = ("zero", "linear")
_CHUNK_VALUES = 4_000_000  # numbers in one materialised chunk of windows, whatever their size


class MeanFunction(Protocol):
    """A fitted mean function: windows ``(n, T, p)`` → mean and its variance, ``(n, outputs)``."""

    def predict(self, windows: Any) -> tuple[Tensor, Tensor]:
        """Mean and variance for each window."""
        ...


@dataclass(frozen=True)
class ZeroMean:
    """Nothing but zeros, known exactly."""

    outputs: int
    device: torch.device

    def predict(self, windows: Any) -> tuple[Tensor, Tensor]:
        """Zeros ``(n, outputs)``, twice."""
        zeros = torch.zeros(len(windows), self.outputs, dtype=torch.float64, device=self.device)
        return zeros, zeros


@dataclass(frozen=True)
class LinearMean:
    """Linear in the flattened window, with the posterior uncertainty of its coefficients.

    The precision of the coefficients' prior and the residual variance maximise the evidence.

    References:
        Bayesian Interpolation, MacKay 1992.
    """

    centre: Tensor
    """Mean of the flattened windows ``(k,)``, ``k = T p``."""
    weight: Tensor
    """Coefficients ``(k, outputs)``."""
    intercept: Tensor
    """``(outputs,)``."""
    vectors: Tensor
    """Principal axes of the windows ``(k, k)``: the coefficients are independent along them."""
    axis_variance: Tensor
    """Posterior variance of the coefficient along each axis, ``(k, outputs)``."""
    intercept_variance: Tensor
    """``(outputs,)``."""

    def predict(self, windows: Any) -> tuple[Tensor, Tensor]:
        """Mean and variance of the linear part, ``(n, outputs)`` each."""
        means, variances = [], []
        for rows in _chunks(windows):
            x = rows - self.centre
            means.append(x @ self.weight + self.intercept)
            spread = (x @ self.vectors).square() @ self.axis_variance
            variances.append(spread + self.intercept_variance)
        return torch.cat(means), torch.cat(variances)


def fit_mean(name: str, windows: Any, y: Tensor) -> MeanFunction:
    """Fit the mean function of that name to windows ``(n, T, p)`` and ``y`` ``(n, outputs)``."""
    if name == "zero":
        return ZeroMean(y.shape[1], y.device)
    if name != "linear":
        raise ValueError(f"mean={name!r} is not known: use one of {', '.join(MEANS)}")
    n = len(y)
    centre = sum(rows.sum(0) for rows in _chunks(windows)) / n
    y_mean = y.mean(0)
    gram = torch.zeros(len(centre), len(centre), dtype=torch.float64, device=y.device)
    moment = torch.zeros(len(centre), y.shape[1], dtype=torch.float64, device=y.device)
    start = 0
    for rows in _chunks(windows):
        x = rows - centre
        gram += x.T @ x
        moment += x.T @ (y[start : start + len(x)] - y_mean)
        start += len(x)
    eigenvalues, vectors = torch.linalg.eigh(gram)
    eigenvalues = eigenvalues.clamp_min(0.0)
    projected = vectors.T @ moment  # (k, outputs)
    total = (y - y_mean).square().sum(0)
    weights, axis_variances, residuals = [], [], []
    for j in range(y.shape[1]):
        ridge, variance = _maximise_evidence(eigenvalues, projected[:, j], float(total[j]), n)
        weights.append(vectors @ (projected[:, j] / (eigenvalues + ridge)))
        axis_variances.append(variance / (eigenvalues + ridge))
        residuals.append(variance)
    return LinearMean(
        centre=centre,
        weight=torch.stack(weights, -1),
        intercept=y_mean,
        vectors=vectors.contiguous(),  # a product's rounding depends on it, and a saved model keeps it
        axis_variance=torch.stack(axis_variances, -1),
        intercept_variance=torch.tensor(residuals, dtype=torch.float64, device=y.device) / n,
    )


def _maximise_evidence(
    eigenvalues: Tensor, projected: Tensor, total: float, n: int
) -> tuple[float, float]:
    """Ridge λ (noise over prior variance) of highest evidence, and the residual variance there."""
    squared = projected.square()

    def residual(ridge: float) -> float:
        # The floor keeps an exactly linear target from asking for the logarithm of zero.
        return max(total - float((squared / (eigenvalues + ridge)).sum()), 1e-12 * total, 1e-300)

    def objective(log_ridge: float) -> float:
        ridge = math.exp(log_ridge)
        return n * math.log(residual(ridge)) + float(torch.log1p(eigenvalues / ridge).sum())

    largest = max(float(eigenvalues.max()), 1e-12)
    grid = [math.log(largest) + step for step in range(-27, 10)]
    start = min(range(len(grid)), key=lambda i: objective(grid[i]))
    found = minimize_scalar(objective, bounds=(grid[start] - 1.0, grid[start] + 1.0))
    ridge = math.exp(float(found.x))
    return ridge, residual(ridge) / n


def _chunks(windows: Any) -> Any:
    """Flattened float64 windows ``(chunk, T p)``, one bounded chunk at a time."""
    size = max(1, _CHUNK_VALUES // math.prod(windows.shape[1:]))
    for start in range(0, len(windows), size):
        yield windows[slice(start, start + size)].double().flatten(1)
