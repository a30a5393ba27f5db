"""What training works on, and what it gives: rows, layers, records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor, nn

from seqgp.encoders import Windows
from seqgp.inference import Posterior

__all__ = ["Ends", "EpochRecord", "Layer", "Part", "Trained"]


class Layer(Protocol):
    """What training needs of a GP: its parameters, statistics of the rows, a posterior from those."""

    def statistics(self, H: Tensor, y: Tensor) -> Any: ...

    def posterior(self, statistics: Any) -> Posterior: ...

    def restart(self) -> None: ...

    def parameters(self) -> Iterator[nn.Parameter]: ...

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> Any: ...


@dataclass(frozen=True)
class Part:
    """Rows to train or validate on: windows, targets ``(n, outputs)`` less the mean function."""

    windows: Windows
    y: Tensor
    mean_variance: Tensor | None = None
    """Variance of the mean function at each row ``(n, outputs)``, part of the prediction."""


@dataclass(frozen=True)
class Ends:
    """How far each stage of a training went, or is to go."""

    pretrained: int
    """Epochs of pre-training."""
    epochs: int


@dataclass(frozen=True)
class EpochRecord:
    """One line of the history. NLML is per row in nats; the rest on the targets' scale."""

    epoch: int
    nlml: float
    val_rmse: float
    val_nlpd: float
    val_scale: float
    """Factor on the variance under which validation errors have their size, mean over outputs."""
    noise: float
    lr: float


@dataclass(frozen=True)
class Trained:
    """What training leaves besides the improved modules."""

    history: list[EpochRecord]
    best_epoch: int
    best_score: float
    """What the best epoch was chosen by, at that epoch; lower is better."""
    variance_scale: Tensor | None
    """Factor ``(outputs,)`` on the predictive variance, from the validation set at the best epoch."""
    diverged: str | None
    """Why training had to stop early, if it had to."""
    stopped: bool
    """Whether it was asked to stop before its end."""
