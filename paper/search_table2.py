"""The options of table 2's rows, searched on validation rows; the test part is not looked at.

Plain networks are searched over the options that the GP models were given, one step ahead (for free
simulation they keep those of regression), and so are the GP models that a plain network had beaten.
"""

from __future__ import annotations

import itertools
import time
import warnings
from typing import Any

import pandas as pd

from paper import table2
from seqgp.estimator import SequenceGP, SequenceNet
from seqgp.exceptions import TrainingWarning
from seqgp.metrics import nlpd, rmse

__all__ = ["KEYS", "cells", "markdown", "run_cell", "settings"]

KEYS = ("dataset", "model", "mode", "options", "seed")
MODES = ("regression", "autoregression")
_GRID: dict[str, tuple[Any, ...]] = {
    "lr": (3e-3, 1e-2),
    "dropout": (0.1, 0.25),
    "skip": (False, True),
    "weight_decay": (0.0, 0.3),
    "hidden": (16, 64),
}
_EPOCHS = 120
_GP_AGAIN = (
    ("drives", "gp-narx", "autoregression"),
    ("drives", "gp-rnn", "autoregression"),
    ("actuator", "gp-lstm", "autoregression"),
)


def cells(seeds: int, quick: bool = False) -> list[tuple[Any, ...]]:
    """All searched rows of table 2, all options, side by side."""
    rows = [
        (dataset, model, mode)
        for dataset in table2.DATASETS
        for model in ("narx", "rnn", "lstm")
        for mode in MODES
    ]
    names = [
        " ".join(f"{key}={value:g}" for key, value in zip(_GRID, values, strict=True))
        for values in itertools.product(*_GRID.values())
    ]
    return [
        (*row, name, seed) for seed in range(seeds) for row in (*rows, *_GP_AGAIN) for name in names
    ]


def settings(cell: tuple[Any, ...], quick: bool = False) -> dict[str, Any]:
    """The estimator's options."""
    dataset, model, _, name, _ = cell
    values = dict(part.split("=") for part in name.split())
    return {
        "encoder": model.removeprefix("gp-"),
        "mean": "zero",
        "calibrate": False,
        "batch_size": table2.BATCH[dataset],
        "epochs": 3 if quick else _EPOCHS,
        **{key: type(_GRID[key][0])(float(value)) for key, value in values.items()},
    }


def run_cell(cell: tuple[Any, ...], quick: bool = False) -> dict[str, Any]:
    """Train once; errors on validation rows, which also chose the epoch."""
    import torch

    torch.set_num_threads(1)
    start = time.perf_counter()
    dataset, model, mode, _, seed = cell
    train, _, validation = table2.parts(dataset, mode, model)
    kind = SequenceGP if model.startswith("gp-") else SequenceNet
    estimator = kind(**settings(cell, quick), random_state=int(seed), device="cpu", progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)
        estimator.fit(train, validation=validation)
    scale = float(train.y.std())
    mean, std = estimator.predict(validation, return_std=True)
    return {
        **dict(zip(KEYS, cell, strict=True)),
        "rmse_z": rmse(validation.y, mean) / scale,
        "nlpd": nlpd(validation.y / scale, mean / scale, std / scale),
        "seconds": time.perf_counter() - start,
    }


def markdown(table: pd.DataFrame) -> str:
    """The best options of each row, and the spread over all."""
    lines = [
        "# Options of table 2, searched on validation rows",
        "",
        f"Validation RMSE (z), mean over {table.seed.nunique()} seed(s), of the best of "
        f"{table.options.nunique()} sets of options (a GP model: the best by NLPD), and the median set's.",
        "",
        "| data | model | mode | best options | best | median |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for (dataset, model, mode), rows in table.groupby(["dataset", "model", "mode"], sort=False):
        each = rows.groupby("options")[["rmse_z", "nlpd"]].mean()
        best = str(each["nlpd" if str(model).startswith("gp-") else "rmse_z"].idxmin())
        lines.append(
            f"| {dataset} | {model} | {mode} | {best} | {each.rmse_z[best]:.3f} "
            f"| {each.rmse_z.median():.3f} |"
        )
    return "\n".join(lines) + "\n"
