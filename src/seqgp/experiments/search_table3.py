"""The options of table 3's rows, searched on validation rows; the test part is not looked at.

Each row of the table has one to three candidates, and takes the one with the lowest validation RMSE
over two seeds. What they do not say is as in ``table3.recipe`` without them.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import pandas as pd
import torch

from seqgp.exceptions import TrainingWarning
from seqgp.experiments import table3
from seqgp.metrics import coverage, nlpd, rmse

__all__ = ["CANDIDATES", "KEYS", "cells", "markdown", "run_cell", "settings"]

KEYS = ("dataset", "model", "mode", "options", "seed")
CANDIDATES: dict[tuple[str, str, str], tuple[str, ...]] = {
    ("car-lanes", "gp-lstm", "autoregression"): ("epochs=20 theta_steps=2 lr=0.001 dropout=0.2",),
    ("car-lanes", "gp-narx", "autoregression"): ("epochs=20 theta_steps=2 lr=0.001 dropout=0.2",),
    ("car-lanes", "lstm", "autoregression"): (
        "epochs=30",
        "epochs=30 lr=0.0005 dropout=0.2",
    ),
    ("car-lead", "gp-lstm", "autoregression"): (
        "epochs=40",
        "epochs=40 dropout=0.2 lr=0.001",
    ),
    ("car-lead", "gp-narx", "autoregression"): ("epochs=40 dropout=0.2 lr=0.001",),
    ("car-lead", "lstm", "autoregression"): (
        "epochs=40",
        "epochs=40 lr=0.0005",
    ),
    ("car-speed", "gp-lstm", "autoregression"): (
        "epochs=30",
        "epochs=30 dropout=0.2 lr=0.001",
    ),
    ("car-speed", "gp-narx", "autoregression"): ("epochs=30",),
    ("car-speed", "lstm", "autoregression"): (
        "epochs=30",
        "epochs=30 lr=0.0005",
    ),
    ("car-speed", "gp-lstm", "regression"): (
        "dropout=0.3 epochs=25 pretrain_epochs=15",
        "dropout=0.3 epochs=40 weight_decay=0.1",
    ),
    ("car-speed", "gp-narx", "regression"): ("dropout=0.3 epochs=40",),
    ("car-speed", "lstm", "regression"): (
        "dropout=0.1 epochs=40 lr=0.001",
        "dropout=0.3 epochs=40",
    ),
    ("car-yaw", "gp-lstm", "autoregression"): (
        "epochs=30",
        "epochs=30 dropout=0.2 lr=0.001",
    ),
    ("car-yaw", "gp-narx", "autoregression"): ("epochs=30",),
    ("car-yaw", "lstm", "autoregression"): (
        "epochs=30",
        "epochs=30 lr=0.0005",
    ),
    ("car-yaw", "gp-lstm", "regression"): (
        "dropout=0.3 epochs=25 pretrain_epochs=15",
        "dropout=0.3 epochs=40 weight_decay=0.1",
    ),
    ("car-yaw", "gp-narx", "regression"): ("dropout=0.3 epochs=40",),
    ("car-yaw", "lstm", "regression"): (
        "dropout=0.1 epochs=40 lr=0.001",
        "dropout=0.3 epochs=40",
    ),
    ("gef-power", "gp-lstm", "autoregression"): (
        "lr=0.003 hidden=128 epochs=60 weight_decay=0.1",
        "lr=0.003 pretrain_epochs=40 epochs=20 hidden=128 weight_decay=0.1",
        "lr=0.003 pretrain_epochs=40 epochs=20 hidden=64",
    ),
    ("gef-power", "gp-narx", "autoregression"): ("pretrain_epochs=40 epochs=20 hidden=128",),
    ("gef-power", "lstm", "autoregression"): (
        "hidden=128 lr=0.003 weight_decay=0.1 epochs=60",
        "lr=0.003 epochs=60",
    ),
    ("gef-power", "gp-lstm", "regression"): (
        "dropout=0.25 weight_decay=0.1 epochs=30",
        "dropout=0.25 weight_decay=0.1 epochs=30 pretrain_epochs=15",
    ),
    ("gef-power", "gp-narx", "regression"): ("dropout=0.25 weight_decay=0.1 epochs=30",),
    ("gef-power", "lstm", "regression"): (
        "dropout=0.25 weight_decay=0.1 epochs=30",
        "dropout=0.4 weight_decay=0.1 epochs=30 hidden=128",
    ),
    ("gef-wind", "gp-lstm", "autoregression"): (
        "batch_size=512 epochs=12 dropout=0.2",
        "batch_size=512 epochs=12 dropout=0.2 pretrain_epochs=4 lr=0.001",
    ),
    ("gef-wind", "gp-narx", "autoregression"): ("batch_size=512 epochs=12 dropout=0.2",),
    ("gef-wind", "lstm", "autoregression"): (
        "batch_size=512 epochs=12 dropout=0.2",
        "batch_size=512 epochs=12 dropout=0.2 lr=0.001",
    ),
    ("gef-wind", "gp-lstm", "regression"): (
        "batch_size=512 epochs=12 lr=0.0005 dropout=0.3 weight_decay=0.1 pretrain_epochs=3",
        "batch_size=512 epochs=12 lr=0.002 dropout=0.3 weight_decay=0.1",
    ),
    ("gef-wind", "gp-narx", "regression"): (
        "batch_size=512 epochs=12 lr=0.002 dropout=0.3 weight_decay=0.1",
    ),
    ("gef-wind", "lstm", "regression"): (
        "batch_size=512 epochs=12 lr=0.0005 dropout=0.3 weight_decay=0.1",
    ),
}
_WHOLE = {"epochs", "pretrain_epochs", "batch_size", "hidden", "theta_steps"}


def cells(seeds: int, quick: bool = False) -> list[tuple[Any, ...]]:
    """All candidates of all rows."""
    return [
        (*row, options, seed)
        for seed in range(seeds)
        for row, candidates in CANDIDATES.items()
        for options in candidates
    ]


def settings(cell: tuple[Any, ...], quick: bool = False) -> dict[str, Any]:
    """The estimator's options."""
    _, model, mode, options, _ = cell
    pairs = (part.split("=") for part in options.split())
    chosen = {name: int(value) if name in _WHOLE else float(value) for name, value in pairs}
    return table3.shortened(model, table3.common(model, mode) | chosen, quick)


