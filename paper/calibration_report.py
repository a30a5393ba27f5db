"""The calibration study's tasks and models, and its tables."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from paper.runner import table_lines

__all__ = [
    "BASELINES",
    "FIRST",
    "LEVELS",
    "MODELS",
    "PIT",
    "PROPOSED",
    "TASKS",
    "held",
    "markdown",
    "summary",
    "tasks_in",
]

TASKS = (
    ("actuator", "autoregression"),
    ("drives", "autoregression"),
    ("gef-power", "autoregression"),
    ("gef-power", "regression"),
    ("gef-wind", "regression"),
    ("car-speed", "regression"),
    ("car-yaw", "regression"),
    ("car-lanes", "autoregression"),
    ("car-lead", "autoregression"),
)
FIRST, PROPOSED, CONFORMAL = "gp-lstm-first", "gp-lstm", "lstm-conformal"
BASELINES = ("persistence", "ridge")
MODELS = (
    *BASELINES,
    FIRST,
    PROPOSED,
    "lstm",
    "lstm-heteroscedastic",
    "lstm-dropout",
    "lstm-ensemble",
    CONFORMAL,
    "lstm-vbll",
)
LEVELS = (50, 80, 95)
PIT = [f"pit{k}" for k in range(10)]
_HELD = {50: 0.04, 95: 0.02}  # the largest error of coverage at that level which counts as held


def markdown(table: pd.DataFrame) -> str:
    """One table a task, then the proposed model beside the best alternative."""
    seeds = table.seed.nunique()
    lines = [
        "# Error bars on the same encoder",
        "",
        f"Means over up to {seeds} seed(s) on test rows; of Actuator and Drives also over four "
        "test parts, each quarter of the recording in turn (blocked cross-validation). RMSE, "
        "NLPD, CRPS and the width of the 95% interval are on targets standardised by the training "
        "part (z). Coverage is the share of values inside their central interval, with its "
        "standard deviation over seeds in brackets; PIT error is the mean distance of the PIT's "
        f"percentiles from uniform ones; cost is the time of training as a multiple of {FIRST}'s "
        "of the same seed, the median of the seeds. It is a rough figure, since not all were "
        "trained side by side, and missing where the machines were of two kinds or busy (the cost "
        "of calibration itself is measured by `python -m paper.cost`). Bold is the best of a "
        "column: the lowest, and of coverages the one nearest to its level, not counting "
        "persistence and ridge, which have one constant error bar. In regression, persistence "
        "knows the last target, which the others are not given. A narrow interval is no merit by "
        "itself, so no width is bold. Split conformal prediction has no density.",
    ]
    for task, part in tasks_in(table):
        lines += ["", f"## {task}", "", *_task_lines(part)]
    return "\n".join([*lines, "", *_summary_lines(summary(table))]) + "\n"


def _means(part: pd.DataFrame) -> pd.DataFrame:
    """Mean over seeds, one row a model in the order of ``MODELS``; ``cost`` relative to the first."""
    means = part.groupby("model").mean(numeric_only=True)
    means = means.reindex([model for model in MODELS if model in means.index])
    seconds = part.pivot_table(index="seed", columns="model", values="train_seconds")
    known = FIRST in seconds
    return means.assign(cost=seconds.div(seconds[FIRST], axis=0).median() if known else math.nan)


def _task_lines(part: pd.DataFrame) -> list[str]:
    means = _means(part)
    spreads: Any = part.groupby("model").std(ddof=0, numeric_only=True)
    columns = {"rmse_z": 4, "nlpd": 3, "crps": 4, "cov50": 3, "cov80": 3, "cov95": 3, "width95": 3}
    columns |= {"pit_error": 3, "cost": 2}
    compared = means.drop(index=list(BASELINES), errors="ignore")
    best = {
        name: (compared[name] - _target(name)).abs().min()
        if _target(name)
        else compared[name].min()
        for name in columns
        if name != "width95"
    }
    rows = []
    for model, row in means.iterrows():
        entries = []
        for name, digits in columns.items():
            value, aim = row[name], _target(name)
            text = "" if math.isnan(value) else f"{value:.{digits}f}"
            reached = abs(value - aim) if aim else value
            if model not in BASELINES and name in best and reached == best[name]:
                text = f"**{text}**"
            if aim:
                text += f" ({spreads.at[model, name]:.3f})"
            entries.append(text)
        rows.append([model, *entries])
    heads = ["model", "RMSE z", "NLPD", "CRPS", "50%", "80%", "95%", "width", "PIT error", "cost"]
    return table_lines(heads, rows)


def _target(column: str) -> float:
    """The level that a column of coverages aims at; 0 for other columns."""
    return int(column[3:]) / 100.0 if column.startswith("cov") else 0.0


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """The proposed model beside the best alternative, one row a task that has both.

    Gaps are the proposed model's score less the lowest of the alternatives: negative is a win.
    """
    rows = []
    for task, part in tasks_in(table):
        means = _means(part)
        others = means.drop(index=[FIRST, PROPOSED, *BASELINES], errors="ignore")
        if PROPOSED not in means.index or others.nlpd.isna().all():
            continue
        ours = means.loc[PROPOSED]
        row: dict[str, Any] = {"task": task, "seeds": int((part.model == PROPOSED).sum())}
        for name in ("nlpd", "crps"):
            row[f"{name}_rival"] = others[name].idxmin()
            row[f"{name}_gap"] = ours[name] - others[name].min()
        row |= {"cov50": ours.cov50, "cov95": ours.cov95, "adaptive": ours.cov95_adaptive}
        conformal: Any = means.loc[CONFORMAL] if CONFORMAL in means.index else {}
        row |= {f"conformal{level}": conformal.get(f"cov{level}", math.nan) for level in _HELD}
        row["rmse_ratio"] = math.nan
        if FIRST in means.index:
            both = part.pivot_table(index="seed", columns="model", values="rmse_z")
            both = both[[FIRST, PROPOSED]].dropna()
            row["rmse_ratio"] = both[PROPOSED].mean() / both[FIRST].mean()
        rows.append(row)
    return pd.DataFrame(rows)


def _summary_lines(found: pd.DataFrame) -> list[str]:
    if found.empty:
        return []
    lines = [
        "## Summary",
        "",
        f"{PROPOSED} less the best alternative on an LSTM of each task ({FIRST} is not one): below 0 it is "
        f"better than all of them. RMSE is a ratio to {FIRST} of the same seeds.",
        "",
    ]
    rows = [
        [
            row["task"],
            row["seeds"],
            f"{row['nlpd_gap']:+.3f}",
            row["nlpd_rival"],
            f"{row['crps_gap']:+.4f}",
            row["crps_rival"],
            "" if math.isnan(row["rmse_ratio"]) else f"{row['rmse_ratio']:.3f}",
        ]
        for row in found.to_dict("records")
    ]
    heads = ["task", "seeds", "NLPD gap", "best alternative", "CRPS gap", "best alternative"]
    lines += table_lines([*heads, "RMSE ratio"], rows)
    n = len(found)
    wins = {name: int((found[f"{name}_gap"] < 0).sum()) for name in ("nlpd", "crps")}
    return [
        *lines,
        "",
        *table_lines(
            ["of all tasks", ""],
            [
                ["best in NLPD", f"{wins['nlpd']} of {n}"],
                ["best in CRPS", f"{wins['crps']} of {n}"],
                ["largest NLPD gap to the best alternative", f"{found.nlpd_gap.max():+.3f}"],
                [
                    "RMSE ratio, mean and largest",
                    f"{found.rmse_ratio.mean():.3f}, {found.rmse_ratio.max():.3f}",
                ],
            ],
        ),
        "",
        *_coverage_lines(found),
    ]


def held(found: pd.DataFrame, which: str) -> pd.Series:
    """Whether coverage is held on each task of a :func:`summary`.

    Args:
        found: the summary.
        which: ``"cov"``, the proposed model's intervals, or ``"conformal"``.
    """
    off = [
        (found[f"{which}{level}"] - level / 100.0).abs() <= most for level, most in _HELD.items()
    ]
    return off[0] & off[1]


def _coverage_lines(found: pd.DataFrame) -> list[str]:
    """Coverage beside that of split conformal intervals."""
    most = " and ".join(f"{value:g} at {level}%" for level, value in _HELD.items())
    lines = [
        "## Coverage, and whether test and validation errors are exchangeable",
        "",
        "A split conformal interval around the plain LSTM has its nominal coverage wherever test "
        "errors are exchangeable with validation errors, whatever their distribution. Its "
        "coverage therefore shows the shift between the two: any method that is calibrated on "
        "validation rows can be expected to hold its level where this one does. The adaptive "
        f"interval follows the observations as they come in. Held means off by at most {most}.",
        "",
    ]
    names = ("conformal50", "conformal95", "cov50", "cov95", "adaptive")
    rows = []
    for k, row in enumerate(found.to_dict("records")):
        a, b, c, d, e = ("" if math.isnan(row[name]) else f"{row[name]:.3f}" for name in names)
        theirs, ours = (
            "yes" if held(found, which).iloc[k] else "no" for which in ("conformal", "cov")
        )
        rows.append([row["task"], a, b, theirs if a else "", c, d, ours, e])
    heads = [f"{CONFORMAL} 50%", "95%", "held", f"{PROPOSED} 50%", "95%", "held", "adaptive 95%"]
    return [*lines, *table_lines(["task", *heads], rows)]


def tasks_in(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Name and rows of each task that the table has."""
    found = []
    for dataset, mode in TASKS:
        part = table[(table.dataset == dataset) & (table["mode"] == mode)]
        if not part.empty:
            found.append((f"{dataset}, {mode}", part))
    return found
