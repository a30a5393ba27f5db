"""GEF-power: error against the number of training rows, error and likelihood against the units.

As table 3's auto-regression on GEF-power in all else, but nothing is trained again on validation rows; the
training rows left out are the oldest.
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from paper import table3
from paper.baselines import Persistence, RidgeModel
from seqgp.exceptions import TrainingWarning
from seqgp.metrics import coverage, nlpd, rmse

__all__ = ["KEYS", "cells", "draw", "run_cell", "settings"]

KEYS = ("panel", "model", "rows", "units", "seed")
ROWS = (1_000, 2_500, 5_000, 10_000, 21_000)
UNITS = (8, 16, 32, 64, 128)
MODELS = ("lstm", "gp-lstm")
_BASELINES: dict[str, Any] = {"persistence": Persistence, "ridge": RidgeModel}
_TASK = ("gef-power", "autoregression")
_TICKS = (30, 50, 100, 200, 300)  # MW


def cells(seeds: int, quick: bool = False) -> list[tuple[Any, ...]]:
    """Both panels."""
    found: list[tuple[Any, ...]] = []
    for seed in range(seeds):
        for model in MODELS:
            found += [("rows", model, rows, 64, seed) for rows in ROWS]
            found += [("units", model, ROWS[-1], units, seed) for units in UNITS]
    found += [("rows", model, rows, 0, 0) for model in _BASELINES for rows in ROWS]
    return found[::7] if quick else found


def settings(cell: tuple[Any, ...], quick: bool = False) -> dict[str, Any]:
    """All that decides a cell's numbers."""
    _, model, rows, units, _ = cell
    dataset, mode = _TASK
    if model in _BASELINES:
        return {"rows": int(rows)}
    return table3.recipe(dataset, model, mode, quick) | {
        "rows": int(rows),
        "hidden": int(units),
    }


def run_cell(cell: tuple[Any, ...], quick: bool = False) -> dict[str, Any]:
    """Train on the newest ``rows`` training windows, and test."""
    torch.set_num_threads(1)
    start = time.perf_counter()
    _, model, rows, units, seed = cell
    dataset, mode = _TASK
    train, validation, test = table3.parts(dataset, mode, model)
    scale = float(train.union(validation).y.std())
    train = train.subset(slice(max(0, len(train) - int(rows)), None))
    nlml, dof = np.nan, np.full(1, np.inf)
    if model in _BASELINES:
        mean, std = _BASELINES[model]().fit(train, validation).predict(test, return_std=True)
    else:
        estimator = table3.estimator((dataset, model, mode, int(seed)), quick, hidden=int(units))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TrainingWarning)
            estimator.fit(train, validation=validation)
        mean, std = estimator.predict(test, return_std=True)
        dof = estimator.dof_
        best = estimator.history_[estimator.history_.epoch == estimator.best_epoch_]
        nlml = float(best.nlml.iloc[0]) if len(best) else np.nan
    return {
        **dict(zip(KEYS, cell, strict=True)),
        "rmse": rmse(test.y, mean),
        "rmse_z": rmse(test.y, mean) / scale,
        "nlpd": nlpd(test.y / scale, mean / scale, std / scale, dof),
        "cov95": coverage(test.y, mean, std, dof=dof),
        "nlml": nlml,
        "seconds": time.perf_counter() - start,
    }


def draw(table: pd.DataFrame, path: Path) -> None:
    """The figure as PNG: mean over seeds, with the range of seeds."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    table = table.assign(rmse=table.rmse / 1000.0)
    panels = (
        (axes[0], "rows", "rows", "rmse", "test RMSE, MW", "training windows, the newest"),
        (axes[1], "units", "units", "rmse", "test RMSE, MW", "LSTM units, all training windows"),
        (axes[2], "units", "units", "nlml", "training NLML, nats per row", "LSTM units"),
    )
    for model, style in zip(_BASELINES, (":", "--"), strict=True):
        line = table[table.model == model].set_index("rows").rmse.sort_index()
        axes[0].plot(line, style, color="grey", label=model)
    axes[0].set(yscale="log")
    axes[0].set_yticks(_TICKS, [f"{tick}" for tick in _TICKS])
    for axis, panel, x, y, ylabel, xlabel in panels:
        for model, colour in zip(MODELS, ("C1", "C0"), strict=True):
            if y == "nlml" and model == "lstm":
                continue  # a plain network has none
            rows = table[(table.panel == panel) & (table.model == model)].groupby(x)[y]
            axis.plot(rows.mean(), "o-", color=colour, label=model.upper())
            axis.fill_between(rows.min().index, rows.min(), rows.max(), color=colour, alpha=0.2)
        axis.set(xlabel=xlabel, ylabel=ylabel, xscale="log")
        ticks = ROWS if x == "rows" else UNITS
        axis.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axis.minorticks_off()
        axis.legend()
    figure.suptitle(
        "GEF-power, load one hour ahead, with past load; bands: lowest and highest seed"
    )
    figure.savefig(path, dpi=110)
    plt.close(figure)
