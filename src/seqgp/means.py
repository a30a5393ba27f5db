"""Mean functions of the window: ``zero``, or ``linear`` with a Bayesian ridge.

scikit-learn's ``BayesianRidge`` wants all windows in memory at once; this one streams them, since
a million windows of a hundred steps do not fit. With one prior variance for all coefficients the two
agree; the default prior has a variance for each column (automatic relevance determination) that decays with
the lag, both chosen by the evidence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar
from torch import Tensor

from seqgp.distributions import Gaussian

__all__ = ["MEANS", "LinearMean", "MeanFunction", "ZeroMean", "fit_mean"]

MEANS = ("zero", "linear")
_CHUNK_VALUES = 4_000_000  # numbers in one materialised chunk of windows, whatever their size
_STEPS = 60  # of the search for the prior; 20 to 50 are usually enough
_MOST_DECAY = 4.0
# The logs of the columns' prior deviations have a normal prior of deviation 2: a factor of 7 is usual.
_COLUMNS = 2.0
# Columns may be exact combinations of one another, and then rounding alone makes a matrix singular.
_ROUNDING = 1e-12


class MeanFunction(Protocol):
    """A fitted mean function: windows ``(n, T, p)`` → mean and its variance, ``(n, outputs)``."""

    def predict(self, windows: Any) -> Gaussian:
        """Mean and variance for each window ``(T, p)``."""
        ...


@dataclass(frozen=True)
class ZeroMean:
    """Nothing but zeros, known exactly."""

    outputs: int
    device: torch.device

    def predict(self, windows: Any) -> Gaussian:
        """Zeros ``(n, outputs)``, known exactly."""
        zeros = torch.zeros(len(windows), self.outputs, dtype=torch.float64, device=self.device)
        return Gaussian(zeros, zeros)


@dataclass(frozen=True)
class LinearMean:
    """Linear in the flattened window, with the posterior uncertainty of its coefficients.

    For each output, the coefficient of column ``f`` at ``l`` steps before the target has the prior
    deviation ``s_f l^-decay`` (automatic relevance determination that tightens with the lag). All ``s_f``,
    the decay and the residual variance maximise the evidence.

    References:
        Bayesian Interpolation, MacKay 1992. Forecasting and Conditional Projection Using Realistic
        Prior Distributions, Doan, Litterman and Sims 1984 (a prior that tightens with the lag, and for
        other series than the one predicted).
    """

    centre: Tensor
    """Mean of the flattened windows ``(k,)``, ``k = T p``."""
    weight: Tensor
    """Coefficients ``(k, outputs)``."""
    intercept: Tensor
    """``(outputs,)``."""
    vectors: Tensor
    """Principal axes ``(k, k)`` of the windows it was fitted to."""
    axis_variance: Tensor
    """Posterior variance of the coefficient along each axis, ``(k, outputs)``.

    What coefficients along two axes have in common is left out, since it would be a matrix for each output.
    It is nothing under plain ridge regression, and nothing on average over the windows of the fit.
    """
    intercept_variance: Tensor
    """``(outputs,)``."""

    def predict(self, windows: Any) -> Gaussian:
        """Mean and variance of the linear part, ``(n, outputs)`` each."""
        means, variances = [], []
        for rows in _chunks(windows):
            x = rows - self.centre
            means.append(x @ self.weight + self.intercept)
            spread = (x @ self.vectors).square() @ self.axis_variance
            variances.append(spread + self.intercept_variance)
        return Gaussian(torch.cat(means), torch.cat(variances))


def fit_mean(name: str, windows: Any, y: Tensor, plain: bool = False) -> MeanFunction:
    """Fit a mean function.

    Args:
        name: ``"zero"`` or ``"linear"``.
        windows: ``(n, T, p)``.
        y: targets ``(n, outputs)``.
        plain: whether ``"linear"`` is ridge regression, with one prior variance for all coefficients.
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
    eigenvalues, vectors = torch.linalg.eigh(gram)
    eigenvalues = eigenvalues.clamp_min(0.0)
    lines = []
    for j, size in enumerate(total):
        line = _ridge(eigenvalues, vectors, moment[:, j], size, n)
        if not plain:
            prior = _Prior(gram, moment[:, j], size, n, windows.shape[2])
            line = prior.line(prior.search(line.ridge), vectors)
        lines.append(line)
    return LinearMean(
        centre=centre,
        weight=torch.stack([line.weight for line in lines], -1),
        intercept=y_mean,
        vectors=vectors.contiguous(),  # a product's rounding depends on it, and a saved model keeps it
        axis_variance=torch.stack([line.axis_variance for line in lines], -1),
        intercept_variance=torch.tensor(
            [line.residual / n for line in lines], dtype=torch.float64, device=y.device
        ),
    )


