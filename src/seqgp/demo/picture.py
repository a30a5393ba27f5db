"""The demo's picture: predictions with their intervals over the measured load."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from seqgp.io import atomic_write
from seqgp.plots.style import BAND, MODEL, TRUTH, new_figure, time_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["forecast_picture", "save_picture"]

_WEEK, _CLOSE = 7 * 24, 2 * 24  # hours


def forecast_picture(frame: pd.DataFrame, title: str) -> Figure:
    """The last week and the last two days of a forecast of ``load``.

    Args:
        frame: result of :meth:`seqgp.Forecaster.evaluate` with the target ``load``, one row an hour.
        title: heading of the figure.
    """
    figure, (week, close) = new_figure(2, height=6.5, width=9.0, sharex=False)
    figure.suptitle(title, fontsize=14)
    _draw(week, frame.iloc[-_WEEK:], "The last week, each hour predicted one hour ahead", ".")
    _draw(close, frame.iloc[-_CLOSE:], "The last two days", "o")
    week.legend(loc="upper left", ncols=3, frameon=False)
    low, high = week.get_ylim()
    week.set_ylim(low, high + 0.2 * (high - low))  # room for the legend
    return figure


def save_picture(figure: Figure, path: Path) -> None:
    """Write a figure as a PNG file, atomically."""
    with atomic_write(path) as temporary:
        figure.savefig(temporary, format="png", dpi=120)


def _draw(axis: Axes, rows: pd.DataFrame, title: str, marker: str) -> None:
    times = time_axis(axis, rows.index)
    band = (rows["q0.025"], rows["q0.975"])
    axis.fill_between(times, *band, color=BAND, linewidth=0, label="95% interval")
    axis.plot(times, rows["mean"], color=MODEL, linewidth=1.5, label="predicted")
    axis.plot(times, rows["load"], marker, color=TRUTH, markersize=4, label="measured")
    axis.set_title(title, loc="left", fontsize=11)
    axis.set_ylabel("load (MW)")
