"""Error bars in use today, each on the same encoder and trained by the same loop as everything else.

All are made with the options of :class:`seqgp.SequenceNet`, have ``fit(train, validation=...)``, and say
what they predict by ``predictive(windows)``, see :mod:`paper.predictive`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from paper.predictive import Empirical, Student
from seqgp.data import WindowSet
from seqgp.estimator import SequenceNet
from seqgp.estimator.rows import windows_on
from seqgp.inference import Diagnostics
from seqgp.inference.readout import ReadoutPosterior

__all__ = [
    "Ensemble",
    "HeteroscedasticNet",
    "MCDropout",
    "SplitConformal",
    "VariationalLastLayer",
]

Array = NDArray[np.float64]

# Of standardised targets: the floor is that of every other noise here, the other end a hundred
# times the deviation of the targets.
_LOG_VARIANCE = (math.log(1e-6), math.log(1e4))
_ROWS = 1024


def _deviation(y: Tensor) -> Tensor:
    """Of targets ``(n, outputs)``, at least that of the floor."""
    return y.std(0, correction=0).clamp_min(math.exp(0.5 * _LOG_VARIANCE[0]))


@dataclass(frozen=True)
class DensityPosterior(ReadoutPosterior):
    """Everything is in ``h`` ``(n, 3 outputs + 1)``: mean, variance of the mean, log σ², penalty.

    The penalty is the whole training set's, the same in every row: a row bears 1/n of it.
    """

    def _moments(self, h: Tensor, variance: bool) -> tuple[Tensor, Tensor | None]:
        mean, latent, _ = self._pieces(h)
        return mean, latent if variance else None

    def _pieces(self, h: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        k = len(self.noise)
        mean, latent, log_noise, _ = h.double().split([k, k, k, 1], dim=1)
        return mean, latent, log_noise.exp()

    def predict(self, h: Tensor, observed: bool = False) -> tuple[Tensor, Tensor]:
        """Mean and variance ``(n, outputs)``; the noise is each row's own."""
        mean, latent, noise = self._pieces(h)
        return mean, latent + noise if observed else latent

    def loss(self, h: Tensor, y: Tensor) -> Tensor:
        """Expected negative log-likelihood of each row, ``(n,)``, and its share of the penalty."""
        mean, latent, noise = self._pieces(h)
        distance = (y.to(mean).reshape(mean.shape) - mean).square() + latent
        density = 0.5 * (torch.log(2.0 * math.pi * noise) + distance / noise)
        return density.sum(-1) + h[:, -1].double() / self.diagnostics.n