@dataclass(frozen=True)
class _Line:
    """Of one output; shapes as in :class:`LinearMean`."""

    weight: Tensor
    axis_variance: Tensor
    residual: float
    """The residual variance."""
    ridge: float = math.nan
    """It over the prior variance, where all coefficients have the same."""


def _ridge(eigenvalues: Tensor, vectors: Tensor, moment: Tensor, total: float, n: int) -> _Line:
    """The posterior under one prior deviation for all coefficients."""
    projected = vectors.T @ moment
    ridge, residual = _maximise_evidence(eigenvalues, projected, total, n)
    weight = vectors @ (projected / (eigenvalues + ridge))
    return _Line(weight, residual / (eigenvalues + ridge), residual, ridge)


class _Prior:
    """Evidence of one output's rows for prior deviations, from the sums over them.

    Deviations ``(k,)`` are in units of the noise's, and functions of ``(s, s_1, ..., s_p, decay)``.
    """

    def __init__(self, gram: Tensor, moment: Tensor, total: float, n: int, features: int) -> None:
        self.gram, self.moment, self.total, self.n = gram, moment, total, n
        self.features = features
        self.one = torch.eye(len(moment), dtype=gram.dtype, device=gram.device)
        self.log_lag = np.log(np.arange(len(moment) // features, 0, -1.0))[:, None]

    def search(self, ridge: float) -> NDArray[np.float64]:
        """What the evidence is highest for, beginning with plain ridge regression."""
        start = np.array([-0.5 * math.log(ridge), *np.zeros(self.features), 0.0])
        free = (-8.0, 8.0) if self.features > 1 else (0.0, 0.0)
        bounds = [(start[0] - 15.0, start[0] + 15.0), *[free] * self.features, (0.0, _MOST_DECAY)]
        found = minimize(
            self.value,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": _STEPS},
        )
        best: NDArray[np.float64] = found.x
        return best

    def value(self, p: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Negative log evidence, but for a constant, and its slope in ``p``."""
        unit, lower, weight, residual = self._solved(p)
        value = 0.5 * self.n * math.log(residual) + float(lower.diagonal().log().sum())
        # Mean square of each coefficient under the posterior, in units of its prior's and the noise's.
        square = torch.cholesky_inverse(lower).diagonal()
        square = square + self.n / residual * (weight / unit).square()
        signal, noise = self._diagonal(unit)
        slope = 1.0 - noise * square + _ROUNDING * signal * square.sum()
        each = slope.cpu().numpy().reshape(-1, self.features)
        columns = p[1:-1]
        value += 0.5 * float(np.sum(columns**2)) / _COLUMNS**2
        by_column = each.sum(0) + columns / _COLUMNS**2
        return value, np.array([each.sum(), *by_column, -np.sum(each * self.log_lag)])

    def line(self, p: NDArray[np.float64], vectors: Tensor) -> _Line:
        """The posterior, its variance along the axes ``vectors``."""
        unit, lower, weight, residual = self._solved(p)
        spread = torch.linalg.solve_triangular(lower, unit[:, None] * vectors, upper=False)
        variance = residual / self.n
        return _Line(weight, variance * spread.square().sum(0), variance)

    def _solved(self, p: NDArray[np.float64]) -> tuple[Tensor, Tensor, Tensor, float]:
        """Deviations, the factor of the posterior's precision, coefficients, sum of squares left."""
        unit = self.deviations(p)
        _, noise = self._diagonal(unit)
        lower = torch.linalg.cholesky(unit[:, None] * self.gram * unit + noise * self.one)
        scaled = (unit * self.moment)[:, None]
        weight = unit * torch.cholesky_solve(scaled, lower)[:, 0]
        return unit, lower, weight, _left(self.total, float(weight @ self.moment))

    def deviations(self, p: NDArray[np.float64]) -> Tensor:
        """Of the prior, ``(k,)``."""
        logs = p[0] + p[1:-1] - p[-1] * self.log_lag
        return torch.as_tensor(logs.ravel(), device=self.gram.device).exp()

    def _diagonal(self, unit: Tensor) -> tuple[Tensor, Tensor]:
        """What the precision has on its diagonal: of the signal ``(k,)``, and of the noise."""
        signal = unit.square() * self.gram.diagonal()
        return signal, 1.0 + _ROUNDING * signal.sum()


def _left(total: float, explained: float) -> float:
    """Sum of squares; the floor keeps an exactly linear target from asking for the logarithm of zero."""
    return max(total - explained, 1e-12 * total, 1e-300)


def _maximise_evidence(
    eigenvalues: Tensor, projected: Tensor, total: float, n: int
) -> tuple[float, float]:
    """Ridge λ (noise over prior variance) of highest evidence, and the residual variance there."""
    squared = projected.square()

    def residual(ridge: float) -> float:
        return _left(total, float((squared / (eigenvalues + ridge)).sum()))

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
