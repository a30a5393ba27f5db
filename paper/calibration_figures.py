"""Figures of the calibration study: coverage of every model, and PIT histograms of four."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from paper.calibration_report import FIRST, LEVELS, PIT, PROPOSED, tasks_in

__all__ = ["draw_coverage", "draw_pit"]

_SHOWN = (FIRST, PROPOSED, "lstm", "lstm-ensemble")  # in the figure of PITs
_HIGHEST = 3.0  # of a bar of the PIT
# Okabe and Ito's colours, and a marker each, so that they differ without colour too.
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


def _called(model: str) -> str:
    """Its name in a figure."""
    return f"{model} (proposed)" if model == PROPOSED else model


def draw_coverage(table: pd.DataFrame, path: Path) -> None:
    """Coverage of the three intervals of every model less their levels; a panel a task."""
    tasks = tasks_in(table)
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
    tasks = tasks_in(table)
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
