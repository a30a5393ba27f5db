"""Predictive distributions: of one value (Student's t), and Gaussians of an ensemble and their mixture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy import special
from scipy.stats import norm, t
from torch import Tensor

__all__ = ["Gaussian", "Student", "mixture"]

Array = NDArray[np.float64]
Scale = Array | float


@dataclass(frozen=True)
class Student:
    """Student's t about ``mean`` with standard deviation ``std``; Gaussian where ``dof`` is infinite.

    ``dof`` is above 2, one number or ``(outputs,)``: the scale of the t is ``std √((dof − 2)/dof)``.

    References:
        Evaluating Probabilistic Forecasts with scoringRules, Jordan, Krüger and Lerch 2019,
        arXiv:1709.04743, appendix A: the CRPS of the t.

    >>> one = Student(np.zeros(1), np.ones(1))
    >>> round(one.nlpd([0.0]), 4), round(one.crps([0.0]), 4), one.pit([0.0])
    (0.9189, 0.2337, array([0.5]))
    """

    mean: Array
    std: Array
    dof: Scale = math.inf

    def __post_init__(self) -> None:
        if not (np.asarray(self.dof) > 2.0).all():
            raise ValueError(f"dof={self.dof!r}, expected above 2: a t with fewer has no deviation")

    def nlpd(self, y: ArrayLike, scale: Scale = 1.0) -> float:
        """Mean negative log density, in nats per value.

        Args:
            y: truths.
            scale: unit in which the density is expressed: that of ``y / scale``.
        """
        z, unit, dof = self._standard(y)
        density = self._either(norm.logpdf(z), t.logpdf(z, dof))
        return float(np.mean(np.log(unit / scale) - density))

    def crps(self, y: ArrayLike, scale: Scale = 1.0) -> float:
        """Mean CRPS, in closed form.

        Args:
            y: truths.
            scale: unit in which the score is expressed: that of ``y / scale``.
        """
        z, unit, dof = self._standard(y)
        normal = z * (2.0 * norm.cdf(z) - 1.0) + 2.0 * norm.pdf(z) - 1.0 / math.sqrt(math.pi)
        spread = np.exp(special.betaln(0.5, dof - 0.5) - 2.0 * special.betaln(0.5, 0.5 * dof))
        student = (
            z * (2.0 * t.cdf(z, dof) - 1.0)
            + 2.0 * t.pdf(z, dof) * (dof + z**2) / (dof - 1.0)
            - 2.0 * np.sqrt(dof) / (dof - 1.0) * spread
        )
        return float(np.mean(unit / scale * self._either(normal, student)))

    def pit(self, y: ArrayLike) -> Array:
        """Probability of less than ``y``."""
        z, _, dof = self._standard(y)
        return self._either(norm.cdf(z), t.cdf(z, dof))

    def quantile(self, level: float) -> Array:
        """The value that is exceeded with a probability of ``1 - level``."""
        _, unit, dof = self._standard(self.mean)
        return self.mean + unit * self._either(norm.ppf(level), t.ppf(level, dof))

    def interval(self, level: float) -> tuple[Array, Array]:
        """Central interval, as wide to either side of the mean."""
        return self.quantile(0.5 - 0.5 * level), self.quantile(0.5 + 0.5 * level)

    def draw(self, generator: np.random.Generator, samples: int | None = None) -> Array:
        """Random draws.

        Args:
            generator: of random numbers.
            samples: how many, along a first axis; None for one without that axis.
        """
        size = np.shape(self.mean) if samples is None else (samples, *np.shape(self.mean))
        normal = generator.standard_normal(size)
        if np.isinf(self.dof).all():
            return self.mean + self.std * normal
        _, unit, dof = self._standard(self.mean)
        # A t is a Gaussian over the root of a chi-square of its own.
        chi = generator.chisquare(np.broadcast_to(dof, size)) / dof
        return self.mean + unit * normal / self._either(np.ones_like(chi), np.sqrt(chi))

    def _standard(self, y: ArrayLike) -> tuple[Array, Array, Array]:
        """``y`` in units of the t's scale, that scale, and degrees of freedom (3 for a Gaussian)."""
        dof = np.where(np.isinf(self.dof), 3.0, self.dof)
        unit = self.std * self._either(np.ones_like(dof), np.sqrt((dof - 2.0) / dof))
        return (np.asarray(y) - self.mean) / unit, unit, dof

    def _either(self, normal: ArrayLike, student: ArrayLike) -> Array:
        return np.where(np.isinf(self.dof), normal, student)


@dataclass(frozen=True)
class Gaussian:
    """Independent Gaussians as tensors ``(n, outputs)``: what a model predicts before calibration."""

    mean: Tensor
    variance: Tensor


def mixture(parts: Sequence[Gaussian]) -> Gaussian:
    """Mean and variance of an even mixture, such as the predictions of an ensemble.

    Args:
        parts: of the same shape, at least one.

    References:
        Simple and Scalable Predictive Uncertainty Estimation using Deep Ensembles, Lakshminarayanan,
        Pritzel and Blundell 2017, arXiv:1612.01474.

    >>> zero, two = torch.zeros(1, 1), torch.full((1, 1), 2.0)
    >>> both = mixture([Gaussian(zero, zero + 1.0), Gaussian(two, zero + 3.0)])
    >>> both.mean, both.variance
    (tensor([[1.]]), tensor([[3.]]))
    """
    if len(parts) == 1:
        return parts[0]
    means = torch.stack([part.mean for part in parts])
    mean = means.mean(0)
    within = torch.stack([part.variance for part in parts]).mean(0)
    return Gaussian(mean, within + (means - mean).square().mean(0))
