"""Condition, improve θ, improve w: the one training loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from seqgp.exceptions import NotPositiveDefiniteError
from seqgp.inference.posterior import Posterior
from seqgp.training.calibration import joint_density, variance_scale
from seqgp.training.schedules import make_schedule
from seqgp.training.surrogates import Surrogate, make_surrogate

__all__ = ["ALGORITHMS", "EpochRecord", "Layer", "Part", "Settings", "Trained", "encode", "train"]

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


def train(
    network: nn.Module,
    gp: Layer,
    part: Part,
    settings: Settings,
    *,
    validation: Part | None = None,
    generator: torch.Generator | None = None,
    on_epoch: Callable[[EpochRecord], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> Trained:
    """Train ``network`` ``(n, T, p) → (n, d)`` and the layer ``gp`` in place.

    Both are left in their best state: lowest validation NLPD (or RMSE, by ``select``), or lowest
    training NLML where there is no validation part. The loop knows the layer only by
    ``statistics`` and ``posterior``. ``stop`` is asked before every mini-batch but those of the
    first epoch, which is finished so that there is a state to keep.

    References:
        Learning Scalable Deep Kernels with Recurrent Structure, Al-Shedivat et al. 2017,
        arXiv:1610.08936, algorithms 1 and 2.
    """
    run = _Run(network, gp, part, settings)
    best = _Best(network, gp)
    history: list[EpochRecord] = []
    diverged = None
    run.refresh()
    for epoch in range(1, settings.epochs + 1):
        try:
            network.train()
            if not run.one_epoch(generator, stop if epoch > 1 else None):
                break
            network.eval()
            posterior = run.posterior_for_evaluation()
        except (_Diverged, NotPositiveDefiniteError) as error:
            diverged = str(error)
            break
        record, scale = _evaluate(epoch, network, posterior, part, validation, settings, run.lr)
        history.append(record)
        if on_epoch is not None:
            on_epoch(record)
        chosen_by = "nlml" if validation is None else f"val_{settings.select}"
        best.offer(epoch, getattr(record, chosen_by), scale)
        if settings.patience is not None and epoch - best.epoch >= settings.patience:
            break
    best.restore()
    network.eval()
    return Trained(history, best.epoch, best.score, best.scale, diverged)


class _Diverged(RuntimeError):
    """A number that should be finite is not."""


class _Run:
    """The state of one training run between two refreshes."""

    posterior: Posterior
    surrogate: Surrogate

    def __init__(self, network: nn.Module, gp: Layer, part: Part, settings: Settings) -> None:
        n = len(part.y)
        self.network, self.layer, self.part, self.settings = network, gp, part, settings
        self.full = settings.algorithm == "full"
        self.batch = n if self.full else min(settings.batch_size, n)
        batches = math.ceil(n / self.batch)
        self.delay = _delay(settings, batches)
        self.at_epoch_end = self.delay == batches
        # Foreign modules may register frozen parameters (a Keras layer keeps its seed as one).
        self.w = [p for p in network.parameters() if p.requires_grad]
        theta = [p for p in gp.parameters() if p.requires_grad]
        self.w_optimiser = torch.optim.AdamW(
            self.w, lr=settings.lr, weight_decay=settings.weight_decay
        )
        self.theta_optimiser = torch.optim.Adam(theta, lr=settings.theta_lr) if theta else None
        self.factor = make_schedule(settings.schedule, settings.epochs * batches, self.delay)
        self.lr = settings.lr
        self.step = 0
        self.since_refresh = 0

    def refresh(self) -> None:
        """Condition on every row at the present weights, improving θ on the way."""
        H = self._encode()
        statistics = self.layer.statistics(H, self.part.y)
        if self.full:
            # Joint step: θ moves by the gradient at the very posterior that w is about to use.
            self.posterior = self._improve_theta(statistics)
        else:
            for _ in range(self.settings.theta_steps):
                self._improve_theta(statistics)
            with torch.no_grad():
                self.posterior = self.layer.posterior(statistics)
        self.surrogate = make_surrogate(self.settings.surrogate, self.posterior, H, self.part.y)
        self.since_refresh = 0

    def _improve_theta(self, statistics: Any) -> Posterior:
        posterior: Posterior = self.layer.posterior(statistics)
        if self.theta_optimiser is not None:
            self.theta_optimiser.zero_grad()
            (posterior.nlml / len(self.part.y)).backward()
            self.theta_optimiser.step()
        return posterior

    def one_epoch(self, generator: torch.Generator | None, stop: Callable[[], bool] | None) -> bool:
        """All mini-batches once, in random order; False if it was stopped on the way."""
        order = torch.randperm(len(self.part.y), generator=generator).to(self.part.y.device)
        total = torch.zeros((), dtype=torch.float64, device=self.part.y.device)
        for index in order.split(self.batch):
            if stop is not None and stop():
                return False
            if self.since_refresh >= self.delay:
                self.refresh()
            h = self.network(self.part.windows[index])
            loss = self.surrogate.loss(h, self.part.y[index], index)
            total += loss.detach()
            self.w_optimiser.zero_grad()
            loss.backward()
            if self.settings.grad_clip is not None:
                nn.utils.clip_grad_norm_(self.w, self.settings.grad_clip)
            self.step += 1
            self.lr = self.settings.lr * self.factor(self.step)
            for group in self.w_optimiser.param_groups:
                group["lr"] = self.lr
            self.w_optimiser.step()
            self.since_refresh += 1
        # Asked once an epoch, because asking makes the CPU wait for the GPU.
        if not bool(torch.isfinite(total)):
            raise _Diverged("the loss is not finite")
        return True

    def _encode(self) -> Tensor:
        H = encode(self.network, self.part.windows)
        if not bool(torch.isfinite(H).all()):
            raise _Diverged("the network's output is not finite")
        return H

    def posterior_for_evaluation(self) -> Posterior:
        """A posterior at the present weights; the one training goes on with, if it is due anyway."""
        if self.at_epoch_end:
            self.refresh()
            if not self.full:
                return self.posterior
        H = self._encode()
        with torch.no_grad():
            statistics = self.layer.statistics(H, self.part.y)
            posterior: Posterior = self.layer.posterior(statistics)
        return posterior


class _Best:
    """The best state seen, kept as copies."""

    def __init__(self, *modules: nn.Module | Layer) -> None:
        self.modules = modules
        self.epoch = 0
        self.score = math.inf
        self.scale: Tensor | None = None
        self._keep()

    def offer(self, epoch: int, score: float, scale: Tensor | None) -> None:
        if score < self.score:  # NaN is never better
            self.epoch, self.score, self.scale = epoch, score, scale
            self._keep()

    def restore(self) -> None:
        for module, state in zip(self.modules, self.states, strict=True):
            module.load_state_dict(state)

    def _keep(self) -> None:
        self.states = [
            {name: value.detach().clone() for name, value in module.state_dict().items()}
            for module in self.modules
        ]


def _delay(settings: Settings, batches: int) -> int:
    """Mini-batches between two conditionings (the paper's τ)."""
    if settings.algorithm in {"full", "alternating"}:
        return 1
    if settings.refresh == "epoch":
        return batches
    return int(settings.refresh)


def _evaluate(
    epoch: int,
    network: nn.Module,
    posterior: Posterior,
    part: Part,
    validation: Part | None,
    settings: Settings,
    lr: float,
) -> tuple[EpochRecord, Tensor | None]:
    rmse = nlpd = factor = math.nan
    scale: Tensor | None = None
    if validation is not None:
        with torch.no_grad():
            h = encode(network, validation.windows)
            mean, variance = posterior.predict(h, observed=True)
        variance = variance.reshape(validation.y.shape)
        if validation.mean_variance is not None:
            variance = variance + validation.mean_variance
        error = validation.y - mean.reshape(validation.y.shape)
        rmse = float(error.square().mean().sqrt())
        if settings.calibrate:
            scale = variance_scale(error, variance)
            variance, factor = variance * scale, float(scale.mean())
        if posterior.correlated:
            with torch.no_grad():
                density = joint_density(posterior, h, error, validation.mean_variance, scale)
        else:
            density = 0.5 * (torch.log(2.0 * math.pi * variance) + error.square() / variance)
        nlpd = float(density.mean())
    record = EpochRecord(
        epoch=epoch,
        nlml=float(posterior.nlml.detach()) / len(part.y),
        val_rmse=rmse,
        val_nlpd=nlpd,
        val_scale=factor,
        noise=float(posterior.noise.mean()),
        lr=lr,
    )
    return record, scale
