"""The error bar: corrections of a predicted distribution, estimated on a validation set.

A deep kernel trained on the marginal likelihood tends to be over-confident. A :class:`Calibration` is
fitted from predictions, truths and features, whatever predicted them, and corrects in this order:

1. the *level*: the mean residual is added to the mean where it is clearly not chance (distribution shift);
2. the *noise network*: a factor on the variance by the row's features (heteroscedastic noise);
3. the *scale*: one factor on the variance an output;
4. the *tails*: Student's t in place of a Gaussian, of the same variance.

Intervals of distribution-free coverage come from the validation residuals themselves (split conformal
prediction, :meth:`Calibration.radius`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqgp.calibration.noise_net import NoiseNet, fit_noise
from seqgp.calibration.rows import Rows
from seqgp.calibration.shift import level_shift
from seqgp.calibration.tails import fit_tails
from seqgp.distributions import Gaussian, Student

__all__ = ["Calibration", "Labelled", "ranks_kept"]

Array = NDArray[np.float64]
Labelled = tuple[Gaussian, Tensor, Tensor]
"""Predictions of observations, truths ``(n, outputs)`` and features ``(n, width)``."""

_SCORES = 2000  # validation residuals that are kept, evenly in rank
_FEW = 500  # the largest of fewer residuals are a matter of luck: intervals are not narrower than the t's


@dataclass(frozen=True)
class Calibration:
    """Corrections of predictions of standardised targets; arrays are ``(outputs,)`` but ``scores``.

    References:
        Post-processing of an ensemble is best done after averaging: Uncertainty Quantification and Deep
        Ensembles, Rahaman and Thiery 2021, arXiv:2007.08792. Split conformal prediction: Algorithmic
        Learning in a Random World, Vovk, Gammerman and Shafer 2005.

    >>> rng = torch.Generator().manual_seed(0)
    >>> y = 2.0 * torch.randn(4000, 1, generator=rng, dtype=torch.float64)  # twice as far off as predicted
    >>> predicted = Gaussian(torch.zeros_like(y), torch.ones_like(y))
    >>> found = Calibration.fit(predicted, y, features=y[:, :0])
    >>> found(predicted, features=y[:, :0]).std[0].round(1)
    array([2.])
    """

    shift: Array
    """Added to the mean."""
    scale: Array
    """Factor on the variance."""
    trust: Array
    """Power to which the noise network's factor is taken."""
    dof: Array
    """Degrees of freedom of Student's t, infinite for a Gaussian."""
    noise: NoiseNet | None = None
    steps: int = 0
    """Of the noise network's training; 0 where there is none."""
    rows: int = 0
    """Of the validation set."""
    scores: Array | None = None
    """Absolute residuals over deviations, increasing, ``(m, outputs)``: all, or evenly spaced ranks."""

    def __post_init__(self) -> None:
        if not ((self.scale > 0.0).all() and (self.dof > 2.0).all()):
            raise ValueError(
                f"scale={self.scale} and dof={self.dof}, expected scale > 0 and dof > 2: there is no "
                "variance otherwise"
            )
        if self.scores is not None and not (np.diff(self.scores, axis=0, prepend=0.0) >= 0.0).all():
            raise ValueError("scores are not increasing from 0, expected sorted absolute residuals")

    @classmethod
    def none(cls, outputs: int) -> Calibration:
        """No correction."""
        ones = np.ones(outputs)
        return cls(0.0 * ones, ones, 0.0 * ones, np.inf * ones)

    @classmethod
    def fit(
        cls,
        predicted: Gaussian,
        y: Tensor,
        features: Tensor,
        train: Labelled | None = None,
        tails: bool = True,
        shift: bool = True,
    ) -> Calibration:
        """Estimate all corrections on a validation set.

        Args:
            predicted: observations of the validation set, in order of time.
            y: their truths ``(n, outputs)``.
            features: of those rows, ``(n, width)``.
            train: the same three of the training set, for the noise network; without them there is none.
            tails: whether tails may be heavier than a Gaussian's.
            shift: whether the level may be corrected.
        """
        error = y - predicted.mean
        moved = level_shift(error) if shift else torch.zeros_like(error[0])
        held = Rows(predicted, error - moved, features)
        noise, steps = None, 0
        if train is not None:
            noise, steps = fit_noise(_rows(*train), held)
        noise = noise if steps else None
        with torch.no_grad():
            found = [fit_tails(*column, tails) for column in held.columns(noise)]
        fitted = cls(
            shift=moved.cpu().numpy(),
            scale=np.array([each.scale for each in found]),
            trust=np.array([each.trust for each in found]),
            dof=np.array([each.dof for each in found]),
            noise=noise,
            steps=steps,
        )
        return fitted._scored(held)

    @classmethod
    def constant(cls, predicted: Gaussian, y: Tensor, scale: Tensor) -> Calibration:
        """One factor on the variance, and conformal scores.

        Args:
            predicted: observations of the validation set.
            y: their truths ``(n, outputs)``.
            scale: the factor ``(outputs,)``.
        """
        plain = replace(cls.none(y.shape[1]), scale=scale.cpu().numpy())
        return plain._scored(Rows(predicted, y - predicted.mean, y[:, :0]))

    def carried(
        self, before: Gaussian, after: Gaussian, y: Tensor, features: Tensor
    ) -> Calibration:
        """For a second training, whose rows include the validation set.

        The geometric mean of the deviations on those rows stays what it was: the new model's own noise
        has grown by the validation residuals already. Rows that the level was off on are now trained on,
        so it is no longer corrected; whether it will be off again is unknown, so the variance grows by its
        square. The noise network is trained again, for as many steps.

        Args:
            before: predictions of the rows by the first model, on the second's scale.
            after: predictions of the same rows by the second model.
            y: their truths ``(n, outputs)``.
            features: of those rows from the second model, ``(n, width)``.
        """
        noise = None
        if self.steps:
            noise, _ = fit_noise(Rows(after, y - after.mean, features), steps=self.steps)
        logs = before.variance.log().mean(0) - after.variance.log().mean(0)
        scale = self.scale * np.exp(logs.cpu().numpy())
        scale = scale + self.shift**2 / after.variance.mean(0).cpu().numpy()
        return replace(self, shift=np.zeros_like(scale), scale=scale, noise=noise)

    def __call__(self, predicted: Gaussian, features: Tensor, observed: bool = True) -> Student:
        """The corrected distribution of each row and output.

        The same factor multiplies the variance of an observation and that of the latent function, so the
        latter is never larger.

        Args:
            predicted: ``(n, outputs)``.
            features: ``(n, width)``.
            observed: whether these are observations; the latent function has a Gaussian's tails.
        """
        shift = torch.as_tensor(self.shift, device=predicted.mean.device)
        variance = predicted.variance * self._factor(Rows(predicted, predicted.mean, features))
        mean = (predicted.mean + shift).cpu().numpy()
        return Student(mean, variance.sqrt().cpu().numpy(), self.dof if observed else math.inf)

    def radius(self, level: float) -> Array:
        """Deviations from the mean, ``(outputs,)``, that hold a share ``level`` of new residuals.

        At least, if these are exchangeable with the validation residuals, whatever their distribution.
        With fewer than 500 validation rows it is not less than the quantile of the t.
        """
        if self.scores is None:
            raise ValueError(
                "there are no validation residuals to take intervals from: fit with calibrate=True and "
                "a validation set (validation_fraction, or validation=), or use the deviation"
            )
        rank = math.ceil((self.rows + 1) * level - 1e-9)  # 20 · 0.95 is 19, whatever its last bit
        if rank > self.rows:
            raise ValueError(
                f"an interval of level {level:g} needs {math.ceil(level / (1.0 - level))} validation "
                f"rows, and there were {self.rows}: use a lower level, or more validation rows"
            )
        radius: Array = self.scores[np.searchsorted(ranks_kept(self.rows), rank)]
        if self.rows >= _FEW:
            return radius
        unit = Student(np.zeros_like(radius), np.ones_like(radius), self.dof)
        return np.maximum(radius, unit.quantile(0.5 + 0.5 * level))

    @torch.no_grad()
    def _factor(self, rows: Rows) -> Tensor:
        """On the variance: ``(outputs,)``, or ``(n, outputs)`` with a noise network."""
        device = rows.predicted.mean.device
        scale = torch.as_tensor(self.scale, device=device)
        if self.noise is None:
            return scale
        return scale * torch.exp(
            torch.as_tensor(self.trust, device=device) * self.noise(rows.seen())
        )

    def _scored(self, held: Rows) -> Calibration:
        """With the conformal scores of validation rows."""
        deviation = (held.predicted.variance * self._factor(held)).sqrt()
        scores = (held.error.abs() / deviation).sort(0).values.cpu().numpy()
        return replace(self, rows=len(scores), scores=scores[ranks_kept(len(scores)) - 1])


def ranks_kept(rows: int) -> NDArray[np.int64]:
    """Which of so many ordered residuals are kept as scores, counted from 1."""
    return np.unique(np.linspace(1, rows, min(rows, _SCORES)).round().astype(np.int64))


def _rows(predicted: Gaussian, y: Tensor, features: Tensor) -> Rows:
    return Rows(predicted, y - predicted.mean, features)
