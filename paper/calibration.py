"""Whose error bar tells the truth: GP-LSTM beside what is used today on the same encoder.

Nine tasks: one step ahead on the two recordings of table 2, and seven of table 3, with the windows and
options of those tables (but fewer epochs on the smart grid, fewer units for the car's speed, and one
training each on the tasks of table 3); networks have the options of the plain LSTM there. Every model sees
the same rows: validation rows choose the best epoch and, where a method has something to calibrate, are
what it is calibrated on.

Parts are those of table 3. Of the two recordings of table 2, which have 1,024 and 500 rows, each quarter
is held back in turn (:mod:`paper.blocks`) and scores are means over the four: what intervals
hold of one part is luck there. Of n validation rows, the share that a 50% interval holds of new ones has a
deviation of 0.5/√n even if no two rows are alike, which is 0.07 with the 49 that table 2 has for Drives.
"""

from __future__ import annotations

import math
import time
import warnings
from typing import Any

import numpy as np

from paper import table2, table3
from paper.baselines import LinearModel, Persistence
from paper.blocks import QUARTERS, turned
from paper.calibration_report import (
    BASELINES,
    FIRST,
    LEVELS,
    MODELS,
    PIT,
    PROPOSED,
    TASKS,
    draw_coverage,
    draw_pit,
    markdown,
)
from paper.predictive import Predictive, pit_error, predictive_of
from paper.rivals import (
    Ensemble,
    HeteroscedasticNet,
    MCDropout,
    SplitConformal,
    VariationalLastLayer,
)
from paper.table3_options import parsed
from seqgp.adaptive import adaptive_quantiles
from seqgp.data import WindowSet
from seqgp.estimator import SequenceGP, SequenceNet
from seqgp.exceptions import TrainingWarning
from seqgp.metrics import pit_histogram, rmse

__all__ = [
    "FIGURES",
    "FOLDER",
    "KEYS",
    "adaptive_coverage",
    "averaged",
    "cells",
    "estimator",
    "markdown",
    "parts",
    "recipe",
    "run_cell",
    "score",
    "settings",
    "train_on",
]

FOLDER = "calibration"
KEYS = ("dataset", "model", "mode", "seed")
FIGURES = {"coverage": draw_coverage, "pit": draw_pit}
_KINDS: dict[str, Any] = {
    "persistence": Persistence,
    "ridge": LinearModel,
    FIRST: SequenceGP,
    PROPOSED: SequenceGP,
    "lstm": SequenceNet,
    "lstm-heteroscedastic": HeteroscedasticNet,
    "lstm-dropout": MCDropout,
    "lstm-ensemble": Ensemble,
    "lstm-conformal": SplitConformal,
    "lstm-vbll": VariationalLastLayer,
}
_QUICK_ROWS = 400
# A third of the epochs of table 3: there are 60 trainings of each of these.
_SHORTER = {
    ("gef-power", "autoregression"),
    ("gef-power", "regression"),
    ("gef-wind", "regression"),
}
# The best of the smaller networks on validation rows: table 3's takes ten times as long.
_SMALLER = {("car-speed", "regression"): {"hidden": 128, "dropout": 0.3}}
# The quickest of the candidates with a readout: table 3's takes twice as long.
_QUICKER = {
    ("car-lanes", "gp-lstm"): "epochs=20 theta_steps=2 lr=0.001 dropout=0.2 readout=1 select=rmse"
}


def cells(seeds: int, quick: bool = False) -> list[tuple[Any, ...]]:
    """Every model on every task."""
    return [
        (dataset, model, mode, seed)
        for seed in range(seeds)
        for dataset, mode in TASKS
        for model in MODELS
        if seed == 0 or model not in BASELINES  # nothing random in those
    ]


