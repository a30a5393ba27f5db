"""The demonstration's picture: predictions with their band over what was measured."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from seqgp.plots.canvas import BAND, MODEL, TRUTH, time_axis, write_out

__all__ = ["forecast_picture", "save_picture"]

_WEEK, _CLOSE = 7 * 24, 2 * 24  # hours


def forecast_picture(frame: pd.DataFrame, title: str) -> Figure:
    """The last week of ``frame``, and its last two days closer up.

    ``frame`` is that of :meth:`seqgp.Forecaster.evaluate` with the target ``load``.
    """
    figure = Figure(figsize=(9, 6.5), layout="constrained")
    figure.suptitle(title, fontsize=14)
    week, close = figure.subplots(2, 1)
    _draw(week, frame.iloc[-_WEEK:], "The last week: each hour predicted one hour ahead", ".")
    _draw(close, frame.iloc[-_CLOSE:], "Closer: the last two days", "o")
    week.legend(loc="upper left", ncols=3, frameon=False)
    low, high = week.get_ylim()
    week.set_ylim(low, high + 0.2 * (high - low))  # room for the legend
    return figure


def save_picture(figure: Figure, path: Path) -> None:
    """Write a PNG whole or not at all."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        figure.savefig(temporary, format="png", dpi=120)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _draw(axis: Axes, rows: pd.DataFrame, title: str, marker: str) -> None:
    times = time_axis(axis, rows.index)
    band = (rows["q0.025"], rows["q0.975"])
    axis.fill_between(times, *band, color=BAND, linewidth=0, label="95% interval")
    axis.plot(times, rows["mean"], color=MODEL, linewidth=1.5, label="predicted")
    axis.plot(times, rows["load"], marker, color=TRUTH, markersize=4, label="measured")
    axis.set_title(title, loc="left", fontsize=11)
    axis.set_ylabel("load (MW)")
    write_out(axis.yaxis)
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(axis="y", alpha=0.3)