class Density(nn.Module):
    """Stands where a :class:`seqgp.GP` stands, for heads that say their own variance. Holds no θ."""

    def statistics(self, H: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """The rows themselves."""
        return H, y

    def posterior(self, statistics: tuple[Tensor, Tensor]) -> DensityPosterior:
        """Whatever the head says; ``nlml`` is the loss of all rows, ``noise`` the mean of theirs."""
        H, y = statistics
        k, n = y.shape[1], len(y)
        noise = H[:, 2 * k : 3 * k].double().exp().mean(0)
        found = DensityPosterior(torch.zeros(()), noise, False, Diagnostics("density", n))
        return DensityPosterior(found.loss(H, y).sum(), noise, False, found.diagnostics)

    def restart(self) -> None:
        """Nothing is remembered from one conditioning to the next."""


class DensityNet(SequenceNet):
    """A network that learns its own error bar; the best epoch is that of the best density."""

    select = "nlpd"

    def __init__(self, calibrate: bool = False, **options: Any) -> None:
        super().__init__(calibrate=calibrate, **options)

    @classmethod
    def _get_param_names(cls) -> list[str]:
        names: list[str] = SequenceNet._get_param_names()
        return names

    def _new_layer(self, outputs: int, inference: str, grid_size: int | None) -> Any:
        return Density()

    def predictive(self, windows: WindowSet) -> Student:
        """Gaussian."""
        return Student(*self.predict(windows, return_std=True))


class GaussianHead(nn.Module):
    """``(n, width) → (n, 3 outputs + 1)``: a mean and a log variance, both linear; no penalty."""

    unit: Tensor

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__()
        self.outputs = outputs
        self.linear = nn.Linear(width, 2 * outputs)
        self.register_buffer("unit", torch.ones(outputs))

    @torch.no_grad()
    def measure(self, y: Tensor) -> None:
        """Let the deviation of ``y`` ``(n, outputs)`` be the unit, and the variance that at first."""
        self.unit.copy_(_deviation(y))
        self.linear.bias[self.outputs :] = 0.0

    def forward(self, features: Tensor) -> Tensor:
        """``(n, width) → (n, 3 outputs + 1)``."""
        mean, log_variance = self.linear(features).split(self.outputs, dim=1)
        nothing = torch.zeros_like(mean)
        log_variance = (log_variance + 2.0 * self.unit.log()).clamp(*_LOG_VARIANCE)
        return torch.cat([mean * self.unit, nothing, log_variance, nothing[:, :1]], dim=1)


class HeteroscedasticNet(DensityNet):
    """Mean and variance from the network, trained on the Gaussian likelihood.

    References:
        Estimating the Mean and Variance of the Target Probability Distribution, Nix and Weigend
        1994.

    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.standard_normal((80, 6, 1)), rng.standard_normal(80)
    >>> net = HeteroscedasticNet(hidden=4, epochs=1, random_state=0, progress=False).fit(X, y)
    >>> net.predictive(X).std.shape
    (80,)
    """

    def _new_head(self, width: int, outputs: int) -> Any:
        return GaussianHead(width, outputs)


class VariationalHead(nn.Module):
    """``(n, width) → (n, 3 outputs + 1)``: moments of ``wᵀφ`` under q(w), log σ², KL(q ‖ prior).

    φ are the features and a one. For each output ``q(w) = N(μ, LLᵀ)`` and the prior is ``N(0, I)``;
    σ² has none, and is a point estimate.
    """

    unit: Tensor
    pace = 10.0
    """log σ² moves so many times as fast as a weight, which is how fast a GP's parameters move."""

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__()
        d = width + 1
        self.mean = nn.Parameter(torch.empty(outputs, d).uniform_(-1.0, 1.0) / math.sqrt(d))
        self.lower = nn.Parameter(torch.zeros(outputs, d, d))
        self.log_diagonal = nn.Parameter(torch.zeros(outputs, d))
        self.log_noise = nn.Parameter(torch.zeros(outputs))
        self.register_buffer("unit", torch.ones(outputs))
        for parameter in self.parameters():
            parameter.decay = False  # type: ignore[attr-defined]  # the KL is what shrinks these

    @torch.no_grad()
    def measure(self, y: Tensor) -> None:
        """Let the deviation of ``y`` ``(n, outputs)`` be the unit; the doubt about w starts below it."""
        self.unit.copy_(_deviation(y))
        self.log_diagonal.fill_(-math.log(self.mean.shape[1]))

    def factor(self) -> Tensor:
        """L ``(outputs, d, d)``, lower triangular."""
        return self.lower.tril(-1) + torch.diag_embed(self.log_diagonal.exp())

    def forward(self, features: Tensor) -> Tensor:
        """``(n, width) → (n, 3 outputs + 1)``."""
        phi = torch.cat([features, torch.ones_like(features[:, :1])], dim=1)
        L = self.factor()
        variance = torch.einsum("nd,kde->nke", phi, L).square().sum(-1)
        size = L.square().sum() + self.mean.square().sum() - self.mean.numel()
        kl = 0.5 * size - self.log_diagonal.sum()
        log_noise = self.pace * self.log_noise + 2.0 * self.unit.log()
        constant = torch.cat([log_noise.clamp(*_LOG_VARIANCE), kl[None]])
        moments = phi @ self.mean.T * self.unit, variance * self.unit.square()
        return torch.cat([*moments, constant.expand(len(phi), -1)], dim=1)


class VariationalLastLayer(DensityNet):
    """A Bayesian linear last layer, its Gaussian posterior trained with the encoder on the ELBO.

    Two deviations: σ² is learnt without a prior, and w is in units of the targets' deviation.
    As in the authors' code, weight decay is the encoder's alone.

    References:
        Variational Bayesian Last Layers, Harrison, Willes and Snoek 2024, arXiv:2404.11599.

    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.standard_normal((80, 6, 1)), rng.standard_normal(80)
    >>> net = VariationalLastLayer(hidden=4, epochs=1, random_state=0, progress=False).fit(X, y)
    >>> net.predictive(X).std.shape
    (80,)
    """

    def _new_head(self, width: int, outputs: int) -> Any:
        return VariationalHead(width, outputs)


class MCDropout:
    """A plain network whose dropout stays on: the spread of many passes, and a constant noise.

    The noise is what validation errors have beyond that spread. ``dropout`` is at least 0.1.

    References:
        Dropout as a Bayesian Approximation, Gal and Ghahramani 2016, arXiv:1506.02142.
    """

    def __init__(self, passes: int = 50, dropout: float = 0.1, **options: Any) -> None:
        self.passes = passes
        self.net = SequenceNet(dropout=max(dropout, 0.1), **options)

    def fit(self, train: WindowSet, validation: WindowSet) -> Self:
        """Train, then fit the noise to the validation errors."""
        self.net.fit(train, validation=validation)
        mean, variance = self._moments(validation)
        excess = np.mean((validation.y - mean) ** 2 - variance, axis=0)
        self.noise: Array = np.maximum(excess, 1e-6 * self.net.y_scaler_.scale**2)
        return self

    def predictive(self, windows: WindowSet) -> Student:
        """Gaussian with the moments of the passes, and the noise."""
        mean, variance = self._moments(windows)
        return Student(mean, np.sqrt(variance + self.noise))

    def _moments(self, windows: WindowSet) -> tuple[Array, Array]:
        """Mean and variance over passes, without the noise; the same numbers every time."""
        net, device = self.net, self.net.posterior_.noise.device
        inputs = windows_on(device, windows, net.x_scaler_)
        offset, variance = net.mean_function_.predict(inputs)
        rows = [slice(start, start + _ROWS) for start in range(0, len(windows), _ROWS)]
        moments = []
        with torch.random.fork_rng([device] if device.type == "cuda" else []), torch.no_grad():
            torch.manual_seed(0)
            net.network_.train()
            for part in rows:
                batch = inputs[part]
                draws = torch.stack([net.network_(batch) for _ in range(self.passes)]).double()
                moments.append(torch.stack([draws.mean(0), draws.var(0)]))
            net.network_.eval()
        mean, spread = torch.cat(moments, dim=1)
        shape = (len(windows), *net.y_scaler_.shift.shape)
        means = net.y_scaler_.inverse((offset + mean).cpu().numpy().reshape(shape))
        deviation = (variance + spread).sqrt().cpu().numpy().reshape(shape)
        return means, net.y_scaler_.inverse_std(deviation) ** 2


class Ensemble:
    """Networks with a variance of their own from different seeds, their mixture as one Gaussian.

    The member k of seed s starts from seed ``members · s + k``: no two ensembles share one.

    References:
        Simple and Scalable Predictive Uncertainty Estimation using Deep Ensembles,
        Lakshminarayanan, Pritzel and Blundell 2017, arXiv:1612.01474.
    """

    def __init__(self, members: int = 5, random_state: int = 0, **options: Any) -> None:
        self.nets = [
            HeteroscedasticNet(random_state=members * random_state + k, **options)
            for k in range(members)
        ]

    def fit(self, train: WindowSet, validation: WindowSet) -> Self:
        """Train each."""
        for net in self.nets:
            net.fit(train, validation=validation)
        return self

    def predictive(self, windows: WindowSet) -> Student:
        """Gaussian with the mixture's mean and variance."""
        each = [net.predictive(windows) for net in self.nets]
        means = np.stack([one.mean for one in each])
        variances = np.stack([one.std for one in each]) ** 2
        return Student(means.mean(0), np.sqrt(variances.mean(0) + means.var(0)))


class SplitConformal:
    """A plain network with the quantiles of its validation errors to either side.

    References:
        Distribution-Free Predictive Inference for Regression, Lei et al. 2018, arXiv:1604.04173.
    """

    def __init__(self, **options: Any) -> None:
        self.net = SequenceNet(**options)

    def fit(self, train: WindowSet, validation: WindowSet) -> Self:
        """Train, then keep the validation errors."""
        self.net.fit(train, validation=validation)
        self.residuals: Array = validation.y - self.net.predict(validation)
        return self

    def predictive(self, windows: WindowSet) -> Empirical:
        """The validation errors about the network's mean."""
        return Empirical(np.asarray(self.net.predict(windows)), self.residuals)
