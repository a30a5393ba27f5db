"""Rival error bars, each on the same encoder and trained by the same loop as the estimators.

They are built from public parts of :mod:`seqgp` only: its encoders, its training loop, and a network and
a layer of their own. A rival is made of a recipe (of a plain network, see :mod:`paper.recipes`), a seed and
a device, has ``fit(train, validation)``, and ``predictive(windows)`` returns its predictions.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from torch import Tensor, nn

from paper.density import (
    Density,
    DensityHead,
    DensityNetwork,
    GaussianHead,
    VariationalHead,
    split,
)
from paper.models import build, encoder_of
from paper.predictive import Empirical, Predictive, Student
from paper.recipes import Recipe
from seqgp import Standardizer, Training, WindowSet
from seqgp.data import TensorWindows
from seqgp.encoders import Network, ScaledLinear, encode, width_of
from seqgp.estimators import resolve_device
from seqgp.means import fit_mean
from seqgp.training import Layer, Part, Plain, train

__all__ = [
    "RIVALS",
    "Ensemble",
    "HeteroscedasticNet",
    "MCDropout",
    "SplitConformal",
    "VariationalLastLayer",
]

Array = NDArray[np.float64]

_ROWS = 1024


class _Net:
    """An encoder with an end of its own, trained as :class:`seqgp.SequenceNet` is, same seeds included.

    Subclasses set ``layer`` and ``select``, make the network, and make predictions of its output.
    """

    layer: Callable[[int], Layer]
    """From the number of outputs."""
    select: str

    def __init__(self, recipe: Recipe, seed: int = 0, device: str = "auto") -> None:
        self.recipe, self.seed = recipe, seed
        self.device = resolve_device(device)

    def fit(self, windows: WindowSet, validation: WindowSet) -> Self:
        """Train from as many random weights as the recipe says; keep the best on validation rows."""
        self.x_scaler, self.y_scaler = Standardizer.fit(windows.rows()), Standardizer.fit(windows.y)
        name = self.recipe.get("mean", "zero")
        self.mean = fit_mean(name, self._inputs(windows), self._targets(windows))
        part, held = self._part(windows), self._part(validation)
        options = {name: value for name, value in self.recipe.items() if name in _TRAINING}
        settings = Training(**options | {"select": self.select})
        seed = int(check_random_state(self.seed).randint(2**31 - 1))
        trainings = []
        with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            for start in range(self.recipe.get("restarts", 1)):
                torch.manual_seed(seed + start)
                generator = torch.Generator().manual_seed(seed + start)
                network, layer = self._network(part), self.layer(part.y.shape[1])
                trained = train(
                    network,
                    layer,
                    part,
                    settings,
                    validation=held,
                    calibrate=False,
                    generator=generator,
                )
                trainings.append((trained.best_score, network))
        self.network = min(trainings, key=lambda training: training[0])[1]
        return self

    def _network(self, part: Part) -> Network:
        sample = part.windows[slice(0, 2)]
        _, lag, features = sample.shape
        encoder = encoder_of(dict(self.recipe)).build(features, lag).to(self.device)
        return self._ended(encoder, width_of(encoder, sample), part.y).to(self.device)

    @abstractmethod
    def _ended(self, encoder: nn.Module, width: int, y: Tensor) -> Network:
        """The network of an encoder, in units of the targets ``y`` ``(n, outputs)``."""

    def _inputs(self, windows: WindowSet) -> TensorWindows:
        """Standardised windows on the device."""
        return windows.map_features(self.x_scaler.transform).tensor(torch.float32, self.device)

    def _targets(self, windows: WindowSet) -> Tensor:
        """Standardised targets ``(n, outputs)`` on the device."""
        z = torch.as_tensor(self.y_scaler.transform(windows.y), device=self.device)
        return z.reshape(len(z), -1)

    def _part(self, windows: WindowSet) -> Part:
        """Windows, and targets ``(n, outputs)`` less the mean function."""
        inputs = self._inputs(windows)
        line = self.mean.predict(inputs)
        return Part(inputs, self._targets(windows) - line.mean, line.variance)

    def _unscaled(self, mean: Tensor, variance: Tensor) -> Student:
        """A Gaussian on the data's own scale from standardised moments ``(n, outputs)``."""
        shape = (len(mean), *self.y_scaler.shift.shape)
        return Student(
            self.y_scaler.inverse(mean.cpu().numpy().reshape(shape)),
            self.y_scaler.inverse_std(variance.sqrt().cpu().numpy().reshape(shape)),
        )


_TRAINING = set(Training().get_params())


class DensityNet(_Net):
    """A network that learns its own error bar; the best epoch is that of the best density."""

    head: Callable[[int, int], DensityHead]
    """From the width of the features and the number of outputs."""
    select = "nlpd"

    @staticmethod
    def layer(outputs: int) -> Density:
        """Whatever the number of outputs."""
        return Density()

    def _ended(self, encoder: nn.Module, width: int, y: Tensor) -> Network:
        head = self.head(width, y.shape[1]).to(y.device)
        head.measure(y)
        return DensityNetwork(encoder, head)

    def predictive(self, windows: WindowSet, observed: bool = True) -> Student:
        """Gaussian, of a new observation, or of the function without noise.

        Args:
            windows: to predict the targets of.
            observed: whether the variance includes the noise.
        """
        inputs = self._inputs(windows)
        line, found = self.mean.predict(inputs), encode(self.network, inputs)
        latent, noise = split(found.latent, line.mean.shape[1])
        variance = latent + noise if observed else latent
        return self._unscaled(line.mean + found.offset, variance + line.variance)


