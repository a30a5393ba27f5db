"""What all plots share: size, colours, axes of time, and which of many points to draw."""

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

_WIDTH, _HEIGHT = 4.8, 2.9  # inches: text stays readable when it fills the width of a phone
_LONGEST_LABEL = 40
# Tick labels of years, months, days, hours, minutes, seconds; and of the first tick of each.
_TICKS = ["%Y", "%b", "%d", "%H:%M", "%H:%M", "%S.%f"]
_FIRST_TICKS = ["%Y", "%b\n%Y", "%b", "%d %b", "%H:%M", "%H:%M"]


def new_figure(
    panels: int = 1, height: float = _HEIGHT, width: float = _WIDTH, sharex: bool = True
) -> tuple[Figure, list[Axes]]:
    """A figure with ``panels`` axes below one another.

    Args:
        panels: number of axes.
        height: of the figure, in inches.
        width: of the figure, in inches.
        sharex: all axes have the same horizontal range, labelled at the bottom.
    """
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = np.ravel(figure.subplots(panels, sharex=sharex)).tolist()
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
    """Write tick labels with thousands separators and without a power of ten in the corner."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.9g}"))


def label(text: str) -> str:
    """A name as a label: dollar signs are not read as formulas, and long names are cut."""
    short = text if len(text) <= _LONGEST_LABEL else text[: _LONGEST_LABEL - 1] + "…"
    return short.replace("$", r"\$")


def thin(n: int, most: int) -> NDArray[np.int64]:
    """Positions of at most ``most`` of ``n`` rows, evenly spaced, the last row included.

    >>> thin(10, 4)
    array([0, 3, 6, 9])
    """
    every = max(1, -(-n // most))
    return np.arange((n - 1) % every, n, every)


def time_axis(axis: Axes, index: pd.Index) -> NDArray[Any]:
    """Prepare ``axis`` for an index of times or numbers; its values ``(n,)``, ready to draw."""
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
    # Local times as in the data: matplotlib would convert zoned times to UTC.
    return index.tz_localize(None).to_numpy()
