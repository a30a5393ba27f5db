"""The calibration study: GP-LSTM's error bar beside those in use today on the same encoder.

Nine tasks: one step ahead on the two recordings of table 2, and seven of table 3, with the windows and
options of those tables (but fewer epochs on the smart grid, fewer units for the car's speed, and one
training each on the tasks of table 3); networks have the options of the plain LSTM there. Every model has
the same rows: validation rows choose the best epoch, and any method that is calibrated is calibrated on
them.

Test parts are those of table 3. The two recordings of table 2 have 1,024 and 500 rows, and there each
quarter is held back in turn (:func:`paper.tasks.rotated`) and scores are means over the four, because the
coverage of one small part depends on chance: with n validation rows, the coverage of a 50% interval has a
standard deviation of 0.5/√n even if errors are independent, 0.07 with the 49 that table 2 has for Drives.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from paper.calibration_figures import draw_coverage, draw_pit
from paper.calibration_report import (
    BASELINES,
    FIRST,
    LEVELS,
    MODELS,
    PIT,
    TASKS,
    markdown,
)
from paper.models import BASELINES as BASELINE_MODELS
from paper.models import build, fit, predicted, predictive_of
from paper.predictive import Predictive, pit_error
from paper.recipes import Recipe, common, parsed, recipe_of
from paper.rivals import RIVALS
from paper.runner import Cell, Experiment, Row
from paper.tasks import QUARTERS, SYSID, Parts, lag_of, parts, rotated, windows_of
from seqgp import SequenceGP, WindowSet, adaptive_quantiles
from seqgp.metrics import pit_histogram, rmse

__all__ = [
    "EXPERIMENT",
    "adaptive_coverage",
    "averaged",
    "recipe",
    "score",
    "settings",
    "study_parts",
    "train_on",
    "unfitted",
]

KEYS = ("dataset", "model", "mode", "seed")
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


def cells(seeds: int, quick: bool = False) -> list[Cell]:
    """Every model on every task; baselines have no random numbers."""
    return [
        (dataset, model, mode, seed)
        for seed in range(seeds)
        for dataset, mode in TASKS
        for model in MODELS
        if seed == 0 or model not in BASELINES
    ]


def recipe(dataset: str, model: str, mode: str, quick: bool) -> Recipe:
    """Options of one model: those of its table, and those of its error bar.

    Args:
        dataset: name of the recording.
        model: its name in the study.
        mode: ``"regression"`` or ``"autoregression"``.
        quick: two epochs.
    """
    if model in BASELINES:
        return {}
    known = _in_tables(model)
    options = recipe_of(dataset, known, mode, quick)
    if (dataset, known) in _QUICKER:
        options = common(known, mode) | parsed(_QUICKER[dataset, known])
    options.pop("calibrate", None)
    options |= {"epochs": 2} if quick else {}
    if (dataset, mode) in _SHORTER and not quick:
        for name in ("epochs", "pretrain_epochs"):
            options |= {name: options[name] // 3} if name in options else {}
    options |= _SMALLER.get((dataset, mode), {})
    if dataset not in SYSID:
        options.pop("restarts", None)  # an ensemble of five would be one of fifteen
    if model == FIRST:
        options["calibrate"] = False
    elif model == "lstm-dropout":
        options["dropout"] = max(options.get("dropout", 0.0), 0.1)
        options["passes"] = 5 if quick else 50
    elif model == "lstm-ensemble":
        options["members"] = 2 if quick else 5
    return options


def settings(cell: Cell, quick: bool = False) -> dict[str, Any]:
    """All that decides a cell's numbers."""
    dataset, model, mode, _ = cell
    blocks = {"blocks": len(QUARTERS)} if dataset in SYSID else {}
    return {"lag": lag_of(dataset, mode), **blocks, **recipe(dataset, model, mode, quick)}


def _in_tables(model: str) -> str:
    """The model of tables 2 and 3 whose options it has."""
    return "gp-lstm" if model.startswith("gp-") else "lstm"


def scores(cell: Cell, quick: bool = False) -> Row:
    """Train and test one model on each test part."""
    dataset, model, mode, _ = cell
    found = [_scores(cell, part, quick) for part in study_parts(dataset, mode, model, quick)]
    row = averaged(found)
    row["train_seconds"] *= len(found)
    return row


