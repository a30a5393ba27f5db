"""The options of table 3's rows on the car with past targets, searched on rows before its test part.

The part of table 3 that chooses is of few drives there: of the vehicle ahead it is one vehicle, which keeps
its distance. So each quarter of the rows before the test part is held back in turn, the rest is cut as the
table cuts, training and scoring are the table's, and an option is judged by its errors on all four.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pandas as pd
import torch

from seqgp.experiments import table3
from seqgp.experiments.quarters import turned
from seqgp.experiments.table3_options import CANDIDATES, parsed
from seqgp.metrics import coverage, nlpd, rmse

__all__ = ["CAR", "KEYS", "cells", "markdown", "mean_errors", "parts", "run_cell", "settings"]

KEYS = ("dataset", "model", "mode", "options", "quarter", "seed")
CAR = tuple(
    row
    for row, candidates in CANDIDATES.items()
    if row[0].startswith("car-") and row[2] == "autoregression" and len(candidates) > 1
)


def cells(seeds: int, quick: bool = False) -> list[tuple[Any, ...]]:
    """All candidates of the car's rows with past targets, on each quarter."""
    return [
        (*row, options, quarter, seed)
        for seed in range(seeds)
        for row in CAR
        for options in CANDIDATES[row]
        for quarter in (1, 2, 3, 4)
    ]


def parts(dataset: str, mode: str, quarter: int) -> tuple[Any, Any, Any]:
    """Training, validation and held-back windows, all from before table 3's test part."""
    train, validation, _ = table3.parts(dataset, mode)
    return turned(train.union(validation), quarter)


def settings(cell: tuple[Any, ...], quick: bool = False) -> dict[str, Any]:
    """The estimator's options."""
    _, model, mode, options, _, _ = cell
    return table3.shortened(model, table3.common(model, mode) | parsed(options), quick)


def run_cell(cell: tuple[Any, ...], quick: bool = False) -> dict[str, Any]:
    """Train as for table 3; errors on the quarter held back."""
    torch.set_num_threads(1)  # small recurrent nets are fastest so; cells run side by side
    start = time.perf_counter()
    dataset, model, mode, _, quarter, seed = cell
    train, validation, held = parts(dataset, mode, quarter)
    fitted = table3.trained(table3.new(model, settings(cell, quick), int(seed)), train, validation)
    mean, std = fitted.predict(held, return_std=True)
    scale = train.union(validation).y.std(0)
    return {
        **dict(zip(KEYS, cell, strict=True)),
        "rmse": rmse(held.y, mean),
        "rmse_z": rmse(held.y / scale, mean / scale),
        "nlpd": nlpd(held.y / scale, mean / scale, std / scale, fitted.dof_),
        "cov95": coverage(held.y, mean, std, dof=fitted.dof_),
        "seconds": time.perf_counter() - start,
    }


def mean_errors(table: pd.DataFrame) -> pd.DataFrame:
    """Of each option the geometric mean of the errors, so that quarters count alike, and the NLPD."""
    each = table.assign(log=np.log(table.rmse_z)).groupby(list(KEYS[:4]), sort=False)
    return pd.DataFrame({"rmse_z": np.exp(each.log.mean()), "nlpd": each.nlpd.mean()})


def markdown(table: pd.DataFrame) -> str:
    """Every candidate's error, the best of each row marked."""
    lines = [
        "# Options of table 3 on the car with past targets, searched before its test part",
        "",
        "Each quarter of the rows before the test part is held back in turn. RMSE (z) on it, the geometric "
        f"mean of four quarters and up to {table.seed.nunique()} seeds; the lowest of a row is taken.",
        "",
        "| data | model | options | quarter 1 | quarter 2 | quarter 3 | quarter 4 | mean | NLPD |",
        "| --- " * 9 + "|",
    ]
    means = mean_errors(table).reset_index()
    for _, rows in means.groupby(list(KEYS[:3]), sort=False):
        for found in rows.itertuples():
            best = "**" if found.rmse_z == rows.rmse_z.min() else ""
            one = [found.dataset, found.model, found.mode, found.options]
            each = (
                table[(table[list(KEYS[:4])] == one).all(axis=1)].groupby("quarter").rmse_z.mean()
            )
            quarters = " | ".join(f"{each[q]:.5f}" if q in each else "" for q in (1, 2, 3, 4))
            lines.append(
                f"| {found.dataset} | {found.model} | {found.options} | {quarters} "
                f"| {best}{found.rmse_z:.5f}{best} | {found.nlpd:.3f} |"
            )
    return "\n".join(lines) + "\n"
