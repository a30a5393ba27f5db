"""What training works on, and what it gives: rows, layers, settings, records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from seqgp.inference.posterior import Posterior

__all__ = [
    "ALGORITHMS",
    "Ends",
    "EpochRecord",
    "Layer",
    "Part",
    "Settings",
    "Trained",
    "Windows",
    "encode",
]

ALGORITHMS = ("full", "alternating", "delayed")
# Rows at once in a pass without gradients: what stays in a CPU's cache, and what fills a GPU.
_ENCODE_ROWS = {"cpu": 256, "cuda": 8192}


class Windows(Protocol):
    """Rows of windows: a tensor ``(n, T, p)``, or anything that makes such batches when indexed."""

    @property
    def device(self) -> torch.device: ...

    def __len__(self) -> int: ...

    def __getitem__(self, index: Any) -> Tensor: ...


class Layer(Protocol):
    """What training needs of a GP: its parameters, a summary of the rows, a posterior from that."""

    def statistics(self, H: Tensor, y: Tensor) -> Any: ...

    def posterior(self, statistics: Any) -> Posterior: ...

    def restart(self) -> None: ...

    def parameters(self) -> Iterator[nn.Parameter]: ...

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
class Settings:
    """How to train; the estimator documents each."""

    algorithm: str = "delayed"
    surrogate: str = "posterior"
    refresh: int | str = "epoch"
    epochs: int = 100
    batch_size: int = 128
    lr: float = 1e-3
    theta_lr: float = 0.02
    theta_steps: int = 2
    schedule: str = "constant"
    grad_clip: float | None = 5.0
    weight_decay: float = 0.0
    patience: int | None = None
    select: str = "nlpd"
    calibrate: bool = True


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
    """Factor ``(outputs,)`` on the predictive variance, from validation rows at the best epoch."""
    diverged: str | None
    """Why training had to stop early, if it had to."""
    stopped: bool
    """Whether it was asked to stop before its end."""


def encode(network: nn.Module, windows: Windows) -> Tensor:
    """Latent points ``(n, d)`` of all windows: no gradient, no dropout, float64."""
    training = network.training
    network.eval()
    size = _ENCODE_ROWS.get(windows.device.type, 1024)
    with torch.no_grad():
        rows = [
            network(windows[slice(start, start + size)]).double()
            for start in range(0, len(windows), size)
        ]
    network.train(training)
    return torch.cat(rows)
