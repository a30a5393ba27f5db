"""Other test parts: each quarter of a recording is the test part in turn, with options as they stand.

One test part is one draw, and what a 95% interval promises is a share over many.

A recording is turned so that the quarter comes last; three quarters of the rest train and one chooses, as
in table 3. A car's drives are recordings of their own, and Actuator and Drives go through the same motions
from beginning to end, so rows that come later in time may train. The last quarter of the car is table 3's
own and not here. The car's models are trained as for table 3 (again on validation rows too), those of
system identification as for the calibration study.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pandas as pd

from seqgp.data import WindowSet, split_in_time
from seqgp.estimator import SequenceGP, SequenceNet
from seqgp.experiments import calibration, table2, table3
from seqgp.experiments.baselines import LinearModel, Persistence
from seqgp.experiments.calibration_report import LEVELS, PIT
from seqgp.experiments.predictive import predictive_of

__all__ = ["KEYS", "cells", "markdown", "parts", "run_cell", "settings", "turned"]

KEYS = ("dataset", "model", "mode", "quarter", "seed")
MODELS = ("persistence", "ridge", "lstm", "gp-narx", "gp-lstm")
_MODE = "autoregression"
_BASELINES: dict[str, Any] = {"persistence": Persistence, "ridge": LinearModel}
_QUARTERS = {
    "actuator": (1, 2, 3, 4),
    "drives": (1, 2, 3, 4),
    "car-speed": (1, 2, 3),
    "car-yaw": (1, 2, 3),
    "car-lanes": (1, 2, 3),
    "car-lead": (1, 2, 3),
}
_CAR_SEEDS = 3


def cells(seeds: int, quick: bool = False) -> list[tuple[Any, ...]]:
    """Every model on every quarter: five seeds for system identification, three for the car."""
    return [
        (dataset, model, _MODE, quarter, seed)
        for seed in range(seeds)
        for dataset, quarters in _QUARTERS.items()
        for quarter in quarters
        for model in MODELS
        if (seed == 0 or model not in _BASELINES)  # nothing random in those
        and (seed < _CAR_SEEDS or dataset in table2.DATASETS)
    ]


def parts(
    dataset: str, mode: str, model: str, quarter: int
) -> tuple[WindowSet, WindowSet, WindowSet]:
    """Training, validation and test windows of a recording."""
    return turned(_table(dataset).windows_of(dataset, mode, model), quarter)


def turned(windows: WindowSet, quarter: int) -> tuple[WindowSet, WindowSet, WindowSet]:
    """Training, validation and test windows; no two of them share a row."""
    n, lag = len(windows), windows.lag
    order = np.roll(np.arange(n), -round(n * quarter / 4))
    if quarter < 4:
        order = order[lag:]  # what follows the test part in time overlaps with it
    first, second, third = (
        windows.subset(order[rows]) for rows in split_in_time(len(order), table3.FRACTIONS, lag)
    )
    return first, second, third


def settings(cell: tuple[Any, ...], quick: bool = False) -> dict[str, Any]:
    """All that decides a cell's numbers, to be stored beside them."""
    dataset, model, mode, _, seed = cell
    lag = _table(dataset).settings((dataset, model, mode, seed), quick)["lag"]
    if model in _BASELINES:
        return {"lag": lag}
    return {"lag": lag, "refit": _refits(dataset), **_recipe(dataset, model, mode, quick)}


def _table(dataset: str) -> Any:
    return table2 if dataset in table2.DATASETS else table3


def _refits(dataset: str) -> bool:
    return dataset not in table2.DATASETS


def _recipe(dataset: str, model: str, mode: str, quick: bool) -> dict[str, Any]:
    options: dict[str, Any] = _table(dataset).recipe(dataset, model, mode, quick)
    options.pop("calibrate", None)  # table 2 is without it
    return options


def run_cell(cell: tuple[Any, ...], quick: bool = False) -> dict[str, Any]:
    """Train and test one model; the row of the table."""
    import torch

    torch.set_num_threads(1)  # small recurrent nets are fastest so; cells run side by side
    start = time.perf_counter()
    dataset, model, mode, quarter, seed = cell
    train, validation, test = parts(dataset, mode, model, quarter)
    known = train.union(validation)
    if model in _BASELINES:
        fitted: Any = _BASELINES[model]().fit(train, validation)
    else:
        kind = SequenceGP if model.startswith("gp-") else SequenceNet
        fitted = kind(
            **_recipe(dataset, model, mode, quick), random_state=int(seed), progress=False
        )
        if _refits(dataset):
            table3.trained(fitted, train, validation)
        else:
            calibration.train_on(fitted, train, validation)
    scores = calibration.score(predictive_of(fitted, test), test.y, known.y.std(0))
    return {
        **dict(zip(KEYS, cell, strict=True)),
        **{name: value for name, value in scores.items() if name not in PIT},
        "cov95_adaptive": calibration.adaptive_coverage(fitted, test),
        "seconds": time.perf_counter() - start,
    }


def markdown(table: pd.DataFrame) -> str:
    """One table a task: the error of each quarter, and of all of them; scores over all."""
    lines = [
        "# Each quarter the test part in turn",
        "",
        "Test errors on targets standardised by all rows before the test part (z), means over seeds; over "
        "all quarters the root of the mean square. NLPD, CRPS and the share of values inside 50, 80 and "
        "95% intervals are means over quarters and seeds, in brackets how far quarters differ (standard "
        "deviation). Options are those of tables 2 and 3; those of the car were chosen on rows of which "
        "these parts have some (search-car). The last quarter of the car is table 3's and not here.",
    ]
    for dataset, quarters in _QUARTERS.items():
        part = table[table.dataset == dataset]
        if part.empty:
            continue
        names = " | ".join(f"quarter {q}" for q in quarters)
        lines += [
            "",
            f"## {dataset}, {_MODE}",
            "",
            f"| model | seeds | {names} | all | NLPD | CRPS | 50% | 80% | 95% | adaptive 95% |",
            "| --- " * (len(quarters) + 9) + "|",
        ]
        for model in MODELS:
            rows = part[part.model == model]
            if len(rows):
                lines.append(_line(model, rows, quarters))
    return "\n".join(lines) + "\n"


def _line(model: str, rows: pd.DataFrame, quarters: tuple[int, ...]) -> str:
    each = rows.groupby("quarter").mean(numeric_only=True)
    squares = rows.assign(square=rows.rmse_z**2).groupby("quarter").square.mean()
    entries = [model, str(rows.seed.nunique())]
    entries += [f"{each.rmse_z[q]:.5f}" if q in each.index else "" for q in quarters]
    entries += [f"{np.sqrt(squares.mean()):.5f}"]
    entries += [f"{each.nlpd.mean():.3f}", f"{each.crps.mean():.5f}"]
    for level in LEVELS:
        share = each[f"cov{level}"]
        entries.append(f"{share.mean():.3f} ({share.std(ddof=0):.3f})")
    adaptive = each.cov95_adaptive.mean()
    entries.append("" if np.isnan(adaptive) else f"{adaptive:.3f}")
    return "| " + " | ".join(entries) + " |"
