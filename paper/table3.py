"""Smart grid and car: the paper's table 3, on the recordings that can be had.

Split in time: the first 56% of the windows train, the next 19% choose (a quarter of what is not the
test part, as the paper does), the last 25% test. A window ends at t and its target is one step later;
forecasts of the wind are known ahead, so there the window ends with the forecasts for the target's
own hour. Modes: ``regression`` from inputs alone, ``autoregression`` from past targets too. What was
chosen is then trained again on training and validation rows together. Errors are shown in own units and
on targets standardised by those rows (z); over several targets the root of the mean square of all.

The car recordings are not the paper's: there, models are compared with one another only.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
import torch

from paper import datasets
from paper.baselines import Boosting, LinearModel, Persistence
from paper.published import TABLE_3
from paper.table3_options import CANDIDATES, parsed
from seqgp.data import WindowSet, split_in_time
from seqgp.estimator import SequenceGP, SequenceNet
from seqgp.exceptions import TrainingWarning
from seqgp.metrics import coverage, nlpd, rmse

__all__ = [
    "FRACTIONS",
    "KEYS",
    "MODELS",
    "TASKS",
    "cells",
    "markdown",
    "parts",
    "recipe",
    "run_cell",
    "settings",
    "trained",
    "windows_of",
]

KEYS = ("dataset", "model", "mode", "seed")
TASKS = (
    ("gef-power", "autoregression"),
    ("gef-power", "regression"),
    ("gef-wind", "regression"),
    ("gef-wind", "autoregression"),
    ("car-speed", "regression"),
    ("car-speed", "autoregression"),
    ("car-yaw", "regression"),
    ("car-yaw", "autoregression"),
    ("car-lanes", "autoregression"),
    ("car-lead", "autoregression"),
)
MODELS = ("persistence", "ridge", "boosting", "lstm", "gp-narx", "gp-lstm")
FIXED = {"persistence", "ridge", "boosting"}  # nothing random in them, or nothing that matters
FRACTIONS = (0.5625, 0.1875, 0.25)
_LAG = {
    "gef-power": 48,
    "gef-wind": 48,
    "car-speed": 32,
    "car-yaw": 32,
    "car-lanes": 16,
    "car-lead": 16,
}
# Of tasks whose fits take minutes; the others have as many as asked for.
_SEEDS = {"car-speed": 3, "car-yaw": 3, "car-lanes": 3}


def cells(seeds: int, quick: bool = False) -> list[tuple[Any, ...]]:
    """Every model on every task: three seeds for most of the car, else as many as asked for."""
    return [
        (dataset, model, mode, seed)
        for seed in range(seeds)
        for dataset, mode in TASKS
        for model in MODELS
        if seed < (1 if model in FIXED else _SEEDS.get(dataset, seeds))
        and (model != "boosting" or dataset.startswith("gef"))
    ]


def windows_of(dataset: str, mode: str, model: str = "") -> WindowSet:
    """All windows of a recording, in time order."""
    data = datasets.load(dataset)
    lag = _LAG[dataset]
    inputs, targets = data.runs(lag + 1)
    if dataset == "gef-wind":
        # Row s then has the forecasts for s + 1, which are known at s; the last hour has none.
        inputs = [np.concatenate([x[1:], x[-1:]]) for x in inputs]
    past = mode == "autoregression" or model == "persistence"
    windows = WindowSet(inputs, targets, lag=lag, mode="autoregression" if past else "regression")
    if dataset == "gef-wind":  # targets in the hours that the competition gave for training
        usage = data.marks["usage"].reshape(len(inputs), -1)
        windows = windows.subset(usage[windows.series_index, windows.time] == "Training")
    return windows


def parts(dataset: str, mode: str, model: str = "") -> tuple[WindowSet, WindowSet, WindowSet]:
    """Training, validation and test windows."""
    windows = windows_of(dataset, mode, model)
    # Farms are split each at the same hour; other recordings are one after the other in time.
    rows = windows if dataset == "gef-wind" else len(windows)
    first, second, third = split_in_time(rows, FRACTIONS, gap=windows.lag)
    return windows.subset(first), windows.subset(second), windows.subset(third)


def recipe(dataset: str, model: str, mode: str, quick: bool) -> dict[str, Any]:
    """Options of the estimator for one model of the table."""
    chosen = CANDIDATES[dataset, model, mode][0]
    return shortened(model, common(model, mode) | parsed(chosen), quick)


def shortened(model: str, options: dict[str, Any], quick: bool) -> dict[str, Any]:
    """The options, for a first look where ``quick``."""
    if not quick:
        return options
    return options | {"epochs": 2} | ({"pretrain_epochs": 0} if model.startswith("gp-") else {})


def common(model: str, mode: str) -> dict[str, Any]:
    """Options that all data sets share, unless a recipe or a candidate says otherwise."""
    options: dict[str, Any] = {
        "encoder": model.removeprefix("gp-"),
        "hidden": 64,
        "batch_size": 256,
        "lr": 2e-3,
        "schedule": "cosine",
        "epochs": 60,
        "mean": "linear" if mode == "autoregression" else "zero",
    }
    if model.startswith("gp-"):
        options |= {"inference": "grid", "theta_steps": 5}
    return options


def settings(cell: tuple[Any, ...], quick: bool = False) -> dict[str, Any]:
    """All that decides a cell's numbers, to be stored beside them."""
    dataset, model, mode, _ = cell
    found: dict[str, Any] = {"lag": _LAG[dataset]}
    if model in FIXED:
        return found
    return found | {"refit": True, **recipe(dataset, model, mode, quick)}


