"""Diagnostic plots: calibration of the predictive distribution, training, the latent space."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import ArrayLike
from scipy.stats import binom

from seqgp.metrics import observed_coverage, pit_histogram
from seqgp.plots.style import (
    BAND,
    BIAS,
    MODEL,
    QUIET,
    TRUTH,
    label,
    legend,
    new_figure,
    thin,
    write_out,
)

__all__ = ["coverage_plot", "latent_plot", "pit_plot", "training_plot"]

_LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
_CURVES = {
    "nlml": "NLML\nper row",
    "val_nlpd": "validation\nNLPD",
    "val_rmse": "validation\nRMSE",
    "noise": "noise\nvariance",
}
_PANEL = 1.5  # inches
_MOST_POINTS = 3000


def pit_plot(pit: ArrayLike) -> Figure:
    """Histogram of the probability integral transform, with the band expected by chance.

    The band contains 95% of the bars of a calibrated model whose rows are independent.

    Args:
        pit: values ``(n,)`` in [0, 1], from :func:`seqgp.metrics.pit` or ``Evaluation.pit``.

    >>> bars = pit_plot([0.1, 0.3, 0.5, 0.7, 0.7]).axes[0].patches[:5]
    >>> [round(float(bar.get_height()), 6) for bar in bars]
    [1.0, 1.0, 1.0, 2.0, 0.0]
    """
    n = np.size(pit)
    bins = 20 if n >= 400 else 10 if n >= 50 else 5
    edges, density = pit_histogram(pit, bins)
    low, high = (float(binom.ppf(p, n, 1.0 / bins)) * bins / n for p in (0.025, 0.975))
    figure, (axis,) = new_figure()
    axis.bar(edges[:-1], density, np.diff(edges), align="edge", color=BAND, edgecolor="white")
    axis.axhspan(low, high, color=QUIET, alpha=0.5, linewidth=0, label="expected by chance")
    axis.axhline(1.0, color=TRUTH, linewidth=1, linestyle="--", label="calibrated")
    axis.set(
        xlabel="PIT: predicted probability of a lower value",
        ylabel="density",
        xlim=(0, 1),
        ylim=(0, max(1.5, 1.1 * float(density.max()), 1.1 * high)),
    )
    legend(axis)
    return figure


def coverage_plot(pit: ArrayLike, levels: Sequence[float] = _LEVELS) -> Figure:
    """Observed against nominal coverage of central intervals (reliability diagram).

    Error bars are two sampling errors to either side, see :func:`seqgp.metrics.observed_coverage`.

    Args:
        pit: values ``(n,)`` in [0, 1], in order of time.
        levels: nominal coverages.

    >>> axis = coverage_plot([0.5, 0.4, 0.999, 0.6], levels=[0.5, 0.9]).axes[0]
    >>> axis.lines[1].get_ydata().tolist()
    [0.75, 0.75]
    """
    observed, errors = np.transpose([observed_coverage(pit, level) for level in levels])
    figure, (axis,) = new_figure()
    axis.plot([0, 1], [0, 1], "--", color=TRUTH, linewidth=1, label="calibrated")
    axis.fill_between([0, 1], [0, 1], 1, color=BAND, alpha=0.25, linewidth=0)
    axis.text(0.03, 0.94, "intervals too wide", color="#333333", va="top")
    axis.text(0.97, 0.06, "intervals too narrow", color="#333333", ha="right")
    axis.errorbar(
        levels,
        observed,
        2.0 * errors,
        fmt="o-",
        color=MODEL,
        markersize=4,
        capsize=2,
        label="observed",
    )
    axis.set(xlabel="nominal coverage", ylabel="observed coverage", xlim=(0, 1), ylim=(0, 1.02))
    for each in (axis.xaxis, axis.yaxis):
        each.set_major_formatter(PercentFormatter(1.0, decimals=0))
    legend(axis)
    return figure


def training_plot(history: pd.DataFrame, best_epoch: int | None = None) -> Figure:
    """Training curves by epoch, one panel each; curves without a finite value are left out.

    Args:
        history: ``history_`` of an estimator: ``epoch`` and any of ``nlml``, ``val_nlpd``,
            ``val_rmse``, ``noise``.
        best_epoch: the epoch that was kept, marked by a line.

    >>> history = pd.DataFrame({"epoch": [1, 2], "nlml": [1.4, 0.9], "noise": [1.0, 0.5]})
    >>> [axis.get_ylabel() for axis in training_plot(history).axes]
    ['NLML\\nper row', 'noise\\nvariance']
    """
    drawn = [name for name in _CURVES if name in history and np.isfinite(history[name]).any()]
    if not drawn:
        raise ValueError(
            f"the history has {len(history)} epochs and no finite value of {', '.join(_CURVES)}: pass "
            "history_ of an estimator that was trained for at least one epoch"
        )
    figure, axes = new_figure(len(drawn), 0.5 + _PANEL * len(drawn))
    marker = "o" if len(history) <= 40 else ""
    for axis, name in zip(axes, drawn, strict=True):
        axis.plot(history["epoch"], history[name], marker=marker, markersize=3, color=MODEL)
        axis.set_ylabel(_CURVES[name])
        if best_epoch is not None and best_epoch in set(history["epoch"]):
            axis.axvline(best_epoch, color=BIAS, linestyle="--", label=f"kept: epoch {best_epoch}")
    axes[-1].set_xlabel("epoch")
    axes[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    legend(axes[0])
    return figure


def latent_plot(H: ArrayLike, values: ArrayLike, name: str, colours: str = "viridis") -> Figure:
    """Latent points in their first two dimensions, coloured by a quantity.

    With one latent dimension the quantity is on the vertical axis too. At most 3,000 points are drawn.

    Args:
        H: latent points ``(n, d)``.
        values: the quantity ``(n,)``; points where it is NaN are left out.
        name: label of the quantity.
        colours: name of a matplotlib colour map.
    """
    points, heights = np.asarray(H, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if points.ndim != 2 or heights.shape != points.shape[:1] or not len(points):
        raise ValueError(
            f"H has shape {points.shape} and values {heights.shape}, expected (n, d) and (n,) with n ≥ 1"
        )
    few = thin(len(points), _MOST_POINTS)
    points, heights = points[few], heights[few]
    known = np.isfinite(heights)
    points, heights = points[known], heights[known]
    figure, (axis,) = new_figure(height=3.4)
    single = points.shape[1] == 1
    vertical = heights if single else points[:, 1]
    cloud = axis.scatter(
        points[:, 0], vertical, c=heights, s=7, linewidths=0, cmap=colours, rasterized=True
    )
    axis.set_xlabel("latent dimension 1")
    axis.set_ylabel(label(name) if single else "latent dimension 2")
    if not single:
        if len(heights):  # a few extreme rows would leave one colour for all others
            cloud.set_clim(*np.quantile(heights, [0.02, 0.98]))
        bar = figure.colorbar(cloud, ax=axis, label=label(name), extend="both")
        write_out(bar.ax.yaxis)
    return figure