def run_cell(cell: tuple[Any, ...], quick: bool = False) -> dict[str, Any]:
    """Train once; errors on validation rows, which also chose the epoch."""
    torch.set_num_threads(1)
    start = time.perf_counter()
    dataset, model, mode, _, seed = cell
    train, validation, _ = table3.parts(dataset, mode, model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)
        fitted = table3.new(model, settings(cell, quick), int(seed)).fit(
            train, validation=validation
        )
    mean, std = fitted.predict(validation, return_std=True)
    scale = train.y.std(0)
    return {
        **dict(zip(KEYS, cell, strict=True)),
        "rmse_z": rmse(validation.y / scale, mean / scale),
        "nlpd": nlpd(validation.y / scale, mean / scale, std / scale),
        "cov95": coverage(validation.y, mean, std),
        "seconds": time.perf_counter() - start,
    }


def markdown(table: pd.DataFrame) -> str:
    """Every candidate's mean validation error, the best of each row marked."""
    lines = [
        "# Options of table 3, searched on validation rows",
        "",
        f"Validation RMSE (z), mean over {table.seed.nunique()} seed(s); the lowest of a row is taken.",
        "",
        "| data | model | mode | options | RMSE z | NLPD |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for (dataset, model, mode), rows in table.groupby(["dataset", "model", "mode"], sort=False):
        each = rows.groupby("options")[["rmse_z", "nlpd"]].mean()
        for options, found in each.iterrows():
            best = "**" if options == each.rmse_z.idxmin() else ""
            lines.append(
                f"| {dataset} | {model} | {mode} | {options} "
                f"| {best}{found.rmse_z:.4f}{best} | {found.nlpd:.3f} |"
            )
    return "\n".join(lines) + "\n"