def averaged(scores: list[dict[str, float]]) -> dict[str, float]:
    """Over test parts: means, and the root of the mean square of columns named ``rmse...``."""
    found = {}
    for name in scores[0]:
        values = np.array([row[name] for row in scores])
        squared = name.startswith("rmse")
        found[name] = math.sqrt(np.mean(values**2)) if squared else float(values.mean())
    return found


def _scores(cell: Cell, part: Parts, quick: bool) -> dict[str, float]:
    train, validation, test = part
    model = unfitted(cell, quick)
    train_seconds = train_on(model, train, validation)
    return {
        **score(predictive_of(model, test), test.y, train.y.std(0)),
        "cov95_adaptive": adaptive_coverage(model, test),
        "train_seconds": train_seconds,
    }


def unfitted(cell: Cell, quick: bool) -> Any:
    """The model of a cell.

    Args:
        cell: data set, model, mode and seed.
        quick: two epochs.
    """
    dataset, model, mode, seed = cell
    if model in BASELINES:
        return BASELINE_MODELS[model]()
    options = recipe(dataset, model, mode, quick)
    device = "cpu" if dataset in SYSID else "auto"
    if model in RIVALS:
        return RIVALS[model](options, int(seed), device)
    return build(model, options, seed, device)


def train_on(model: Any, train: WindowSet, validation: WindowSet) -> float:
    """Fit a model in place; the seconds that it took.

    Args:
        model: an unfitted model of the study.
        train: windows to train on.
        validation: windows for the choice of the epoch and calibration.
    """
    start = time.perf_counter()
    fit(model, train, validation)
    seconds = time.perf_counter() - start
    if isinstance(model, SequenceGP):
        # A GP can be conditioned on the validation rows too without more training.
        model.update(validation)
    return seconds


def score(found: Predictive, y: Any, scale: Any) -> dict[str, float]:
    """All scores of one model.

    Args:
        found: distributions of ``y``.
        y: targets ``(n,)`` or ``(n, outputs)``.
        scale: the deviation of training targets, which makes the z-scale.
    """
    row = {
        "rmse": rmse(y, found.mean),
        "rmse_z": rmse(y / scale, found.mean / scale),
        "nlpd": found.nlpd(y, scale),
        "crps": found.crps(y, scale),
    }
    for level in LEVELS:
        low, high = found.interval(level / 100.0)
        row[f"cov{level}"] = float(np.mean((low <= y) & (y <= high)))
    row["width95"] = float(np.mean((high - low) / scale))
    pit = found.pit(y)
    _, density = pit_histogram(pit, len(PIT))
    return row | {"pit_error": pit_error(pit)} | dict(zip(PIT, density, strict=True))


def adaptive_coverage(fitted: Any, test: WindowSet) -> float:
    """Coverage of the adaptive 95% interval, which follows the errors; NaN unless it is a GP.

    Args:
        fitted: a model of the study.
        test: windows to predict, of one or several series.
    """
    if not isinstance(fitted, SequenceGP):
        return math.nan
    found = predicted(fitted, test)
    dof = found.dof if found.mean.ndim > 1 else float(np.ravel(found.dof)[0])
    inside = []
    for series in np.unique(test.series_index):
        rows = test.series_index == series
        y = test.y[rows]
        low, high = adaptive_quantiles(y, found.mean[rows], found.std[rows], (0.025, 0.975), dof)
        inside.append((low <= y) & (y <= high))
    return float(np.mean(np.concatenate(inside)))


def study_parts(dataset: str, mode: str, model: str, quick: bool = False) -> list[Parts]:
    """Training, validation and test windows, four times for the recordings of table 2.

    Args:
        dataset: name of the recording.
        mode: ``"regression"`` or ``"autoregression"``.
        model: its name in the study.
        quick: one of these only, and the newest few rows of each part.
    """
    if dataset in SYSID:
        windows = windows_of(dataset, mode, model)
        found = [rotated(windows, quarter) for quarter in QUARTERS]
    else:
        found = [parts(dataset, mode, model)]
    if not quick:
        return found
    newest = [part.subset(slice(max(0, len(part) - _QUICK_ROWS), None)) for part in found[-1]]
    return [(newest[0], newest[1], newest[2])]


EXPERIMENT = Experiment(
    "calibration",
    KEYS,
    cells,
    settings,
    scores,
    markdown,
    {"coverage": draw_coverage, "pit": draw_pit},
    folder="calibration",
)
