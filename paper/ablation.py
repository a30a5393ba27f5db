"""What the linear mean function does: GP-LSTM with it and without, with and without ``skip``.

Both give the model a linear path from the window: the mean function a fixed one, fitted beforehand, the
skip connection one that is trained with the rest. All else is as in table 2, but for one start each.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from paper import table2

__all__ = ["KEYS", "cells", "markdown", "run_cell", "settings"]

KEYS = ("dataset", "mode", "mean", "skip", "seed")
MODES = ("regression", "autoregression")


def cells(seeds: int, quick: bool = False) -> list[tuple[Any, ...]]:
    """Both data sets, one step ahead, both mean functions, skip on and off."""
    return [
        (dataset, mode, mean, skip, seed)
        for seed in range(seeds)
        for dataset in table2.DATASETS
        for mode in MODES
        for mean in ("zero", "linear")
        for skip in (False, True)
    ]


def settings(cell: tuple[Any, ...], quick: bool = False) -> dict[str, Any]:
    """As in table 2, but for the mean, skip, and one start."""
    dataset, mode, _, _, seed = cell
    return table2.settings((dataset, "gp-lstm", mode, seed), quick) | _changes(cell)


def _changes(cell: tuple[Any, ...]) -> dict[str, Any]:
    _, _, mean, skip, _ = cell
    return {"mean": mean, "skip": bool(skip), "restarts": 1}


def run_cell(cell: tuple[Any, ...], quick: bool = False) -> dict[str, Any]:
    """One GP-LSTM, with the validation error it would be chosen by."""
    dataset, mode, _, _, seed = cell
    row = table2.run_cell((dataset, "gp-lstm", mode, seed), quick, **_changes(cell))
    return dict(zip(KEYS, cell, strict=True)) | {k: v for k, v in row.items() if k not in KEYS}


def markdown(table: pd.DataFrame) -> str:
    """Side by side."""
    lines = [
        "# The mean function, GP-LSTM",
        "",
        f"z-scale, mean (standard deviation) over {table.seed.nunique()} seed(s); all else as in table 2, "
        "but for one start each.",
        "",
        "| data | mode | mean | skip | validation RMSE | test RMSE | test NLPD | coverage |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for (dataset, mode, mean, skip), rows in table.groupby(list(KEYS[:-1]), sort=False):
        lines.append(
            f"| {dataset} | {mode} | {mean} | {'yes' if skip else 'no'} "
            f"| {rows.val_rmse_z.mean():.3f} ({rows.val_rmse_z.std(ddof=0):.3f}) "
            f"| {rows.rmse_z.mean():.3f} ({rows.rmse_z.std(ddof=0):.3f}) | {rows.nlpd.mean():.2f} "
            f"| {rows.cov95.mean():.2f} |"
        )
    return "\n".join(lines) + "\n"
