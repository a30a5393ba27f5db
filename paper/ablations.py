"""Ablations: the linear mean function in table 2, and each piece of the calibration in the study.

``ablation-mean``: GP-LSTM with a linear mean function and without, with and without ``skip``. Both give the
model a linear path from the window: the mean function a fixed one, fitted beforehand, the skip connection
one that is trained with the rest. All else is as in table 2, but for one training each.

``ablation-calibration``: the calibration study's GP-LSTM with one piece of its calibration left out. One
training gives a whole row: the calibration is fitted after it, on validation rows, and is fitted again
with each piece left out in turn. The choice of the epoch stays as it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from paper import calibration
from paper.calibration_report import PROPOSED, TASKS
from paper.models import fit, predictive_of
from paper.pieces import ALL, without
from paper.runner import Cell, Experiment, Row, table_lines
from paper.table2 import settings as table_2_settings
from paper.table2 import table_2_scores
from paper.tasks import SYSID, Parts

__all__ = ["CALIBRATION", "MEAN", "PIECES", "SCORES", "pieces_in"]

_MEAN_KEYS = ("dataset", "mode", "mean", "skip", "seed")
SCORES = {"rmse_z": 4, "nlpd": 3, "crps": 4, "cov50": 3, "cov95": 3}  # and their digits
PIECES = {
    "": "all pieces",
    "mixing": "one training, no ensemble",
    "shift": "no correction of the level",
    "shape": "no noise network",
    "tails": "Gaussian instead of Student's t",
    ALL: "no calibration, one training",
}


def mean_cells(seeds: int, quick: bool = False) -> list[Cell]:
    """Both data sets, one step ahead, both mean functions, skip on and off."""
    return [
        (dataset, mode, mean, skip, seed)
        for seed in range(seeds)
        for dataset in SYSID
        for mode in ("regression", "autoregression")
        for mean in ("zero", "linear")
        for skip in (False, True)
    ]


def mean_settings(cell: Cell, quick: bool = False) -> dict[str, Any]:
    """As in table 2, but for the mean, skip, and one training."""
    dataset, mode, _, _, seed = cell
    return table_2_settings((dataset, "gp-lstm", mode, seed), quick) | _changes(cell)


def _changes(cell: Cell) -> dict[str, Any]:
    _, _, mean, skip, _ = cell
    return {"mean": mean, "skip": bool(skip), "restarts": 1}


def mean_scores(cell: Cell, quick: bool = False) -> Row:
    """One GP-LSTM, with the validation error it would be chosen by."""
    dataset, mode, _, _, seed = cell
    return table_2_scores((dataset, "gp-lstm", mode, seed), quick, **_changes(cell))


def mean_markdown(table: pd.DataFrame) -> str:
    """Side by side."""
    lines = [
        "# The mean function, GP-LSTM",
        "",
        f"z-scale, mean (standard deviation) over {table.seed.nunique()} seed(s); all else as in table 2, "
        "but for one training each.",
        "",
    ]
    rows = [
        [
            dataset,
            mode,
            mean,
            "yes" if skip else "no",
            f"{part.val_rmse_z.mean():.3f} ({part.val_rmse_z.std(ddof=0):.3f})",
            f"{part.rmse_z.mean():.3f} ({part.rmse_z.std(ddof=0):.3f})",
            f"{part.nlpd.mean():.2f}",
            f"{part.cov95.mean():.2f}",
        ]
        for (dataset, mode, mean, skip), part in table.groupby(list(_MEAN_KEYS[:-1]), sort=False)
    ]
    columns = [
        "data",
        "mode",
        "mean",
        "skip",
        "validation RMSE",
        "test RMSE",
        "test NLPD",
        "coverage",
    ]
    return "\n".join([*lines, *table_lines(columns, rows)]) + "\n"


MEAN = Experiment(
    "ablation-mean", _MEAN_KEYS, mean_cells, mean_settings, mean_scores, mean_markdown
)


def piece_cells(seeds: int, quick: bool = False) -> list[Cell]:
    """The study's tasks."""
    return [(dataset, mode, seed) for seed in range(seeds) for dataset, mode in TASKS]


def piece_settings(cell: Cell, quick: bool = False) -> dict[str, Any]:
    """Those of the study."""
    dataset, mode, seed = cell
    return calibration.settings((dataset, PROPOSED, mode, seed), quick)


def piece_scores(cell: Cell, quick: bool = False) -> Row:
    """Train once, and score every variant; columns are ``score/piece left out``."""
    dataset, mode, _ = cell
    every = calibration.study_parts(dataset, mode, PROPOSED, quick)
    return calibration.averaged([_variants(cell, part, quick) for part in every])


def _variants(cell: Cell, part: Parts, quick: bool) -> dict[str, float]:
    train, validation, test = part
    model = fit(calibration.unfitted((cell[0], PROPOSED, *cell[1:]), quick), train, validation)
    scale = train.y.std(0)
    found: dict[str, float] = {}
    for piece in PIECES:
        variant = without(model.fitted_, piece, train, validation)
        variant = variant.updated(validation, validation.y)
        scores = calibration.score(predictive_of(variant, test), test.y, scale)
        found |= {f"{name}/{piece}": scores[name] for name in SCORES}
    return found


def pieces_in(table: pd.DataFrame) -> dict[str, str]:
    """The pieces that a table has, and what its rows without each are called.

    Rows of an earlier version have pieces that there are no longer; these stand before the others.
    """
    found = [name.partition("/")[2] for name in table.columns if name.startswith("nlpd/")]
    gone = {piece: f"without the former piece `{piece}`" for piece in found if piece not in PIECES}
    return {"": PIECES[""]} | gone | {piece: PIECES[piece] for piece in PIECES if piece in found}


def piece_markdown(table: pd.DataFrame) -> str:
    """A table a task; pieces that change nothing there are left out."""
    pieces = pieces_in(table)
    lines = [
        "# What each piece of calibration contributes",
        "",
        f"The study's {PROPOSED} on its test rows, with one piece left out and the others fitted again "
        "to the same validation rows; means over seeds, and over test parts where there are four. Pieces "
        "that change nothing on a task are not shown. Nothing was chosen by this table.",
    ]
    gone = [piece for piece in pieces if piece not in PIECES]
    if gone:
        lines += [
            "",
            f"All rows were made by an earlier version, whose calibration had further pieces "
            f"({', '.join(gone)}) and calibrated each training before they were averaged.",
        ]
    for dataset, mode in TASKS:
        part = table[(table.dataset == dataset) & (table["mode"] == mode)]
        if part.empty:
            continue
        means = part.mean(numeric_only=True)
        whole = [means[f"{name}/"] for name in SCORES]
        rows = []
        for piece, called in pieces.items():
            values = [means[f"{name}/{piece}"] for name in SCORES]
            if piece and np.allclose(values, whole, rtol=1e-9, atol=0.0):
                continue
            digits = SCORES.values()
            rows.append([called, *(f"{v:.{n}f}" for v, n in zip(values, digits, strict=True))])
        title = f"## {dataset}, {mode}, {part.seed.nunique()} seed(s)"
        columns = ["", "RMSE z", "NLPD", "CRPS", "50%", "95%"]
        lines += ["", title, "", *table_lines(columns, rows)]
    return "\n".join(lines) + "\n"


CALIBRATION = Experiment(
    "ablation-calibration",
    ("dataset", "mode", "seed"),
    piece_cells,
    piece_settings,
    piece_scores,
    piece_markdown,
)
