"""Mean functions of the window: ``zero``, or ``linear`` with a Bayesian ridge in closed form.

scikit-learn's ``BayesianRidge`` wants all windows in memory at once; this one streams them, since
a million windows of a hundred steps do not fit. The two agree where both can run, but for the prior:
here steps long ago are believed to say less, as far as the evidence agrees.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

__all__ = ["MEANS", "LinearMean", "MeanFunction", "ZeroMean", "fit_mean"]

MEANS = ("zero", "linear")
DECAYS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)
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

    The step ``l`` before the target has coefficients of prior deviation ``s l^-decay``. ``s``, the
    residual variance and the decay maximise the evidence.

    References:
        Bayesian Interpolation, MacKay 1992. Forecasting and Conditional Projection Using Realistic
        Prior Distributions, Doan, Litterman and Sims 1984 (a prior that tightens with the lag).
    """

    centre: Tensor
    """Mean of the flattened windows ``(k,)``, ``k = T p``."""
    weight: Tensor
    """Coefficients ``(k, outputs)``."""
    intercept: Tensor
    """``(outputs,)``."""
    vectors: Tensor
    """Axes ``(k, k)`` along which the coefficients are independent, each in the prior's unit."""
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


def fit_mean(name: str, windows: Any, y: Tensor, decays: Sequence[float] = DECAYS) -> MeanFunction:
    """Fit the mean function of that name to windows ``(n, T, p)`` and ``y`` ``(n, outputs)``.

    ``decays`` are those tried for ``linear``; 0 alone is plain ridge regression.
    """
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
    total = (y - y_mean).square().sum(0).tolist()
    steps, features = windows.shape[1:]
    lag = torch.arange(steps, 0, -1, dtype=torch.float64, device=y.device)
    lag = lag.repeat_interleave(features)
    # On all recordings tried the evidence has one peak, so the first decay that is worse ends the search.
    best = _fit_line(gram, moment, total, n, lag ** -decays[0])
    for decay in decays[1:]:
        tried = _fit_line(gram, moment, total, n, lag**-decay)
        if tried.evidence <= best.evidence:
            break
        best = tried
    return LinearMean(
        centre=centre,
        weight=best.weight,
        intercept=y_mean,
        vectors=best.vectors.contiguous(),  # a product's rounding depends on it, and a saved model keeps it
        axis_variance=best.axis_variance,
        intercept_variance=best.residual / n,
    )


@dataclass(frozen=True)
class _Line:
    """A fit under one prior; shapes as in :class:`LinearMean`."""

    weight: Tensor
    vectors: Tensor
    axis_variance: Tensor
    residual: Tensor
    """``(outputs,)``: the residual variance."""
    evidence: float
    """Log, but for a constant."""


def _fit_line(gram: Tensor, moment: Tensor, total: list[float], n: int, unit: Tensor) -> _Line:
    """The posterior where the coefficients have prior deviations in proportion to ``unit`` ``(k,)``."""
    eigenvalues, vectors = torch.linalg.eigh(unit[:, None] * gram * unit)
    eigenvalues = eigenvalues.clamp_min(0.0)
    vectors = unit[:, None] * vectors
    projected = vectors.T @ moment  # (k, outputs)
    weights, axis_variances, residuals, evidence = [], [], [], 0.0
    for j, size in enumerate(total):
        ridge, variance, value = _maximise_evidence(eigenvalues, projected[:, j], size, n)
        weights.append(vectors @ (projected[:, j] / (eigenvalues + ridge)))
        axis_variances.append(variance / (eigenvalues + ridge))
        residuals.append(variance)
        evidence += value
    return _Line(
        weight=torch.stack(weights, -1),
        vectors=vectors,
        axis_variance=torch.stack(axis_variances, -1),
        residual=torch.tensor(residuals, dtype=torch.float64, device=gram.device),
        evidence=evidence,
    )


def _maximise_evidence(
    eigenvalues: Tensor, projected: Tensor, total: float, n: int
) -> tuple[float, float, float]:
    """Ridge λ (noise over prior variance) of highest evidence, the residual variance there, and it."""
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
    return ridge, residual(ridge) / n, -0.5 * objective(float(found.x))


def _chunks(windows: Any) -> Any:
    """Flattened float64 windows ``(chunk, T p)``, one bounded chunk at a time."""
    size = max(1, _CHUNK_VALUES // math.prod(windows.shape[1:]))
    for start in range(0, len(windows), size):
        yield windows[slice(start, start + size)].double().flatten(1)
