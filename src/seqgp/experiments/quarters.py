"""Each quarter of a recording held back in turn: what to choose, and how far error bars hold on average.

One part of a recording is one draw. On the car, table 3's part that chooses is of few drives; of the
vehicle ahead it is one vehicle, which keeps its distance. So options with past targets are chosen here, on
the rows before table 3's test part. And what a 95% interval promises is a share over many parts: Actuator
and Drives go through the same motions from beginning to end, so there all parts together tell.

The rows are turned so that the quarter comes last; three quarters of the rest train and one validates, as
in table 3. Rows that come later in time may train: a car's drives are recordings of their own. The car's
models are trained as for table 3, those of system identification as for the calibration study.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pandas as pd
import torch

from seqgp.data import WindowSet, split_in_time
from seqgp.estimator import SequenceGP, SequenceNet
from seqgp.experiments import calibration, table2, table3
from seqgp.experiments.baselines import LinearModel, Persistence
from seqgp.experiments.calibration_report import LEVELS, PIT
from seqgp.experiments.predictive import predictive_of
from seqgp.experiments.table3_options import CANDIDATES, parsed

__all__ = ["CHOSEN", "KEYS", "cells", "markdown", "mean_errors", "parts", "run_cell", "settings"]

KEYS = ("dataset", "model", "mode", "options", "quarter", "seed")
QUARTERS = (1, 2, 3, 4)
CHOSEN = tuple(
    (dataset, model, "autoregression")
    for dataset in ("car-speed", "car-lanes", "car-lead")
    for model in ("lstm", "gp-lstm")
)
_ROW = list(KEYS[:4])
_BASELINES: dict[str, Any] = {"persistence": Persistence, "ridge": LinearModel}
_TABLE_2, _NONE = "as in table 2", "-"
_CAR_SEEDS = 1


def cells(seeds: int, quick: bool = False) -> list[tuple[Any, ...]]:
    """Every model and candidate on every quarter: one seed for the car, more for system identification."""
    rows = [(*row, options) for row in CHOSEN for options in CANDIDATES[row]]
    rows += [
        (d, m, "autoregression", _TABLE_2) for d in table2.DATASETS for m in ("lstm", "gp-lstm")
    ]
    fixed = [
        (d, m, "autoregression", _NONE)
        for d in dict.fromkeys(r[0] for r in rows)
        for m in _BASELINES
    ]
    return [
        (*row, quarter, seed)
        for seed in range(seeds)
        for row in (fixed if seed == 0 else []) + rows
        if seed < _CAR_SEEDS or row[0] in table2.DATASETS
        for quarter in QUARTERS
    ]


def parts(
    dataset: str, mode: str, model: str, quarter: int
) -> tuple[WindowSet, WindowSet, WindowSet]:
    """Training, validation and held-back windows; no two of them share a row."""
    if dataset in table2.DATASETS:
        windows = table2.windows_of(dataset, mode, model)
    else:
        train, validation, _ = table3.parts(dataset, mode, model)
        windows = train.union(validation)
    n, lag = len(windows), windows.lag
    order = np.roll(np.arange(n), -round(n * quarter / 4))
    if quarter < 4:
        order = order[lag:]  # what follows the held-back part in time overlaps with it
    first, second, third = (
        windows.subset(order[rows]) for rows in split_in_time(len(order), table3.FRACTIONS, lag)
    )
    return first, second, third


def settings(cell: tuple[Any, ...], quick: bool = False) -> dict[str, Any]:
    """The estimator's options."""
    dataset, model, mode, options, *_ = cell
    if model in _BASELINES:
        return {}
    if dataset in table2.DATASETS:
        found: dict[str, Any] = table2.recipe(dataset, model, mode, quick)
        return found | {"calibrate": True}
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
        kind = SequenceGP if model.startswith("gp-") else SequenceNet
        fitted = kind(**settings(cell, quick), random_state=int(seed), progress=False)
        if dataset in table2.DATASETS:
            calibration.train_on(fitted, train, validation)
        else:
            table3.trained(fitted, train, validation)
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
        "how far quarters differ (standard deviation). Of the car, these are quarters of the rows before "
        "table 3's test part.",
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
