"""Whether predicted distributions tell the truth: the PIT histogram and the coverage of intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom

from seqgp.metrics import pit_histogram, share_error
from seqgp.plots.canvas import BAND, MODEL, QUIET, TRUTH, legend, new_figure

__all__ = ["coverage_plot", "observed_coverage", "pit_plot"]

Array = NDArray[np.float64]

_LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


def observed_coverage(pit: ArrayLike, level: float = 0.95) -> tuple[float, float]:
    """Share of rows inside their central interval of that level, and its sampling error.

    ``pit`` ``(n,)`` is in the order of time, see :func:`seqgp.metrics.share_error`.

    >>> observed_coverage([0.5, 0.4, 0.999, 0.6], level=0.5)
    (0.75, 0.25)
    """
    values = _checked(pit)
    inside = np.abs(values - 0.5) <= level / 2.0
    return float(inside.mean()), share_error(inside, level)


def pit_plot(pit: ArrayLike) -> Figure:
    """Histogram of the probability integral transform ``(n,)``, and what chance allows a flat one.

    The band holds 95% of the bars of a perfect model with independent rows.
    """
    values = _checked(pit)
    n = len(values)
    bins = 20 if n >= 400 else 10 if n >= 50 else 5
    edges, density = pit_histogram(values, bins)
    low, high = (float(binom.ppf(p, n, 1.0 / bins)) * bins / n for p in (0.025, 0.975))
    figure, (axis,) = new_figure()
    axis.bar(edges[:-1], density, np.diff(edges), align="edge", color=MODEL, edgecolor="white")
    axis.axhspan(low, high, color=QUIET, alpha=0.5, linewidth=0, label="what chance allows")
    axis.axhline(1.0, color=TRUTH, linewidth=1, linestyle="--", label="ideal")
    axis.set(
        xlabel="where the measured value fell\n(0: far below the prediction, 1: far above)",
        ylabel="share, relative to ideal",
        xlim=(0, 1),
        ylim=(0, max(1.5, 1.1 * float(density.max()), 1.1 * high)),
    )
    legend(axis)
    return figure


def coverage_plot(pit: ArrayLike, levels: Sequence[float] = _LEVELS) -> Figure:
    """Share of rows inside intervals of several levels, against what the levels promise.

    Bars are two sampling errors long to either side, as in :func:`observed_coverage`.
    """
    values = _checked(pit)
    found = np.array([observed_coverage(values, level) for level in levels])
    figure, (axis,) = new_figure()
    axis.plot([0, 1], [0, 1], "--", color=TRUTH, linewidth=1, label="ideal")
    axis.fill_between([0, 1], [0, 1], 1, color=BAND, alpha=0.25, linewidth=0)
    axis.text(0.03, 0.94, "range too wide", color="#333333", va="top")
    axis.text(0.97, 0.06, "range too narrow", color="#333333", ha="right")
    axis.errorbar(
        levels,
        found[:, 0],
        2.0 * found[:, 1],
        fmt="o-",
        color=MODEL,
        markersize=4,
        capsize=2,
        label="observed",
    )
    axis.set(xlabel="promised share inside the range", ylabel="observed share", xlim=(0, 1))
    axis.set_ylim(0, 1.02)
    for each in (axis.xaxis, axis.yaxis):
        each.set_major_formatter(PercentFormatter(1.0, decimals=0))
    legend(axis)
    return figure


def _checked(pit: ArrayLike) -> Array:
    values = np.asarray(pit, dtype=np.float64)
    fine = values.ndim == 1 and len(values) and np.isfinite(values).all()
    if not fine or values.min() < 0 or values.max() > 1:
        raise ValueError(
            f"pit has shape {values.shape} and should be a vector of numbers from 0 to 1, one for each "
            "row: take it from seqgp.metrics.pit or Evaluation.pit"
        )
    return values