def estimator(cell: tuple[Any, ...], quick: bool, **changes: Any) -> SequenceGP | SequenceNet:
    """The model of a cell, unfitted."""
    dataset, model, mode, seed = cell
    return new(model, recipe(dataset, model, mode, quick) | changes, int(seed))


def new(model: str, options: dict[str, Any], seed: int) -> SequenceGP | SequenceNet:
    """An unfitted model with those options."""
    kind = SequenceGP if model.startswith("gp-") else SequenceNet
    return kind(**options, random_state=seed, progress=False)


def trained(estimator: Any, train: WindowSet, validation: WindowSet) -> Any:
    """Fitted, then trained again on all rows: those held back to choose by are data too, and the newest."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)
        return estimator.fit(train, validation=validation).refit(train.union(validation))


def run_cell(cell: tuple[Any, ...], quick: bool = False) -> dict[str, Any]:
    """Train and test one model; the row of the table."""
    torch.set_num_threads(1)  # small recurrent nets are fastest so; cells run side by side
    dataset, model, mode, seed = cell
    start = time.perf_counter()
    train, validation, test = parts(dataset, mode, model)
    known = train.union(validation)
    baselines: dict[str, Any] = {
        "persistence": Persistence,
        "ridge": LinearModel,
        "boosting": Boosting,
    }
    if model in baselines:
        fitted: Any = baselines[model]().fit(train, validation)
    else:
        fitted = trained(estimator(cell, quick), train, validation)
    mean, std = fitted.predict(test, return_std=True)
    dof = getattr(fitted, "dof_", np.inf)
    scale = known.y.std(0)
    return {
        "dataset": dataset,
        "model": model,
        "mode": mode,
        "seed": seed,
        "rmse": rmse(test.y, mean),
        "rmse_z": rmse(test.y / scale, mean / scale),
        "nlpd": nlpd(test.y / scale, mean / scale, std / scale, dof),
        "cov95": coverage(test.y, mean, std, dof=dof),
        "seconds": time.perf_counter() - start,
    }


def markdown(table: pd.DataFrame) -> str:
    """Mean (deviation) over seeds of every cell, beside the paper's."""
    lines = [
        "# Smart grid and car (the paper's table 3)",
        "",
        "Test RMSE, mean (standard deviation) over seeds: in the data's own units, and on targets "
        "standardised by all rows before the test part (z). NLPD is on the z-scale, coverage that of "
        "the 95% interval. The paper's figures are for its own recordings of the car, so they are not "
        "beside these; for GEF it does not say whether past targets were inputs. In regression, "
        "persistence knows the last target, which the other models are not given.",
    ]
    for dataset, mode in TASKS:
        part = table[(table.dataset == dataset) & (table["mode"] == mode)]
        if part.empty:
            continue
        lines += [
            "",
            f"## {dataset}, {mode}",
            "",
            "| model | seeds | RMSE | RMSE z | paper | NLPD | coverage | seconds |",
            "| --- | --- | --- | --- | --- | --- | --- | --- |",
        ]
        for model in MODELS:
            rows = part[part.model == model]
            if rows.empty:
                continue
            paper = TABLE_3.get(dataset, {}).get(model)
            own, z = (
                # Of equal numbers a mean may round, and then they would differ from it.
                (each.mean(), each.std(ddof=0) if np.ptp(each) else 0.0)
                for each in (rows.rmse, rows.rmse_z)
            )
            quoted = "" if paper is None else f"{paper[0]:.2f} ({paper[1]:.2f})"
            lines.append(
                f"| {model} | {len(rows)} | {own[0]:.4g} ({own[1]:.2g}) | {z[0]:.4g} ({z[1]:.2g}) "
                f"| {quoted} "
                f"| {rows.nlpd.mean():.3f} | {rows.cov95.mean():.3f} | {rows.seconds.mean():.0f} |"
            )
    return "\n".join(lines) + "\n"
