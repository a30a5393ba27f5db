"""What the calibration study compares, and how it is shown: tables, a summary and two figures."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

__all__ = [
    "BASELINES",
    "FIRST",
    "LEVELS",
    "MODELS",
    "PIT",
    "PROPOSED",
    "TASKS",
    "draw_coverage",
    "draw_pit",
    "held",
    "markdown",
    "summary",
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
_SHOWN = (FIRST, PROPOSED, "lstm", "lstm-ensemble")  # in the figure of PITs
_HIGHEST = 3.0  # bar drawn whole there
_HELD = {50: 0.04, 95: 0.02}  # how far the share of an interval of that level may be off

# Okabe and Ito's colours, and a marker each: told apart without colour too.
_LOOKS = {
    FIRST: ("#56B4E9", "v"),
    PROPOSED: ("#0072B2", "D"),
    "lstm": ("#222222", "o"),
    "lstm-heteroscedastic": ("#E69F00", "s"),
    "lstm-dropout": ("#009E73", "^"),
    "lstm-ensemble": ("#D55E00", "P"),
    "lstm-conformal": ("#CC79A7", "X"),
    "lstm-vbll": ("#888888", "*"),
}


def markdown(table: pd.DataFrame) -> str:
    """One table a task, then what the proposed model has won and lost."""
    seeds = table.seed.nunique()
    lines = [
        "# Error bars on the same encoder",
        "",
        f"Means over up to {seeds} seed(s) on test rows; of Actuator and Drives also over four test "
        "parts, each quarter of the recording in turn. RMSE, NLPD, CRPS and the width of the 95% interval "
        "are on targets standardised by the training part (z). Coverage is the share of values "
        "inside their central interval, with its standard deviation over seeds in brackets; PIT error is "
        "the mean distance of the PIT's percentiles from uniform ones; cost is the time of training as a "
        f"multiple of {FIRST}'s of the same seed, the median of the seeds: a rough one, since not all "
        "were trained side by side, and none where the machines were of two kinds or busy (the cost of "
        "calibration itself is measured by benchmarks/calibration.py). Bold is the best of a "
        "column: the lowest, and of coverages the one nearest to its level, not counting persistence and "
        "ridge, which have one constant error bar. In regression, persistence knows the last target, which "
        "the others are not given. A narrow interval is no merit by itself, so no width is bold. Split "
        "conformal prediction has no density.",
    ]
    for task, part in _tasks_in(table):
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
    lines = [
        "| model | RMSE z | NLPD | CRPS | 50% | 80% | 95% | width | PIT error | cost |",
        "| --- " * (1 + len(columns)) + "|",
    ]
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
        lines.append(f"| {model} | {' | '.join(entries)} |")
    return lines


def _target(column: str) -> float:
    """The level that a column of coverages aims at; 0 for other columns."""
    return int(column[3:]) / 100.0 if column.startswith("cov") else 0.0


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """The proposed model beside the best alternative, one row a task that has both.

    Gaps are the proposed model's score less the lowest of the alternatives: negative is a win.
    """
    rows = []
    for task, part in _tasks_in(table):
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
        alike: Any = means.loc[CONFORMAL] if CONFORMAL in means.index else {}
        row |= {f"alike{level}": alike.get(f"cov{level}", math.nan) for level in _HELD}
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
        "| task | seeds | NLPD gap | best alternative | CRPS gap | best alternative | RMSE ratio |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    rows: Any = found.itertuples()
    for row in rows:
        ratio = "" if math.isnan(row.rmse_ratio) else f"{row.rmse_ratio:.3f}"
        lines.append(
            f"| {row.task} | {row.seeds} | {row.nlpd_gap:+.3f} | {row.nlpd_rival} "
            f"| {row.crps_gap:+.4f} | {row.crps_rival} | {ratio} |"
        )
    n = len(found)
    wins = {name: int((found[f"{name}_gap"] < 0).sum()) for name in ("nlpd", "crps")}
    return [
        *lines,
        "",
        "| of all tasks | |",
        "| --- | --- |",
        f"| best in NLPD | {wins['nlpd']} of {n} |",
        f"| best in CRPS | {wins['crps']} of {n} |",
        f"| largest NLPD gap to the best alternative | {found.nlpd_gap.max():+.3f} |",
        f"| RMSE ratio, mean and largest | {found.rmse_ratio.mean():.3f}, {found.rmse_ratio.max():.3f} |",
        "",
        *_coverage_lines(found),
    ]


def held(found: pd.DataFrame, which: str) -> pd.Series:
    """For each task of a :func:`summary`, whether ``cov`` (the proposed model's) or ``alike`` hold."""
    off = [
        (found[f"{which}{level}"] - level / 100.0).abs() <= most for level, most in _HELD.items()
    ]
    return off[0] & off[1]


def _coverage_lines(found: pd.DataFrame) -> list[str]:
    """Coverage beside what can be expected of it."""
    most = " and ".join(f"{value:g} at {level}%" for level, value in _HELD.items())
    lines = [
        "## Coverage, and how alike test and validation rows are",
        "",
        "A split conformal interval around the plain LSTM holds its level wherever test errors are like "
        "validation errors, whatever they look like, so its share tells how alike they are: what is "
        "calibrated on validation rows can hold where that one does. The adaptive interval follows the "
        f"truths as they come in. Held means off by at most {most}.",
        "",
        f"| task | {CONFORMAL} 50% | 95% | held | {PROPOSED} 50% | 95% | held | adaptive 95% |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    rows: Any = found.assign(alike=held(found, "alike"), ours=held(found, "cov")).itertuples()
    for row in rows:
        shares = [row.alike50, row.alike95, row.cov50, row.cov95, row.adaptive]
        a, b, c, d, e = ("" if math.isnan(each) else f"{each:.3f}" for each in shares)
        alike, ours = ("yes" if each else "no" for each in (row.alike, row.ours))
        alike = alike if a else ""
        lines.append(f"| {row.task} | {a} | {b} | {alike} | {c} | {d} | {ours} | {e} |")
    return lines


def _called(model: str) -> str:
    """Its name in a figure."""
    return f"{model} (proposed)" if model == PROPOSED else model


def _tasks_in(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Name and rows of each task that the table has."""
    found = []
    for dataset, mode in TASKS:
        part = table[(table.dataset == dataset) & (table["mode"] == mode)]
        if not part.empty:
            found.append((f"{dataset}, {mode}", part))
    return found


def draw_coverage(table: pd.DataFrame, path: Path) -> None:
    """Coverage of the three intervals of every model less what they promise; a panel a task."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    tasks = _tasks_in(table)
    columns = min(3, len(tasks))
    rows = -(-len(tasks) // columns)
    size = (max(4.2 * columns + 0.6, 9.0), 2.9 * rows + 1.4)
    figure = Figure(figsize=size, layout="constrained")
    axes = np.ravel(figure.subplots(rows, columns, squeeze=False))
    for axis in axes[len(tasks) :]:
        axis.set_visible(False)
    shown = [model for model in _LOOKS if model in set(table.model)]
    names = [_called(model) for model in shown]
    places = 0.1 * (np.arange(len(shown)) - 0.5 * (len(shown) - 1))
    for axis, (task, part) in zip(axes, tasks, strict=False):
        axis.axhline(0.0, color="#222222", linewidth=1.2)
        handles = []
        for place, model in zip(places, shown, strict=True):
            found = 100.0 * part[part.model == model][[f"cov{level}" for level in LEVELS]]
            colour, marker = _LOOKS[model]
            ours = model == PROPOSED
            drawn = axis.errorbar(
                np.arange(len(LEVELS)) + place,
                found.mean() - np.array(LEVELS),
                found.std(ddof=0),
                fmt=marker,
                color=colour,
                markersize=9 if ours else 5.5,
                markeredgecolor="black" if ours else colour,
                elinewidth=1,
                zorder=4 if ours else 3,
            )
            handles.append(drawn)
        low, high = axis.get_ylim()
        axis.set(ylim=(min(low, -10.0), max(high, 10.0)), xlim=(-0.5, len(LEVELS) - 0.5))
        for edge in range(1, len(LEVELS)):
            axis.axvline(edge - 0.5, color="#BBBBBB", linewidth=0.8)
        axis.set_title(task, fontsize=11)
        axis.set_xticks(range(len(LEVELS)), [f"{level}% interval" for level in LEVELS])
        axis.tick_params(axis="x", length=0)
        axis.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:+g}" if value else "0")
        axis.grid(axis="y", color="#E6E6E6", linewidth=0.8)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
    looks: dict[str, Any] = {"ncols": 4, "frameon": False, "fontsize": 10}
    figure.legend(handles, names, loc="outside lower center", **looks)
    figure.suptitle(
        "Share of test values inside an interval, less what the interval promises\n"
        "0: as promised; below: error bar too narrow; above: too wide; lines: deviation over seeds; "
        "panels have their own scales"
    )
    figure.supylabel("percentage points", fontsize=11)
    figure.savefig(path, dpi=110)


def draw_pit(table: pd.DataFrame, path: Path) -> None:
    """PIT histograms of four models, a row a task: flat is calibrated."""
    from matplotlib.figure import Figure

    tasks = _tasks_in(table)
    shown = [model for model in _SHOWN if model in set(table.model)] or [table.model.iloc[0]]
    figure = Figure(figsize=(2.7 * len(shown) + 0.8, 1.45 * len(tasks) + 1.3), layout="constrained")
    axes = figure.subplots(len(tasks), len(shown), sharex=True, sharey=True, squeeze=False)
    width = 1.0 / len(PIT)
    for line, (name, part) in zip(axes, tasks, strict=True):
        for axis, model in zip(line, shown, strict=True):
            density = part[part.model == model][PIT].mean()
            colour = _LOOKS[model][0]
            axis.bar(np.arange(len(PIT)) * width, density, width, align="edge", color=colour)
            axis.axhline(1.0, color="#222222", linewidth=1, linestyle="--")
            axis.set(xlim=(0, 1), ylim=(0, _HIGHEST))
            for k in np.flatnonzero(density > _HIGHEST):
                where = ((k + 0.5) * width, 0.98 * _HIGHEST)
                label = f"{density.iloc[k]:.1f}"
                axis.text(*where, label, color="white", fontsize=7, ha="center", va="top")
            axis.spines[["top", "right"]].set_visible(False)
        line[0].set_ylabel(name.replace(", ", "\n"), fontsize=9)
    for axis, model in zip(axes[0], shown, strict=True):
        axis.set_title(_called(model), fontsize=11)
    figure.suptitle(
        "Where test values fall in their predicted distribution. Flat (dashed) is right;\n"
        "high at both ends: error bars too narrow; high in the middle: too wide; a bar with a "
        "number goes on to there"
    )
    figure.supxlabel("probability integral transform (0: far below, 1: far above)", fontsize=10)
    figure.savefig(path, dpi=110)
