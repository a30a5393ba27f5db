"""The options of table 3's rows, searched on validation rows; the test part is not looked at.

Each row of the table has some candidates, and takes the one with the lowest validation RMSE over the
seeds it was run with: two, and three where candidates are close. Those of the car with past targets are
compared on more rows (:mod:`paper.quarters`).
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import pandas as pd
import torch

from paper import table3
from paper.quarters import CHOSEN
from paper.table3_options import CANDIDATES, parsed
from seqgp.exceptions import TrainingWarning
from seqgp.metrics import coverage, nlpd, rmse

__all__ = ["KEYS", "cells", "markdown", "run_cell", "settings"]

KEYS = ("dataset", "model", "mode", "options", "seed")


def cells(seeds: int, quick: bool = False) -> list[tuple[Any, ...]]:
    """All candidates of all rows."""
    return [
        (*row, options, seed)
        for seed in range(seeds)
        for row, candidates in CANDIDATES.items()
        if row not in CHOSEN
        for options in candidates
    ]


def settings(cell: tuple[Any, ...], quick: bool = False) -> dict[str, Any]:
    """The estimator's options."""
    _, model, mode, options, _ = cell
    return table3.shortened(model, table3.common(model, mode) | parsed(options), quick)


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
        f"Validation RMSE (z), mean over up to {table.seed.nunique()} seeds; the lowest of a row is taken. "
        "A GP's mean may be shifted and drawn to a line by what these rows say, a plain network's is not: "
        "compare options of one model only.",
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
