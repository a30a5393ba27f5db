"""Smart grid and car: the paper's table 3, on the recordings that are available.

Options and epochs are chosen on the validation part; the chosen model is then trained again on training
and validation rows together. Errors are shown in own units and on targets standardised by those rows (z);
over several targets the root of the mean square of all.

The car recordings are not the paper's: there, models are compared with one another only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from paper.models import BASELINES, build, fit, fit_twice, predicted, scores
from paper.recipes import recipe_of
from paper.runner import Cell, Experiment, Row, table_lines
from paper.table2 import quoted
from paper.tasks import lag_of, parts

__all__ = ["EXPERIMENT", "KEYS", "MODELS", "TASKS", "cells", "settings", "table_3_scores"]

KEYS = ("dataset", "model", "mode", "seed")
TASKS = (
    ("gef-power", "autoregression"),
    ("gef-power", "regression"),
    ("gef-wind", "regression"),
    ("gef-wind", "autoregression"),
    ("car-speed", "regression"),
    ("car-speed", "autoregression"),
    ("car-yaw", "regression"),
    ("car-yaw", "autoregression"),
    ("car-lanes", "autoregression"),
    ("car-lead", "autoregression"),
)
MODELS = ("persistence", "ridge", "boosting", "lstm", "gp-narx", "gp-lstm")
# Seeds of tasks whose fits take minutes; the others have as many as asked for.
_SEEDS = {"car-speed": 3, "car-yaw": 3, "car-lanes": 3}
# Figures of the paper, arXiv:1610.08936: mean test RMSE and its deviation; it does not say in which mode.
_PAPER: dict[str, dict[str, tuple[float, float]]] = {
    "gef-power": {"lstm": (0.45, 0.01), "gp-narx": (0.78, 0.03), "gp-lstm": (0.17, 0.02)},
    "gef-wind": {"lstm": (0.77, 0.01), "gp-narx": (0.83, 0.02), "gp-lstm": (0.76, 0.01)},
}


def cells(seeds: int, quick: bool = False) -> list[Cell]:
    """Every model on every task: three seeds for most of the car, else as many as asked for."""
    return [
        (dataset, model, mode, seed)
        for seed in range(seeds)
        for dataset, mode in TASKS
        for model in MODELS
        if seed < (1 if model in BASELINES else _SEEDS.get(dataset, seeds))
        and (model != "boosting" or dataset.startswith("gef"))
    ]


def settings(cell: Cell, quick: bool = False) -> dict[str, Any]:
    """All that decides a cell's numbers."""
    dataset, model, mode, _ = cell
    found: dict[str, Any] = {"lag": lag_of(dataset, mode)}
    if model in BASELINES:
        return found
    return found | {"refit": True, **recipe_of(dataset, model, mode, quick)}


def table_3_scores(cell: Cell, quick: bool = False) -> Row:
    """Train and test one model."""
    dataset, model, mode, seed = cell
    train, validation, test = parts(dataset, mode, model)
    if model in BASELINES:
        fitted: Any = fit(BASELINES[model](), train, validation)
    else:
        estimator = build(model, recipe_of(dataset, model, mode, quick), seed)
        fitted = fit_twice(estimator, train, validation)
    return scores(predicted(fitted, test), test.y, train.union(validation).y.std(0))


def markdown(table: pd.DataFrame) -> str:
    """Mean (deviation) over seeds of every cell, beside the paper's."""
    lines = [
        "# Smart grid and car (the paper's table 3)",
        "",
        "Test RMSE, mean (standard deviation) over seeds: in the data's own units, and on targets "
        "standardised by all rows before the test part (z). NLPD is on the z-scale, coverage that of "
        "the 95% interval. The paper's figures are for its own recordings of the car, so they are not "
        "shown beside these; for GEF it does not say whether past targets were inputs. In regression, "
        "persistence knows the last target, which the other models are not given.",
    ]
    columns = ["model", "seeds", "RMSE", "RMSE z", "paper", "NLPD", "coverage", "seconds"]
    for dataset, mode in TASKS:
        part = table[(table.dataset == dataset) & (table["mode"] == mode)]
        if part.empty:
            continue
        entries = [
            [
                model,
                len(rows),
                _spread(rows.rmse),
                _spread(rows.rmse_z),
                quoted(_PAPER.get(dataset, {}).get(model)),
                f"{rows.nlpd.mean():.3f}",
                f"{rows.cov95.mean():.3f}",
                f"{rows.seconds.mean():.0f}",
            ]
            for model in MODELS
            if not (rows := part[part.model == model]).empty
        ]
        lines += ["", f"## {dataset}, {mode}", "", *table_lines(columns, entries)]
    return "\n".join(lines) + "\n"


def _spread(values: pd.Series) -> str:
    # The mean of equal numbers may be rounded, and then they would differ from it.
    deviation = values.std(ddof=0) if np.ptp(values) else 0.0
    return f"{values.mean():.4g} ({deviation:.2g})"


EXPERIMENT = Experiment("table3", KEYS, cells, settings, table_3_scores, markdown)
