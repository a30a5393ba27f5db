"""The car's options with past targets, chosen by blocked cross-validation over four quarters.

Table 3's validation part of the car is of few drives, and of the vehicle ahead it is a single vehicle at a
constant distance. So these options are chosen here, on quarters of the rows before table 3's test part,
each held back in turn (:func:`paper.tasks.rotated`); a car's drives are separate recordings, so later ones
may train. Models are trained as for table 3.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from paper import calibration
from paper.calibration_report import LEVELS, PIT
from paper.models import BASELINES, build, fit, fit_twice, predictive_of
from paper.recipes import CANDIDATES, common, parsed, shortened
from paper.runner import Cell, Experiment, Row, table_lines
from paper.tasks import QUARTERS, Parts, parts, rotated

__all__ = ["CHOSEN", "EXPERIMENT", "mean_errors", "quarter_parts"]

KEYS = ("dataset", "model", "mode", "options", "quarter", "seed")
CHOSEN = tuple(
    (dataset, model, "autoregression")
    for dataset in ("car-speed", "car-lanes", "car-lead")
    for model in ("lstm", "gp-lstm")
)
"""The rows of table 3 whose options are chosen here."""
_ROW = list(KEYS[:4])
_BASELINES = ("persistence", "ridge")
_NONE = "-"
_SEEDS = 1


def cells(seeds: int, quick: bool = False) -> list[Cell]:
    """Every model and candidate on every quarter, with one seed."""
    rows = [
        (dataset, model, "autoregression", _NONE)
        for dataset in dict.fromkeys(row[0] for row in CHOSEN)
        for model in _BASELINES
    ]
    rows += [(*row, options) for row in CHOSEN for options in CANDIDATES[row]]
    return [
        (*row, quarter, seed)
        for seed in range(min(seeds, _SEEDS))
        for row in rows
        for quarter in QUARTERS
    ]


def quarter_parts(dataset: str, mode: str, model: str, quarter: int) -> Parts:
    """Training, validation and held-back windows, all of them before table 3's test part.

    Args:
        dataset: name of the recording.
        mode: ``"regression"`` or ``"autoregression"``.
        model: its name in the table.
        quarter: 1 to 4, the part held back.
    """
    train, validation, _ = parts(dataset, mode, model)
    return rotated(train.union(validation), quarter)


def settings(cell: Cell, quick: bool = False) -> dict[str, Any]:
    """The recipe."""
    _, model, mode, options, *_ = cell
    if model in _BASELINES:
        return {}
    return shortened(model, common(model, mode) | parsed(options), quick)


def scores(cell: Cell, quick: bool = False) -> Row:
    """Train one model; its scores on the quarter held back."""
    dataset, model, mode, _, quarter, seed = cell
    train, validation, held = quarter_parts(dataset, mode, model, quarter)
    if model in _BASELINES:
        fitted: Any = fit(BASELINES[model](), train, validation)
    else:
        fitted = fit_twice(build(model, settings(cell, quick), seed), train, validation)
    found = calibration.score(predictive_of(fitted, held), held.y, train.union(validation).y.std(0))
    return {
        **{name: value for name, value in found.items() if name not in PIT},
        "cov95_adaptive": calibration.adaptive_coverage(fitted, held),
    }


def mean_errors(table: pd.DataFrame) -> pd.Series:
    """Of each row and option the geometric mean of its errors, so that all quarters have equal weight."""
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
        "the standard deviation over quarters. These are quarters of the rows before table 3's test part.",
    ]
    columns = ["model", "options", "seeds", *(f"quarter {q}" for q in QUARTERS), "mean", "NLPD"]
    columns += ["CRPS", *(f"{level}%" for level in LEVELS), "adaptive 95%"]
    for dataset, part in table.groupby("dataset", sort=False):
        rows = []
        for _, of_model in part.groupby("model", sort=False):
            errors = mean_errors(of_model).droplevel([0, 1, 2])
            for options, each in of_model.groupby("options", sort=False):
                best = len(errors) > 1 and errors[options] == errors.min()
                rows.append(_entries(each, errors[options], best))
        lines += ["", f"## {dataset}, {part['mode'].iloc[0]}", "", *table_lines(columns, rows)]
    return "\n".join(lines) + "\n"


def _entries(rows: pd.DataFrame, mean: float, best: bool) -> list[str]:
    each = rows.groupby("quarter").mean(numeric_only=True)
    entries = [rows.model.iloc[0], rows.options.iloc[0], str(rows.seed.nunique())]
    entries += [f"{each.rmse_z[q]:.5f}" if q in each.index else "" for q in QUARTERS]
    entries.append(f"**{mean:.5f}**" if best else f"{mean:.5f}")
    entries += [f"{each.nlpd.mean():.3f}", f"{each.crps.mean():.5f}"]
    for level in LEVELS:
        share = each[f"cov{level}"]
        entries.append(f"{share.mean():.3f} ({share.std(ddof=0):.3f})")
    adaptive = each.cov95_adaptive.mean()
    return [*entries, "" if np.isnan(adaptive) else f"{adaptive:.3f}"]


EXPERIMENT = Experiment("quarters", KEYS, cells, settings, scores, markdown)
