"""System identification: the paper's table 2, with its figures beside ours.

Protocol of the paper: the first 45% of the windows train, the next 45% test, the last 10% validate;
a window ends at t and its target is t + 1. Within a run, epochs, restarts and the way of training for
simulation are chosen on the validation part. Errors are shown in the data's own units and on targets
standardised by the training part (z), because the paper does not state its scale.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from paper.models import Persistence, RidgeModel, build, fit, predicted, quietly, scores
from paper.predictive import Student
from paper.recipes import recipe_of
from paper.runner import Cell, Experiment, Row, table_lines
from paper.tasks import SYSID, lag_of, parts
from seqgp.forecasting import fit_multistep, simulate, starts_of
from seqgp.metrics import rmse

__all__ = ["EXPERIMENT", "KEYS", "MODELS", "MODES", "PAPER", "cells", "settings", "table_2_scores"]

KEYS = ("dataset", "model", "mode", "seed")
MODES = ("regression", "autoregression", "simulation")
MODELS = ("persistence", "ridge", "narx", "rnn", "lstm", "gp-narx", "gp-rnn", "gp-lstm")
_SAMPLES = 100
_ROUNDS = 1  # of multi-step training
_BASELINES: dict[str, Any] = {"persistence": Persistence, "ridge": RidgeModel}

# Figures of the paper, arXiv:1610.08936: mean test RMSE and its deviation over 5 runs.
PAPER: dict[tuple[str, str], dict[str, tuple[float, float]]] = {
    ("drives", "regression"): {
        "narx": (0.33, 0.02), "rnn": (0.53, 0.02), "lstm": (0.29, 0.02),
        "gp-narx": (0.28, 0.02), "gp-rnn": (0.37, 0.04), "gp-lstm": (0.25, 0.02),
    },
    ("drives", "autoregression"): {
        "narx": (0.19, 0.03), "rnn": (0.17, 0.04), "lstm": (0.14, 0.02),
        "gp-narx": (0.16, 0.04), "gp-rnn": (0.16, 0.03), "gp-lstm": (0.13, 0.02),
    },
    ("drives", "simulation"): {
        "narx": (0.38, 0.03), "rnn": (0.56, 0.03), "lstm": (0.40, 0.02),
        "gp-narx": (0.28, 0.02), "gp-rnn": (0.45, 0.03), "gp-lstm": (0.32, 0.03),
    },
    ("actuator", "regression"): {
        "narx": (0.49, 0.05), "rnn": (0.56, 0.03), "lstm": (0.40, 0.03),
        "gp-narx": (0.46, 0.03), "gp-rnn": (0.49, 0.02), "gp-lstm": (0.36, 0.01),
    },
    ("actuator", "autoregression"): {
        "narx": (0.18, 0.01), "rnn": (0.17, 0.01), "lstm": (0.19, 0.01),
        "gp-narx": (0.14, 0.01), "gp-rnn": (0.15, 0.01), "gp-lstm": (0.14, 0.01),
    },
    ("actuator", "simulation"): {
        "narx": (0.57, 0.04), "rnn": (0.68, 0.05), "lstm": (0.44, 0.03),
        "gp-narx": (0.63, 0.04), "gp-rnn": (0.55, 0.04), "gp-lstm": (0.43, 0.03),
    },
}  # fmt: skip
# Recurrent GP (Mattos et al. 2016) in free simulation, as the paper quotes it.
_RGP = {"drives": 0.249, "actuator": 0.368}


def cells(seeds: int, quick: bool = False) -> list[Cell]:
    """Every model on every data set in every mode; baselines have no random numbers."""
    return [
        (dataset, model, mode, seed)
        for seed in range(seeds)
        for dataset in SYSID
        for mode in MODES
        for model in MODELS
        if seed == 0 or model not in _BASELINES
    ]


def settings(cell: Cell, quick: bool = False) -> dict[str, Any]:
    """All that decides a cell's numbers."""
    dataset, model, mode, _ = cell
    found: dict[str, Any] = {"lag": lag_of(dataset, mode)}
    if model not in _BASELINES:
        found |= recipe_of(dataset, model, mode, quick)
        if mode == "simulation":
            found |= {"rounds": 0 if quick else _ROUNDS, "samples": _SAMPLES}
    return found


def table_2_scores(cell: Cell, quick: bool = False, **changes: Any) -> Row:
    """Train and test one model. ``changes`` to the recipe are for ablations."""
    dataset, model, mode, seed = cell
    train, validation, test = parts(dataset, mode, model)
    scale = float(train.y.std())
    if model in _BASELINES:
        fitted = fit(_BASELINES[model](), train, validation)
    else:
        recipe = recipe_of(dataset, model, mode, quick) | changes
        fitted = build(model, recipe, seed, "cpu")
        if mode == "simulation":
            rounds = 0 if quick else _ROUNDS
            with quietly():
                fitted = fit_multistep(fitted, train, validation, rounds=rounds, seed=seed).model
        else:
            fit(fitted, train, validation)
    if mode == "simulation":
        inputs, history, targets = starts_of(test, len(test))
        run = simulate(fitted, inputs, history, samples=_SAMPLES, seed=seed)
        found = scores(Student(run.mean, run.std), targets, scale)
    else:
        found = scores(predicted(fitted, test), test.y, scale)
    if changes:  # an ablation is decided on validation rows
        found["val_rmse_z"] = rmse(validation.y, predicted(fitted, validation).mean) / scale
    return found


def markdown(table: pd.DataFrame) -> str:
    """Mean (deviation) over seeds of every cell, beside the paper's."""
    lines = [
        "# System identification (the paper's table 2)",
        "",
        f"Test RMSE, mean (standard deviation) over {table.seed.nunique()} seed(s): in the data's own "
        "units, and on targets standardised by the training part (z). The paper does not state its "
        "scale; plain networks match it for Actuator on the z-scale and for Drives in own units, marked "
        "*. NLPD is on the z-scale, coverage that of the 95% interval. The recurrent GP (RGP) is quoted "
        f"by the paper for free simulation: {_RGP['drives']} (Drives), {_RGP['actuator']} (Actuator).",
    ]
    for dataset in SYSID:
        for mode in MODES:
            part = table[(table.dataset == dataset) & (table["mode"] == mode)]
            if part.empty:
                continue
            own, z = ("*", "") if dataset == "drives" else ("", "*")
            columns = ["model", f"RMSE{own}", f"RMSE z{z}", "paper", "NLPD", "coverage", "seconds"]
            entries = [
                [
                    model,
                    _spread(rows.rmse),
                    _spread(rows.rmse_z),
                    quoted(PAPER[dataset, mode].get(model)),
                    f"{rows.nlpd.mean():.2f}",
                    f"{rows.cov95.mean():.2f}",
                    f"{rows.seconds.mean():.0f}",
                ]
                for model in MODELS
                if not (rows := part[part.model == model]).empty
            ]
            lines += ["", f"## {dataset.capitalize()}, {mode}", "", *table_lines(columns, entries)]
    return "\n".join(lines) + "\n"


def quoted(figure: tuple[float, float] | None) -> str:
    """A figure of the paper, with its deviation."""
    return "" if figure is None else f"{figure[0]:.2f} ({figure[1]:.2f})"


def _spread(values: pd.Series) -> str:
    return f"{values.mean():.3f} ({np.std(values):.3f})"


EXPERIMENT = Experiment("table2", KEYS, cells, settings, table_2_scores, markdown)
