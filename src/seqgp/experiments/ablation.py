"""What the linear mean function does: GP-LSTM with it and without, all else as in table 2."""

from __future__ import annotations

from typing import Any

import pandas as pd

from seqgp.experiments import table2

__all__ = ["KEYS", "cells", "markdown", "run_cell", "settings"]

KEYS = ("dataset", "mode", "mean", "seed")
MODES = ("regression", "autoregression")


def cells(seeds: int) -> list[tuple[Any, ...]]:
    """Both data sets, one step ahead, both mean functions."""
    return [
        (dataset, mode, mean, seed)
        for seed in range(seeds)
        for dataset in table2.DATASETS
        for mode in MODES
        for mean in ("zero", "linear")
    ]


def settings(cell: tuple[Any, ...], quick: bool = False) -> dict[str, Any]:
    """As in table 2, but for the mean."""
    dataset, mode, mean, seed = cell
    return table2.settings((dataset, "gp-lstm", mode, seed), quick) | {"mean": mean}


def run_cell(cell: tuple[Any, ...], quick: bool = False) -> dict[str, Any]:
    """One GP-LSTM, with the validation error it would be chosen by."""
    dataset, mode, mean, seed = cell
    row = table2.run_cell((dataset, "gp-lstm", mode, seed), quick, mean=mean)
    return dict(zip(KEYS, cell, strict=True)) | {k: v for k, v in row.items() if k not in KEYS}


def markdown(table: pd.DataFrame) -> str:
    """Side by side."""
    lines = [
        "# The mean function, GP-LSTM",
        "",
        f"z-scale, mean (standard deviation) over {table.seed.nunique()} seed(s); all else as in table 2.",
        "",
        "| data | mode | mean | validation RMSE | test RMSE | test NLPD | coverage |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for (dataset, mode, mean), rows in table.groupby(["dataset", "mode", "mean"], sort=False):
        lines.append(
            f"| {dataset} | {mode} | {mean} "
            f"| {rows.val_rmse_z.mean():.3f} ({rows.val_rmse_z.std(ddof=0):.3f}) "
            f"| {rows.rmse_z.mean():.3f} ({rows.rmse_z.std(ddof=0):.3f}) | {rows.nlpd.mean():.2f} "
            f"| {rows.cov95.mean():.2f} |"
        )
    return "\n".join(lines) + "\n"
