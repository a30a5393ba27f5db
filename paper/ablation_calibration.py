"""What each piece of calibration is worth: the study's models with one of them left out.

One training gives a whole row: pieces are learnt after it, from validation rows, and each is left out in
turn while the others are learnt again. How the epoch was chosen stays as it is.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
import torch

from paper import calibration
from paper.calibration_report import PROPOSED, TASKS
from paper.pieces import ALL, without
from paper.predictive import predictive_of
from seqgp.estimator import SequenceGP
from seqgp.exceptions import TrainingWarning

__all__ = ["KEYS", "cells", "markdown", "run_cell", "settings"]

KEYS = ("dataset", "mode", "seed")
SCORES = ("rmse_z", "nlpd", "crps", "cov50", "cov95")
_NAMES = {
    "": "all pieces",
    "mixing": "one training alone",
    "quieter": "signal variances as trained",
    "share": "the whole GP beside the readout",
    "slope": "all that was learnt beyond a line",
    "shift": "no shift of the level",
    "shape": "errors equally large everywhere",
    "tails": "a Gaussian",
    ALL: "taken at its word",
}


def cells(seeds: int, quick: bool = False) -> list[tuple[Any, ...]]:
    """The study's tasks."""
    return [(dataset, mode, seed) for seed in range(seeds) for dataset, mode in TASKS]


def settings(cell: tuple[Any, ...], quick: bool = False) -> dict[str, Any]:
    """Those of the study."""
    dataset, mode, seed = cell
    return calibration.settings((dataset, PROPOSED, mode, seed), quick)


def run_cell(cell: tuple[Any, ...], quick: bool = False) -> dict[str, Any]:
    """Train once, and score every variant; columns are ``score/piece left out``."""
    torch.set_num_threads(1)  # small recurrent nets are fastest so; cells run side by side
    start = time.perf_counter()
    dataset, mode, _ = cell
    every = calibration.parts(dataset, mode, PROPOSED, quick)
    return {
        **dict(zip(KEYS, cell, strict=True)),
        **calibration.averaged([_scores(cell, *part, quick) for part in every]),
        "seconds": time.perf_counter() - start,
    }


def _scores(
    cell: tuple[Any, ...], train: Any, validation: Any, test: Any, quick: bool
) -> dict[str, float]:
    model = calibration.estimator((cell[0], PROPOSED, *cell[1:]), quick)
    assert isinstance(model, SequenceGP)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)
        model.fit(train, validation=validation)
    scale = train.y.std(0)
    found: dict[str, float] = {}
    for piece in _NAMES:
        variant = without(model, piece, train, validation).update(validation)
        scores = calibration.score(predictive_of(variant, test), test.y, scale)
        found |= {f"{name}/{piece}": scores[name] for name in SCORES}
    return found


def markdown(table: pd.DataFrame) -> str:
    """A table a task; pieces that change nothing there are left out."""
    lines = [
        "# What each piece of calibration is worth",
        "",
        f"The study's {PROPOSED} on its test rows, with one piece left out and the others learnt again "
        "from the same validation rows; means over seeds, and over test parts where there are four. Pieces "
        "that change nothing on a task are not shown. Nothing was chosen by this table.",
    ]
    for dataset, mode in TASKS:
        part = table[(table.dataset == dataset) & (table["mode"] == mode)]
        if part.empty:
            continue
        seeds = part.seed.nunique()
        lines += [
            "",
            f"## {dataset}, {mode}, {seeds} seed(s)",
            "",
            "| | RMSE z | NLPD | CRPS | 50% | 95% |",
            "| --- | --- | --- | --- | --- | --- |",
        ]
        means = part.mean(numeric_only=True)
        whole = [means[f"{name}/"] for name in SCORES]
        for piece, called in _NAMES.items():
            values = [means[f"{name}/{piece}"] for name in SCORES]
            if piece and np.allclose(values, whole, rtol=1e-9, atol=0.0):
                continue
            digits = (4, 3, 4, 3, 3)
            shown = (f"{value:.{n}f}" for value, n in zip(values, digits, strict=True))
            lines.append(f"| {called} | {' | '.join(shown)} |")
    return "\n".join(lines) + "\n"
