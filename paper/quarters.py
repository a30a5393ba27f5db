"""The car's options with past targets, chosen with each quarter of a recording held back in turn.

One part of a recording is one draw: table 3's part that chooses is of few drives, and of the vehicle ahead
it is one vehicle, which keeps its distance. So these options are chosen here, on quarters of the rows
before table 3's test part (:mod:`paper.blocks`); a car's drives are recordings of their own, so
later ones may train. Models are trained as for table 3.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pandas as pd
import torch

from paper import calibration, table3
from paper.baselines import LinearModel, Persistence
from paper.blocks import QUARTERS, turned
from paper.calibration_report import LEVELS, PIT
from paper.predictive import predictive_of
from paper.table3_options import CANDIDATES, parsed
from seqgp.data import WindowSet

__all__ = ["CHOSEN", "KEYS", "cells", "markdown", "mean_errors", "parts", "run_cell", "settings"]

KEYS = ("dataset", "model", "mode", "options", "quarter", "seed")
CHOSEN = tuple(
    (dataset, model, "autoregression")
    for dataset in ("car-speed", "car-lanes", "car-lead")
    for model in ("lstm", "gp-lstm")
)
_ROW = list(KEYS[:4])
_BASELINES: dict[str, Any] = {"persistence": Persistence, "ridge": LinearModel}
_NONE = "-"
_SEEDS = 1


def cells(seeds: int, quick: bool = False) -> list[tuple[Any, ...]]:
    """Every model and candidate on every quarter, with one seed."""
    rows = [
        (d, m, "autoregression", _NONE)
        for d in dict.fromkeys(r[0] for r in CHOSEN)
        for m in _BASELINES
    ]
    rows += [(*row, options) for row in CHOSEN for options in CANDIDATES[row]]
    return [
        (*row, quarter, seed)
        for seed in range(min(seeds, _SEEDS))
        for row in rows
        for quarter in QUARTERS
    ]


def parts(
    dataset: str, mode: str, model: str, quarter: int
) -> tuple[WindowSet, WindowSet, WindowSet]:
    """Training, validation and held-back windows, of the rows before the test part."""
    train, validation, _ = table3.parts(dataset, mode, model)
    return turned(train.union(validation), quarter)


def settings(cell: tuple[Any, ...], quick: bool = False) -> dict[str, Any]:
    """The estimator's options."""
    _, model, mode, options, *_ = cell
    if model in _BASELINES:
        return {}
    return table3.shortened(model, table3.common(model, mode) | parsed(options), quick)


def run_cell(cell: tuple[Any, ...], quick: bool = False) -> dict[str, Any]:
    """Train one model; its scores on the quarter held back."""
    torch.set_num_threads(1)  # small recurrent nets are fastest so; cells run side by side
    start = time.perf_counter()
    dataset, model, mode, _, quarter, seed = cell
    train, validation, held = parts(dataset, mode, model, quarter)
    if model in _BASELINES:
        fitted = _BASELINES[model]().fit(train, validation)
    else:
        unfitted = table3.new(model, settings(cell, quick), int(seed))
        fitted = table3.trained(unfitted, train, validation)
    scores = calibration.score(
        predictive_of(fitted, held), held.y, train.union(validation).y.std(0)
    )
    return {
        **dict(zip(KEYS, cell, strict=True)),
        **{name: value for name, value in scores.items() if name not in PIT},
        "cov95_adaptive": calibration.adaptive_coverage(fitted, held),
        "seconds": time.perf_counter() - start,
    }


def mean_errors(table: pd.DataFrame) -> pd.Series:
    """Of each row and option the geometric mean of its errors, so that all quarters count alike."""
    logs = table.assign(log=np.log(table.rmse_z)).groupby(_ROW, sort=False).log.mean()
    return logs.map(math.exp)


def markdown(table: pd.DataFrame) -> str:
    """One table a recording: the error of each quarter and their mean, other scores over all."""
    lines = [
        "# Each quarter held back in turn",
        "",
        "Errors on targets standardised by the rows trained on (z), means over seeds, and the geometric "
        "mean of all quarters; of a model's options the best is bold, and is table 3's. NLPD, CRPS and the "
        "share of values inside 50, 80 and 95% intervals are means over quarters and seeds, in brackets "
        "how far quarters differ (standard deviation). These are quarters of the rows before table 3's "
        "test part.",
    ]
    for dataset, part in table.groupby("dataset", sort=False):
        names = " | ".join(f"quarter {q}" for q in QUARTERS)
        lines += [
            "",
            f"## {dataset}, {part['mode'].iloc[0]}",
            "",
            f"| model | options | seeds | {names} | mean | NLPD | CRPS | 50% | 80% | 95% | adaptive 95% |",
            "| --- " * 14 + "|",
        ]
        for _, of_model in part.groupby("model", sort=False):
            errors = mean_errors(of_model).droplevel([0, 1, 2])
            for options, rows in of_model.groupby("options", sort=False):
                best = len(errors) > 1 and errors[options] == errors.min()
                lines.append(_line(rows, errors[options], best))
    return "\n".join(lines) + "\n"


def _line(rows: pd.DataFrame, mean: float, best: bool) -> str:
    each = rows.groupby("quarter").mean(numeric_only=True)
    entries = [rows.model.iloc[0], rows.options.iloc[0], str(rows.seed.nunique())]
    entries += [f"{each.rmse_z[q]:.5f}" if q in each.index else "" for q in QUARTERS]
    entries.append(f"**{mean:.5f}**" if best else f"{mean:.5f}")
    entries += [f"{each.nlpd.mean():.3f}", f"{each.crps.mean():.5f}"]
    for level in LEVELS:
        share = each[f"cov{level}"]
        entries.append(f"{share.mean():.3f} ({share.std(ddof=0):.3f})")
    adaptive = each.cov95_adaptive.mean()
    entries.append("" if np.isnan(adaptive) else f"{adaptive:.3f}")
    return "| " + " | ".join(entries) + " |"
