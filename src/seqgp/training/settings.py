"""How to train: one object of options."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from sklearn.base import BaseEstimator

from seqgp.training.schedules import SCHEDULES
from seqgp.training.surrogates import SURROGATES

__all__ = ["ALGORITHMS", "SELECTIONS", "Training", "is_integer"]

ALGORITHMS = ("full", "alternating", "delayed")
SELECTIONS = ("nlpd", "rmse")


@dataclass(repr=False)
class Training(BaseEstimator):
    """Options of training, for a GP model and for a plain network.

    Args:
        epochs: passes over the training rows.
        lr: learning rate of the network (AdamW).
        batch_size: rows in a mini-batch.
        weight_decay: of the network's weights.
        grad_clip: largest norm of the network's gradient, or None.
        schedule: of ``lr``: ``"constant"``, ``"cosine"``, or another registered name.
        patience: stop after so many epochs without improvement, or None.
        select: what the best epoch is best in, on the validation set: ``"nlpd"`` (the predictive
            density: mean and deviation together) or ``"rmse"`` (the mean alone).
        pretrain_epochs: epochs of training the encoder as a plain network on squared errors beforehand.
            The GP on the encoder as it is then, epoch 0, may be the best.
        pretrain_lr: learning rate of those epochs; by default ``lr``.
        theta_lr: learning rate of the kernel's and the likelihood's parameters (Adam, log scale).
        theta_steps: steps on those at each renewal of the posterior.
        algorithm: ``"delayed"`` (the posterior is renewed every ``refresh`` mini-batches),
            ``"alternating"`` (at every mini-batch) or ``"full"`` (no mini-batches).
        refresh: mini-batches between two renewals of the posterior, or ``"epoch"``.
        surrogate: what mini-batches descend on between two renewals: ``"posterior"``, or another
            registered name; see :mod:`seqgp.training.surrogates`.

    References:
        Learning Scalable Deep Kernels with Recurrent Structure, Al-Shedivat et al. 2017,
        arXiv:1610.08936, algorithms 1 and 2.
    """

    epochs: int = 100
    lr: float = 1e-3
    batch_size: int = 128
    weight_decay: float = 0.0
    grad_clip: float | None = 5.0
    schedule: str = "constant"
    patience: int | None = None
    select: str = "nlpd"
    pretrain_epochs: int = 0
    pretrain_lr: float | None = None
    theta_lr: float = 0.02
    theta_steps: int = 2
    algorithm: str = "delayed"
    refresh: int | str = "epoch"
    surrogate: str = "posterior"

    def check(self) -> None:
        """Raise a ``ValueError`` for the first option that is out of its range."""
        _ = SCHEDULES[self.schedule], SURROGATES[self.surrogate]
        for name, choices in (("algorithm", ALGORITHMS), ("select", SELECTIONS)):
            value = getattr(self, name)
            if value not in choices:
                raise ValueError(f"{name}={value!r} is not known: use one of {', '.join(choices)}")
        least = {"epochs": 0, "batch_size": 1, "theta_steps": 0, "pretrain_epochs": 0}
        for name, lowest in least.items():
            value = getattr(self, name)
            if not (is_integer(value) and value >= lowest):
                raise ValueError(f"{name}={value!r} must be an integer of at least {lowest}")
        for name in ("lr", "theta_lr"):
            value = getattr(self, name)
            if not (isinstance(value, Real) and float(value) > 0):
                raise ValueError(f"{name}={value!r} must be a positive number")
        whole = is_integer(self.refresh) and int(self.refresh) >= 1
        if self.refresh != "epoch" and not whole:
            raise ValueError(
                f"refresh={self.refresh!r} must be a number of mini-batches of at least 1, or 'epoch'"
            )
        for name in ("patience", "grad_clip", "pretrain_lr"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name}={value!r} must be positive, or None")


def is_integer(value: Any) -> bool:
    """Whether it is a whole number, and not a truth value."""
    return isinstance(value, Integral) and not isinstance(value, bool)
