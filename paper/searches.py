"""The options of tables 2 and 3, searched on validation rows; the test part is not used.

``search-table2``: plain networks are searched over the options that the GP models were given, one step
ahead (for free simulation they have those of regression), and so are three GP models that a plain network
had beaten.

``search-table3``: each row of the table has some candidates, and takes the one with the lowest validation
RMSE over the seeds it was run with: two, and three where candidates are close. Those of the car with past
targets are compared on more rows (:mod:`paper.quarters`).
"""

from __future__ import annotations

import itertools
from typing import Any

import pandas as pd

from paper.models import build, fit, predicted, scores
from paper.predictive import Student
from paper.quarters import CHOSEN
from paper.recipes import CANDIDATES, SYSID_BATCH, Recipe, common, parsed, shortened
from paper.runner import Cell, Experiment, Row, table_lines
from paper.tasks import SYSID, parts

__all__ = ["EXPERIMENTS"]

KEYS = ("dataset", "model", "mode", "options", "seed")
_GRID: dict[str, tuple[Any, ...]] = {
    "lr": (3e-3, 1e-2),
    "dropout": (0.1, 0.25),
    "skip": (False, True),
    "weight_decay": (0.0, 0.3),
    "hidden": (16, 64),
}
_EPOCHS = 120
_GP_AGAIN = (
    ("drives", "gp-narx", "autoregression"),
    ("drives", "gp-rnn", "autoregression"),
    ("actuator", "gp-lstm", "autoregression"),
)


def cells_2(seeds: int, quick: bool = False) -> list[Cell]:
    """All searched rows of table 2 with all options."""
    rows = [
        (dataset, model, mode)
        for dataset in SYSID
        for model in ("narx", "rnn", "lstm")
        for mode in ("regression", "autoregression")
    ]
    names = [
        " ".join(f"{key}={value:g}" for key, value in zip(_GRID, values, strict=True))
        for values in itertools.product(*_GRID.values())
    ]
    return [
        (*row, name, seed) for seed in range(seeds) for row in (*rows, *_GP_AGAIN) for name in names
    ]


def settings_2(cell: Cell, quick: bool = False) -> Recipe:
    """The recipe."""
    dataset, model, _, options, _ = cell
    return {
        "encoder": model.removeprefix("gp-"),
        "mean": "zero",
        "calibrate": False,
        "batch_size": SYSID_BATCH[dataset],
        "epochs": 3 if quick else _EPOCHS,
        **parsed(options),
    }


def cells_3(seeds: int, quick: bool = False) -> list[Cell]:
    """All candidates of all rows of table 3 that are not chosen on quarters."""
    return [
        (*row, options, seed)
        for seed in range(seeds)
        for row, candidates in CANDIDATES.items()
        if row not in CHOSEN
        for options in candidates
    ]


def settings_3(cell: Cell, quick: bool = False) -> Recipe:
    """The recipe."""
    _, model, mode, options, _ = cell
    return shortened(model, common(model, mode) | parsed(options), quick)


def scores_2(cell: Cell, quick: bool = False) -> Row:
    """Train once; errors on validation rows, which also chose the epoch."""
    found = _validation_scores(cell, settings_2(cell, quick), "cpu")
    return {name: found[name] for name in ("rmse_z", "nlpd")}


def scores_3(cell: Cell, quick: bool = False) -> Row:
    """Train once; errors on validation rows, which also chose the epoch."""
    found = _validation_scores(cell, settings_3(cell, quick), "auto")
    return {name: found[name] for name in ("rmse_z", "nlpd", "cov95")}


def _validation_scores(cell: Cell, recipe: Recipe, device: str) -> Row:
    dataset, model, mode, _, seed = cell
    train, validation, _ = parts(dataset, mode, model)
    found = predicted(fit(build(model, recipe, seed, device), train, validation), validation)
    gaussian = Student(found.mean, found.std)  # whatever the tails: these rows were calibrated on
    return scores(gaussian, validation.y, train.y.std(0))


def markdown_2(table: pd.DataFrame) -> str:
    """The best options of each row, and the median over all."""
    lines = [
        "# Options of table 2, searched on validation rows",
        "",
        f"Validation RMSE (z), mean over {table.seed.nunique()} seed(s), of the best of "
        f"{table.options.nunique()} sets of options (for a GP model: the best by NLPD), and of the "
        "median set.",
        "",
    ]
    rows = []
    for (dataset, model, mode), part in table.groupby(["dataset", "model", "mode"], sort=False):
        each = part.groupby("options")[["rmse_z", "nlpd"]].mean()
        best = str(each["nlpd" if str(model).startswith("gp-") else "rmse_z"].idxmin())
        errors = [f"{each.rmse_z[best]:.3f}", f"{each.rmse_z.median():.3f}"]
        rows.append([dataset, model, mode, best, *errors])
    columns = ["data", "model", "mode", "best options", "best", "median"]
    return "\n".join([*lines, *table_lines(columns, rows)]) + "\n"


def markdown_3(table: pd.DataFrame) -> str:
    """Every candidate's mean validation error, the best of each row bold."""
    lines = [
        "# Options of table 3, searched on validation rows",
        "",
        f"Validation RMSE (z), mean over up to {table.seed.nunique()} seeds; the lowest of a row is "
        "taken. A GP's mean may be shifted on these same rows (in rows made by an earlier version, also "
        "shrunk towards a linear prediction), a plain network's is not: compare options of one model only.",
        "",
    ]
    rows = []
    for (dataset, model, mode), part in table.groupby(["dataset", "model", "mode"], sort=False):
        each = part.groupby("options")[["rmse_z", "nlpd"]].mean()
        for options, found in each.iterrows():
            best = "**" if options == each.rmse_z.idxmin() else ""
            error = f"{best}{found.rmse_z:.4f}{best}"
            rows.append([dataset, model, mode, options, error, f"{found.nlpd:.3f}"])
    columns = ["data", "model", "mode", "options", "RMSE z", "NLPD"]
    return "\n".join([*lines, *table_lines(columns, rows)]) + "\n"


EXPERIMENTS = (
    Experiment("search-table2", KEYS, cells_2, settings_2, scores_2, markdown_2),
    Experiment("search-table3", KEYS, cells_3, settings_3, scores_3, markdown_3),
)
