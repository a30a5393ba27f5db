"""Inside a model: how training went, and the latent space that the GP works in."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from seqgp.plots.canvas import BIAS, MODEL, label, legend, new_figure, thin, write_out

__all__ = ["latent_plot", "training_plot"]

_CURVES = {
    "nlml": "NLML per row",
    "val_nlpd": "validation NLPD",
    "val_rmse": "validation RMSE",
    "noise": "noise variance",
}
_PANEL_HEIGHT = 1.5
_MOST_POINTS = 3000


def training_plot(history: pd.DataFrame, best_epoch: int | None = None) -> Figure:
    """Curves of ``history_`` of an estimator, the kept epoch marked; those without numbers left out."""
    drawn = [name for name in _CURVES if name in history and np.isfinite(history[name]).any()]
    if not drawn:
        raise ValueError(
            f"the history has {len(history)} epochs and no finite value of {', '.join(_CURVES)}: pass "
            "history_ of an estimator that was trained for an epoch at least"
        )
    figure, axes = new_figure(len(drawn), 0.5 + _PANEL_HEIGHT * len(drawn))
    marker = "o" if len(history) <= 40 else ""
    for axis, name in zip(axes, drawn, strict=True):
        axis.plot(history["epoch"], history[name], marker=marker, markersize=3, color=MODEL)
        axis.set_ylabel(_CURVES[name].replace(" ", "\n", 1))
        if best_epoch is not None and best_epoch in set(history["epoch"]):
            axis.axvline(best_epoch, color=BIAS, linestyle="--", label=f"kept: epoch {best_epoch}")
    axes[-1].set_xlabel("epoch: one pass over the training rows")
    axes[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    legend(axes[0])
    return figure


def latent_plot(H: ArrayLike, values: ArrayLike, name: str, colours: str = "viridis") -> Figure:
    """Latent points ``(n, d)`` coloured by ``values`` ``(n,)``: the first two dimensions.

    With one dimension the values stand on the vertical axis. At most 3,000 points are drawn;
    ``colours`` is a matplotlib colour map.
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
    flat = points.shape[1] == 1
    cloud = axis.scatter(
        points[:, 0],
        heights if flat else points[:, 1],
        c=heights,
        s=7,
        linewidths=0,
        cmap=colours,
        rasterized=True,
    )
    axis.set_xlabel("latent dimension 1")
    axis.set_ylabel(label(name) if flat else "latent dimension 2")
    if not flat:
        if len(heights):  # a few extreme rows would leave one colour for all others
            cloud.set_clim(*np.quantile(heights, [0.02, 0.98]))
        bar = figure.colorbar(cloud, ax=axis, label=label(name), extend="both")
        write_out(bar.ax.yaxis)
    return figure
