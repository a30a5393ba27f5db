"""What all plots share: size, colours, and which of many points to draw."""

from __future__ import annotations

from typing import Any

import matplotlib.dates
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from numpy.typing import NDArray

__all__ = [
    "BAND",
    "BIAS",
    "MODEL",
    "QUIET",
    "TRUTH",
    "label",
    "legend",
    "new_figure",
    "thin",
    "time_axis",
    "write_out",
]

# Okabe and Ito's colours: told apart with any kind of colour vision, and in grey print.
MODEL = "#0072B2"
BIAS = "#D55E00"
TRUTH = "#222222"
BAND = "#9CCBE8"
QUIET = "#BBBBBB"

_WIDTH = 4.8  # inches: text stays readable when the figure fills the width of a phone
_HEIGHT = 2.9
_LONGEST_LABEL = 40
# How ticks are written: years, months, days, hours, minutes, seconds; and the first one of each.
_TICKS = ["%Y", "%b", "%d", "%H:%M", "%H:%M", "%S.%f"]
_FIRST_TICKS = ["%Y", "%b\n%Y", "%b", "%d %b", "%H:%M", "%H:%M"]


def new_figure(panels: int = 1, height: float = _HEIGHT) -> tuple[Figure, list[Axes]]:
    """A figure with ``panels`` axes below one another, sharing their horizontal axis."""
    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    axes = np.ravel(figure.subplots(panels, sharex=True)).tolist()
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(color="#E6E6E6", linewidth=0.8)
        axis.set_axisbelow(True)
        write_out(axis.yaxis)
    return figure, axes


def legend(axis: Axes) -> None:
    """A legend above the axes, where it never covers the data."""
    entries = axis.get_legend_handles_labels()[1]
    if entries:
        where: dict[str, Any] = {"loc": "lower right", "bbox_to_anchor": (1, 1)}
        axis.legend(**where, ncols=len(entries), frameon=False, borderpad=0, columnspacing=1.2)


def write_out(axis: Axis) -> None:
    """Write numbers out with thousands apart, in place of a power of ten in the corner."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.9g}"))


def label(text: str) -> str:
    """A name as it is, but short: dollar signs are no formulas, and a long one is cut."""
    short = text if len(text) <= _LONGEST_LABEL else text[: _LONGEST_LABEL - 1] + "…"
    return short.replace("$", r"\$")


def thin(n: int, most: int) -> NDArray[np.int64]:
    """Positions of at most ``most`` of ``n`` rows, evenly spread, the last one among them.

    >>> thin(10, 4)
    array([0, 3, 6, 9])
    """
    every = max(1, -(-n // most))
    return np.arange((n - 1) % every, n, every)


def time_axis(axis: Axes, index: pd.Index) -> NDArray[Any]:
    """The index as numbers or dates to draw ``(n,)``; the axis is told how to write them."""
    if not isinstance(index, pd.DatetimeIndex):
        axis.set_xlabel(label(str(index.name)) if index.name else "row")
        return index.to_numpy()
    dates: Any = matplotlib.dates  # has no annotations
    locator = dates.AutoDateLocator(minticks=3, maxticks=7)
    axis.xaxis.set_major_locator(locator)
    axis.xaxis.set_major_formatter(
        dates.ConciseDateFormatter(
            locator, formats=_TICKS, zero_formats=_FIRST_TICKS, show_offset=False
        )
    )
    axis.set_xlabel(f"{index[0]:%d %b %Y} to {index[-1]:%d %b %Y}")
    # Dates as the reader's clock shows them: matplotlib would turn zones into UTC.
    return index.tz_localize(None).to_numpy()
