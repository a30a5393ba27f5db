"""Condition, improve θ, improve w: the one training loop."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import astuple

import torch
from torch import Tensor

from seqgp.encoders import Network
from seqgp.exceptions import NotPositiveDefiniteError
from seqgp.inference import Posterior
from seqgp.training.checkpoint import Checkpoint, State, load_random, nested, random_state, section
from seqgp.training.parts import Ends, EpochRecord, Layer, Part, Trained
from seqgp.training.run import Best, Diverged, Run
from seqgp.training.selection import judge
from seqgp.training.settings import Training

__all__ = ["train"]


def train(
    network: Network,
    layer: Layer,
    part: Part,
    settings: Training,
    *,
    validation: Part | None = None,
    calibrate: bool = True,
    generator: torch.Generator | None = None,
    on_epoch: Callable[[EpochRecord], None] | None = None,
    stop: Callable[[], bool] | None = None,
    checkpoint: Checkpoint | None = None,
    pretrained: bool = False,
    until: Ends | None = None,
) -> Trained:
    """Train a network and the layer on it, in place; both are left in their best state.

    That is the state of lowest validation NLPD (or RMSE, by ``settings.select``), or of lowest
    training NLML where there is no validation part.

    Args:
        network: windows ``(n, T, p)`` to latent points and offset.
        layer: a :class:`seqgp.GP`, or :class:`seqgp.training.Plain` for a plain network; known only by
            ``statistics`` and ``posterior``.
        part: training rows.
        settings: how to train.
        validation: rows on which epochs are compared.
        calibrate: whether epochs are compared under the best factor on the predicted variance.
        generator: of the order of rows.
        on_epoch: called with the record of every epoch.
        stop: asked before every mini-batch but those of the first epoch, which is finished so that there
            is a state to keep, whether to end early.
        checkpoint: written after every epoch, and gone on from where it knows this training.
        pretrained: whether the network was trained before: θ is then settled on its latent points first,
            and the state before the first epoch, epoch 0, may be the best.
        until: the epochs after which to end, with nothing selected: for a second training on more rows.
            A pre-trained network's θ stays as it is then.

    References:
        Learning Scalable Deep Kernels with Recurrent Structure, Al-Shedivat et al. 2017,
        arXiv:1610.08936, algorithms 1 and 2.
    """
    device = part.y.device
    # Without a validation set the likelihood alone would take θ on to short lengthscales.
    run = Run(
        network, layer, part, settings, calibrate, hold_theta=pretrained and until is not None
    )
    best = Best(network, layer)

    def evaluate(epoch: int, posterior: Posterior) -> tuple[EpochRecord, Tensor | None]:
        rmse = nlpd = factor = math.nan
        scale: Tensor | None = None
        if validation is not None:
            found = judge(posterior, run.encode(validation), validation, calibrate)
            rmse, nlpd, scale = found.rmse, found.nlpd, found.scale
            factor = math.nan if scale is None else float(scale.mean())
        record = EpochRecord(
            epoch=epoch,
            nlml=float(posterior.nlml.detach()) / len(part.y),
            val_rmse=rmse,
            val_nlpd=nlpd,
            val_scale=factor,
            noise=float(posterior.noise.mean()),
            lr=run.lr,
        )
        return record, scale

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
            record, scale = evaluate(0, run.posterior)
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
        record, scale = evaluate(epoch, posterior)
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
