"""A fitted model: what happens between the GP posterior and the number that a user gets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from seqgp.blueprint import Blueprint
from seqgp.calibration import Calibration, roughness
from seqgp.data import Standardizer, TensorWindows, WindowSet
from seqgp.distributions import Gaussian, Student, mixture
from seqgp.encoders import Encoded, Network, encode
from seqgp.inference import Posterior
from seqgp.means import MeanFunction
from seqgp.training import Layer

__all__ = ["Fitted", "Inputs", "Member", "Record", "standardised"]

Array = NDArray[np.float64]
Inputs = Tensor | TensorWindows
"""Standardised float32 windows ``(n, T, p)`` on the model's device."""

_PREDICT_ROWS = 4096


@dataclass(frozen=True)
class Record:
    """How a training went."""

    history: pd.DataFrame
    """One row per epoch: NLML per row, validation RMSE and NLPD (of standardised targets), the factor on
    the variance, noise, learning rate."""
    best_epoch: int
    """The epoch whose state was kept."""
    pretrained_epochs: int
    """The best epoch of pre-training."""
    seed: int


@dataclass(frozen=True)
class Member:
    """One training, frozen: a network and a GP conditioned on its latent points."""

    network: Network
    """In evaluation mode; nothing switches it, so that threads may predict with it."""
    layer: Layer
    statistics: Any
    """Of the rows, as the layer makes them."""
    posterior: Posterior
    record: Record

    @classmethod
    def conditioned(
        cls, network: Network, layer: Layer, encoded: Encoded, y: Tensor, record: Record
    ) -> Member:
        """A member conditioned on rows.

        Args:
            network: trained.
            layer: trained.
            encoded: what the network makes of the rows.
            y: their targets less the mean function, ``(n, outputs)``.
            record: of the training.
        """
        statistics = layer.statistics(encoded.latent, y - encoded.offset)
        return cls.restored(network, layer, statistics, record)

    @classmethod
    def restored(cls, network: Network, layer: Layer, statistics: Any, record: Record) -> Member:
        """A member from statistics of its rows.

        Args:
            network: trained.
            layer: trained.
            statistics: as the layer makes them.
            record: of the training.
        """
        layer.restart()  # an iterative solve then depends on nothing that came before
        with torch.no_grad():
            posterior = layer.posterior(statistics)
        return cls(network, layer, statistics, posterior, record)

    def encode(self, x: Inputs) -> Encoded:
        """Latent points, offset, and features with the roughness of the window."""
        return encode(self.network, x, beside=roughness)

    @torch.no_grad()
    def predict(self, encoded: Encoded, observed: bool = True) -> Gaussian:
        """What the GP and the readout add to the mean function, ``(n, outputs)``.

        Args:
            encoded: what :meth:`encode` made of windows.
            observed: whether the variance is that of an observation.
        """
        parts = [self.posterior.predict(h, observed) for h in encoded.latent.split(_PREDICT_ROWS)]
        mean, variance = (torch.cat(column) for column in zip(*parts, strict=True))
        return Gaussian(mean + encoded.offset, variance)

    def updated(self, x: Inputs, y: Tensor) -> Member:
        """Conditioned on more rows, as if it had had them from the start.

        Args:
            x: windows.
            y: their targets less the mean function, ``(n, outputs)``.
        """
        encoded = encode(self.network, x)
        more = self.layer.statistics(encoded.latent, y - encoded.offset)
        return self.restored(self.network, self.layer, self.statistics + more, self.record)


@dataclass(frozen=True)
class Fitted:
    """A fitted model: an ensemble about one mean function, calibrated, on the data's own scale."""

    blueprint: Blueprint
    """The options that it was trained with."""
    members: tuple[Member, ...]
    """The best first; they are averaged."""
    mean: MeanFunction
    calibration: Calibration
    x_scaler: Standardizer
    y_scaler: Standardizer
    rows: int
    """That it is conditioned on."""

    def predict(self, windows: Array | WindowSet, observed: bool = True) -> Student:
        """The distribution of each row, ``(n,)`` or ``(n, outputs)``, on the targets' own scale.

        Args:
            windows: ``(n, T, p)``.
            observed: of an observation, or else of the latent function.
        """
        predicted, features = self.predicted(self.inputs(windows), observed)
        calibrated = self.calibration(predicted, features, observed)
        return self._unscaled(calibrated)

    def predicted(self, x: Inputs, observed: bool = True) -> tuple[Gaussian, Tensor]:
        """Before calibration, standardised: the mean function and the average of the members.

        And the features by which the noise network tells rows apart, ``(n, width)``.

        Args:
            x: windows.
            observed: of an observation, or else of the latent function.
        """
        line = self.mean.predict(x)
        encoded = [member.encode(x) for member in self.members]
        pairs = zip(self.members, encoded, strict=True)
        mixed = mixture([member.predict(seen, observed) for member, seen in pairs])
        features = encoded[0].features
        assert features is not None  # asked for
        return Gaussian(line.mean + mixed.mean, mixed.variance + line.variance), features

    def updated(self, windows: Array | WindowSet, y: ArrayLike) -> Fitted:
        """Conditioned on more rows; network, parameters, scales, mean function and calibration stay.

        Args:
            windows: ``(n, T, p)``.
            y: targets ``(n,)`` or ``(n, outputs)``.
        """
        x, z = self.inputs(windows), self.targets(y)
        # A level that has moved is the calibration's: the GP models what lies about it.
        left = (
            z
            - self.mean.predict(x).mean
            - torch.as_tensor(self.calibration.shift, device=self.device)
        )
        members = tuple(member.updated(x, left) for member in self.members)
        return replace(self, members=members, rows=self.rows + len(z))

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.members[0].posterior.noise.device

    def inputs(self, windows: Array | WindowSet) -> Inputs:
        """Standardised float32 windows on the device; a WindowSet stays a view there."""
        return standardised(windows, self.x_scaler, self.device)

    def targets(self, y: ArrayLike) -> Tensor:
        """Standardised targets ``(n, outputs)`` on the device."""
        z = torch.as_tensor(self.y_scaler.transform(y), device=self.device)
        return z.reshape(len(z), -1)

    def _unscaled(self, calibrated: Student) -> Student:
        scaler = self.y_scaler
        size = (len(calibrated.mean), *scaler.shift.shape)
        mean = scaler.inverse(calibrated.mean.reshape(size))
        std = scaler.inverse_std(calibrated.std.reshape(size))
        dof = np.broadcast_to(calibrated.dof, scaler.shift.shape or (1,)).reshape(
            scaler.shift.shape
        )
        return Student(mean, std, dof)


def standardised(windows: Array | WindowSet, scaler: Standardizer, device: torch.device) -> Inputs:
    """Standardised float32 windows on a device; a WindowSet stays a view there.

    Args:
        windows: ``(n, T, p)``.
        scaler: of the features.
        device: where they go.
    """
    if isinstance(windows, WindowSet):
        return windows.map_features(scaler.transform).tensor(torch.float32, device)
    return torch.as_tensor(scaler.transform(windows), dtype=torch.float32, device=device)