class HeteroscedasticNet(DensityNet):
    """Mean and variance from the network, trained on the Gaussian likelihood.

    References:
        Estimating the Mean and Variance of the Target Probability Distribution, Nix and Weigend
        1994.
    """

    head = GaussianHead


class VariationalLastLayer(DensityNet):
    """A Bayesian linear last layer, its Gaussian posterior trained with the encoder on the ELBO.

    Two deviations: σ² is learnt without a prior, and w is in units of the targets' deviation.
    As in the authors' code, weight decay is the encoder's alone.

    References:
        Variational Bayesian Last Layers, Harrison, Willes and Snoek 2024, arXiv:2404.11599.
    """

    head = VariationalHead


class MCDropout(_Net):
    """A plain network whose dropout stays on: the spread of many passes, and a constant noise.

    The noise is what the variance of validation errors has beyond that spread. The recipe has the number
    of ``passes`` and a ``dropout`` above 0.

    References:
        Dropout as a Bayesian Approximation, Gal and Ghahramani 2016, arXiv:1506.02142.
    """

    layer = Plain
    select = "rmse"

    def _ended(self, encoder: nn.Module, width: int, y: Tensor) -> Network:
        readout = ScaledLinear(width, y.shape[1]).to(y.device)
        readout.measure(y)
        return Network(encoder, None, readout, y.shape[1])

    def fit(self, windows: WindowSet, validation: WindowSet) -> Self:
        """Train, then fit the noise to the validation errors."""
        super().fit(windows, validation)
        spread = self._spread(validation)
        excess = np.mean((validation.y - spread.mean) ** 2 - spread.std**2, axis=0)
        self.noise: Array = np.maximum(excess, 1e-6 * self.y_scaler.scale**2)
        return self

    def predictive(self, windows: WindowSet) -> Student:
        """Gaussian with the moments of the passes, and the noise."""
        spread = self._spread(windows)
        return Student(spread.mean, np.sqrt(spread.std**2 + self.noise))

    def _spread(self, windows: WindowSet) -> Student:
        """Mean and deviation over passes, without the noise; the same numbers every time."""
        inputs = self._inputs(windows)
        line = self.mean.predict(inputs)
        moments = []
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices), torch.no_grad():
            torch.manual_seed(0)
            self.network.train()
            for start in range(0, len(windows), _ROWS):
                batch = inputs[slice(start, start + _ROWS)]
                passes = range(self.recipe["passes"])
                draws = torch.stack([self.network(batch)[1] for _ in passes])
                moments.append(torch.stack([draws.mean(0), draws.var(0)]))
            self.network.eval()
        mean, spread = torch.cat(moments, dim=1)
        return self._unscaled(line.mean + mean, line.variance + spread)


class Ensemble:
    """Networks with a variance of their own from different seeds, their mixture as one Gaussian.

    The recipe has the number of ``members``. Member k of seed s has the seed ``members · s + k``, so that
    no two ensembles share one.

    References:
        Simple and Scalable Predictive Uncertainty Estimation using Deep Ensembles,
        Lakshminarayanan, Pritzel and Blundell 2017, arXiv:1612.01474.
    """

    def __init__(self, recipe: Recipe, seed: int = 0, device: str = "auto") -> None:
        members = recipe["members"]
        self.nets = [HeteroscedasticNet(recipe, members * seed + k, device) for k in range(members)]

    def fit(self, windows: WindowSet, validation: WindowSet) -> Self:
        """Train each."""
        for net in self.nets:
            net.fit(windows, validation)
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

    def __init__(self, recipe: Recipe, seed: int = 0, device: str = "auto") -> None:
        self.net = build("lstm", recipe, seed, device)

    def fit(self, windows: WindowSet, validation: WindowSet) -> Self:
        """Train, then keep the validation errors."""
        self.net.fit(windows, validation=validation)
        self.residuals: Array = validation.y - self.net.predict(validation)
        return self

    def predictive(self, windows: WindowSet) -> Empirical:
        """The validation errors about the network's mean."""
        return Empirical(np.asarray(self.net.predict(windows)), self.residuals)


class _Rival(Protocol):
    def fit(self, windows: WindowSet, validation: WindowSet) -> Any: ...

    def predictive(self, windows: WindowSet) -> Predictive: ...


RIVALS: dict[str, Callable[[Recipe, int, str], _Rival]] = {
    "lstm-heteroscedastic": HeteroscedasticNet,
    "lstm-dropout": MCDropout,
    "lstm-ensemble": Ensemble,
    "lstm-conformal": SplitConformal,
    "lstm-vbll": VariationalLastLayer,
}
"""By their names in the calibration study: a recipe, a seed and a device to an unfitted rival."""
