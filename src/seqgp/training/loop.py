"""Condition, improve θ, improve w: the one training loop."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import astuple

import torch
from torch import Tensor, nn

from seqgp.exceptions import NotPositiveDefiniteError
from seqgp.inference.posterior import Posterior
from seqgp.training.checkpoint import Checkpoint
from seqgp.training.parts import Ends, EpochRecord, Layer, Part, Settings, Trained, encode
from seqgp.training.run import Best, Diverged, Run
from seqgp.training.state import State, load_random, nested, random_state, section
from seqgp.training.validation import judge

__all__ = ["train"]


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
    checkpoint: Checkpoint | None = None,
    pretrained: bool = False,
    until: Ends | None = None,
) -> Trained:
    """Train ``network`` ``(n, T, p) → (n, d)`` and the layer ``gp`` in place.

    Both are left in their best state: lowest validation NLPD (or RMSE, by ``select``), or lowest
    training NLML where there is no validation part. The loop knows the layer only by
    ``statistics`` and ``posterior``. ``stop`` is asked before every mini-batch but those of the
    first epoch, which is finished so that there is a state to keep. With a ``checkpoint`` every
    epoch's state is saved, and one that is known is gone on from.

    A ``pretrained`` network is worth a GP as it is: θ is settled on its latent points first, as far
    as validation rows agree, and the state before the first epoch, epoch 0, may be the best. With
    ``until`` nothing is chosen: a pre-trained network's θ stays as it is, training ends after that epoch
    (of a schedule for all of them), and its state is kept.

    References:
        Learning Scalable Deep Kernels with Recurrent Structure, Al-Shedivat et al. 2017,
        arXiv:1610.08936, algorithms 1 and 2.
    """
    device = part.y.device
    # Validation rows said how far θ should go, and where ``until`` is known there are none to ask again:
    # the likelihood alone would go on to short lengthscales, which are slow besides.
    run = Run(network, gp, part, settings, hold_theta=pretrained and until is not None)
    best = Best(network, gp)
    history: list[EpochRecord] = []
    diverged, stopped = None, False
    saved = None if checkpoint is None else checkpoint.begin()
    if saved is not None:
        history, diverged = _records(saved.state["history"]), saved.diverged
        best.load(section("best", saved.state), device)
        load_random(section("random", saved.state), generator, device)
        if on_epoch is not None:
            for record in history:
                on_epoch(record)
    over = saved is not None and saved.over
    chosen_by = "nlml" if validation is None else f"val_{settings.select}"
    if saved is None:
        if pretrained and until is None:
            run.settle(validation)
        run.refresh()
        if pretrained:
            network.eval()
            record, scale = _evaluate(0, network, run.posterior, part, validation, settings, run.lr)
            history.append(record)
            best.offer(0, getattr(record, chosen_by), scale)
    elif not over:
        run.load(section("run", saved.state))
    last = settings.epochs if until is None else until.epochs
    for epoch in range(history[-1].epoch + 1 if history else 1, last + 1):
        if over or (settings.patience is not None and epoch - 1 - best.epoch >= settings.patience):
            break
        try:
            network.train()
            stopped = not run.one_epoch(generator, stop if epoch > 1 else None)
            if stopped:
                break
            network.eval()
            posterior = run.posterior_for_evaluation()
        except (Diverged, NotPositiveDefiniteError) as error:
            diverged = str(error)
            break
        record, scale = _evaluate(epoch, network, posterior, part, validation, settings, run.lr)
        history.append(record)
        best.offer(epoch, getattr(record, chosen_by) if until is None else -epoch, scale)
        if checkpoint is not None:
            state = _progress(best, history, generator, device)
            checkpoint.save(state | nested("run", run.state()))
        if on_epoch is not None:
            on_epoch(record)
    best.restore()
    network.eval()
    if checkpoint is not None and not stopped and not over:
        checkpoint.finish(_progress(best, history, generator, device), diverged)
    return Trained(history, best.epoch, best.score, best.scale, diverged, stopped)


def _progress(
    best: Best,
    history: list[EpochRecord],
    generator: torch.Generator | None,
    device: torch.device,
) -> State:
    """What is known of a training whether it is over or not."""
    return {
        "history": torch.tensor([astuple(record) for record in history], dtype=torch.float64),
        **nested("best", best.state()),
        **nested("random", random_state(generator, device)),
    }


def _records(table: Tensor) -> list[EpochRecord]:
    """The history from its table ``(epochs, fields)``; empty where there was no epoch."""
    return [EpochRecord(int(row[0]), *row[1:]) for row in table.tolist()]


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
        found = judge(posterior, encode(network, validation.windows), validation, settings)
        rmse, nlpd, scale = found.rmse, found.nlpd, found.scale
        factor = math.nan if scale is None else float(scale.mean())
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