def recipe(dataset: str, model: str, mode: str, quick: bool) -> dict[str, Any]:
    """Options of one model: those of its table, and what makes its error bar."""
    if model in BASELINES:
        return {}
    options: dict[str, Any] = _table(dataset).recipe(dataset, _known(model), mode, quick)
    if (dataset, _known(model)) in _QUICKER:
        options = table3.common(_known(model), mode) | parsed(_QUICKER[dataset, _known(model)])
    options.pop("calibrate", None)
    options |= {"epochs": 2} if quick else {}
    if (dataset, mode) in _SHORTER and not quick:
        for name in ("epochs", "pretrain_epochs"):
            options |= {name: options[name] // 3} if name in options else {}
    options |= _SMALLER.get((dataset, mode), {})
    if dataset not in table2.DATASETS:
        options.pop("restarts", None)  # an ensemble of five would be one of fifteen
    if model == FIRST:
        options["calibrate"] = False
    elif model == "lstm-dropout":
        options["dropout"] = max(options.get("dropout", 0.0), 0.1)
        options["passes"] = 5 if quick else 50
    elif model == "lstm-ensemble":
        options["members"] = 2 if quick else 5
    return options


def settings(cell: tuple[Any, ...], quick: bool = False) -> dict[str, Any]:
    """All that decides a cell's numbers, to be stored beside them."""
    dataset, model, mode, seed = cell
    lag = _table(dataset).settings((dataset, _known(model), mode, seed), quick)["lag"]
    blocks = {"blocks": len(QUARTERS)} if dataset in table2.DATASETS else {}
    return {"lag": lag, **blocks, **recipe(dataset, model, mode, quick)}


def _table(dataset: str) -> Any:
    """The table whose parts and options a data set has."""
    return table2 if dataset in table2.DATASETS else table3


def _known(model: str) -> str:
    """Its name in that table."""
    return "gp-lstm" if model.startswith("gp-") else "lstm"


def run_cell(cell: tuple[Any, ...], quick: bool = False) -> dict[str, Any]:
    """Train and test one model; the row of the table."""
    import torch

    torch.set_num_threads(1)  # small recurrent nets are fastest so; cells run side by side
    start = time.perf_counter()
    dataset, model, mode, _ = cell
    found = [_scores(cell, part, quick) for part in parts(dataset, mode, model, quick)]
    scores = averaged(found)
    density = {name: scores.pop(name) for name in PIT}
    train_seconds = scores.pop("train_seconds") * len(found)
    return {
        **dict(zip(KEYS, cell, strict=True)),
        **scores,
        "seconds": time.perf_counter() - start,
        "train_seconds": train_seconds,
        **density,
    }


def averaged(scores: list[dict[str, float]]) -> dict[str, float]:
    """Over test parts: means, and the root of the mean square of what is called ``rmse...``."""
    found = {}
    for name in scores[0]:
        values = np.array([row[name] for row in scores])
        squared = name.startswith("rmse")
        found[name] = math.sqrt(np.mean(values**2)) if squared else float(values.mean())
    return found


def _scores(
    cell: tuple[Any, ...], part: tuple[WindowSet, WindowSet, WindowSet], quick: bool
) -> dict[str, float]:
    """Of one model on one test part."""
    train, validation, test = part
    fitted = _KINDS[cell[1]]() if cell[1] in BASELINES else estimator(cell, quick)
    train_seconds = train_on(fitted, train, validation)
    return {
        **score(predictive_of(fitted, test), test.y, train.y.std(0)),
        "cov95_adaptive": adaptive_coverage(fitted, test),
        "train_seconds": train_seconds,
    }


def train_on(model: Any, train: WindowSet, validation: WindowSet) -> float:
    """Fit a model; the seconds that it took."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)
        model.fit(train, validation=validation)
    seconds = time.perf_counter() - start
    if isinstance(model, SequenceGP):
        # Rows held back to choose by are data too: a GP takes them in without more training.
        model.update(validation)
    return seconds


def estimator(cell: tuple[Any, ...], quick: bool) -> Any:
    """The model of a cell, unfitted."""
    dataset, model, mode, seed = cell
    options = recipe(dataset, model, mode, quick)
    device = "cpu" if dataset in table2.DATASETS else "auto"
    return _KINDS[model](**options, random_state=int(seed), device=device, progress=False)


def score(predicted: Predictive, y: Any, scale: Any) -> dict[str, float]:
    """All scores of one model; ``scale``, the deviation of the training targets, makes the z-scale."""
    found = {
        "rmse": rmse(y, predicted.mean),
        "rmse_z": rmse(y / scale, predicted.mean / scale),
        "nlpd": predicted.nlpd(y, scale),
        "crps": predicted.crps(y, scale),
    }
    for level in LEVELS:
        low, high = predicted.interval(level / 100.0)
        found[f"cov{level}"] = float(np.mean((low <= y) & (y <= high)))
    found["width95"] = float(np.mean((high - low) / scale))
    pit = predicted.pit(y)
    _, density = pit_histogram(pit, len(PIT))
    return found | {"pit_error": pit_error(pit)} | dict(zip(PIT, density, strict=True))


def adaptive_coverage(fitted: Any, test: WindowSet) -> float:
    """Coverage of the 95% interval that follows the errors as they come in; NaN but for a GP."""
    if not isinstance(fitted, SequenceGP):
        return math.nan
    mean, std = fitted.predict(test, return_std=True)
    dof = fitted.dof_ if mean.ndim > 1 else float(fitted.dof_[0])
    inside = []
    for series in np.unique(test.series_index):
        rows = test.series_index == series
        y = test.y[rows]
        low, high = adaptive_quantiles(y, mean[rows], std[rows], (0.025, 0.975), dof)
        inside.append((low <= y) & (y <= high))
    return float(np.mean(np.concatenate(inside)))


def parts(
    dataset: str, mode: str, model: str, quick: bool = False
) -> list[tuple[WindowSet, WindowSet, WindowSet]]:
    """Training, validation and test windows; where ``quick`` one of these, the newest few rows of each."""
    if dataset in table2.DATASETS:
        windows = table2.windows_of(dataset, mode, model)
        found = [turned(windows, quarter) for quarter in QUARTERS]
    else:
        found = [table3.parts(dataset, mode, model)]
    if not quick:
        return found
    newest = [part.subset(slice(max(0, len(part) - _QUICK_ROWS), None)) for part in found[-1]]
    return [(newest[0], newest[1], newest[2])]
