"""Predictions over the measured values, and their residuals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from seqgp.distributions import Student
from seqgp.plots.style import (
    BAND,
    BIAS,
    MODEL,
    TRUTH,
    label,
    legend,
    new_figure,
    thin,
    time_axis,
    write_out,
)

__all__ = ["error_plot", "forecast_plot", "residual_plot"]

Array = NDArray[np.float64]

_MOST_POINTS = 3000  # in one scatter plot
_MOST_STEPS = 2000  # in one line
_BINS = 12


def forecast_plot(frame: pd.DataFrame, target: str, last: int | None = None) -> Figure:
    """Prediction, its widest interval, and the measured values where the frame has them, over time.

    Args:
        frame: result of :meth:`seqgp.Forecaster.predict`, ``forecast`` or ``evaluate``; measured values
            are in a column named as the target. Rows without a prediction leave a gap.
        target: the predicted column.
        last: draw only this many rows at the end.

    >>> frame = pd.DataFrame({"mean": [1.0, 2.0], "std": [0.5, 0.5], "load": [1.2, 1.9]})
    >>> [line.get_label() for line in forecast_plot(frame, "load").axes[0].lines]
    ['measured', 'predicted']
    """
    frame = frame if last is None else frame.iloc[-last:]
    rows = frame.iloc[thin(len(frame), _MOST_STEPS)]
    mean, (lower, upper, name) = _column(rows, target, "mean"), _band(rows, target)
    figure, (axis,) = new_figure()
    times = time_axis(axis, rows.index)
    breaks = _breaks(times)
    x = _split(times, breaks)
    ends = _split(lower, breaks), _split(upper, breaks)
    axis.fill_between(x, *ends, color=BAND, linewidth=0, label=name)
    marker = "o" if len(rows) <= 150 else ""
    if target in rows:
        truth = _split(rows[target].to_numpy(np.float64), breaks)
        axis.plot(x, truth, marker or "-", color=TRUTH, markersize=3, linewidth=1, label="measured")
    axis.plot(x, _split(mean, breaks), color=MODEL, linewidth=1.4, label="predicted")
    axis.set_ylabel(label(target))
    legend(axis)
    return figure


def residual_plot(frame: pd.DataFrame, target: str) -> Figure:
    """Residuals (measured minus predicted) over time, with the widest interval around zero.

    Args:
        frame: result of :meth:`seqgp.Forecaster.evaluate`; at most 3,000 rows are drawn.
        target: the predicted column.
    """
    rows = _scored(frame, target)
    rows = rows.iloc[thin(len(rows), _MOST_POINTS)]
    mean, (lower, upper, name) = _column(rows, target, "mean"), _band(rows, target)
    figure, (axis,) = new_figure()
    times = time_axis(axis, rows.index)
    few = thin(len(rows), _MOST_STEPS)
    breaks = _breaks(times[few])
    ends = _split((lower - mean)[few], breaks), _split((upper - mean)[few], breaks)
    axis.fill_between(_split(times[few], breaks), *ends, color=BAND, linewidth=0, label=name)
    error = rows[target].to_numpy() - mean
    axis.scatter(times, error, s=4, color=TRUTH, linewidths=0, rasterized=True)
    axis.axhline(0, color=TRUTH, linewidth=0.8)
    axis.set_ylabel("residual")
    legend(axis)
    return figure


def error_plot(frame: pd.DataFrame, target: str) -> Figure:
    """Residuals against the prediction, with their mean in bins of equally many rows.

    Args:
        frame: result of :meth:`seqgp.Forecaster.evaluate`; at most 3,000 rows are drawn, the means
            are those of all rows.
        target: the predicted column.
    """
    rows = _scored(frame, target)
    mean = _column(rows, target, "mean")
    error = rows[target].to_numpy() - mean
    figure, (axis,) = new_figure()
    few = thin(len(rows), _MOST_POINTS)
    axis.scatter(mean[few], error[few], s=4, color=TRUTH, linewidths=0, alpha=0.6, rasterized=True)
    axis.axhline(0, color=TRUTH, linewidth=0.8)
    if len(rows) >= 5 * _BINS:
        parts = np.array_split(np.argsort(mean, kind="stable"), _BINS)
        points = [(mean[part].mean(), error[part].mean()) for part in parts]
        axis.plot(*zip(*points, strict=True), "o-", color=BIAS, markersize=4, label="mean residual")
        legend(axis)
    axis.set_xlabel(f"predicted {label(target)}")
    write_out(axis.xaxis)
    axis.xaxis.set_major_locator(MaxNLocator(5))
    axis.set_ylabel("residual")
    return figure


def _column(frame: pd.DataFrame, target: str, name: str) -> Array:
    """Values of column ``name``, which is ``target.name`` in a frame of several targets."""
    full = f"{target}.{name}"
    if full not in frame and name not in frame:
        raise ValueError(
            f"the frame has columns {', '.join(map(str, frame.columns))}, expected {name!r} or "
            f"{full!r}: pass the result of predict, forecast or evaluate, and one of its targets"
        )
    return frame[full if full in frame else name].to_numpy(np.float64)


def _band(frame: pd.DataFrame, target: str) -> tuple[Array, Array, str]:
    """Ends and name of the widest interval between the frame's quantiles; else 95% of a Gaussian."""
    prefix = f"{target}." if f"{target}.mean" in frame else ""
    start = f"{prefix}q"
    names = [str(name) for name in frame.columns if str(name).startswith(start)]
    levels = {float(name[len(start) :]): name for name in names if _is_number(name[len(start) :])}
    low, high = min(levels, default=0.5), max(levels, default=0.5)
    if low < 0.5 < high:
        text = f"{100 * (high - low):g}% interval"
        return frame[levels[low]].to_numpy(), frame[levels[high]].to_numpy(), text
    gaussian = Student(_column(frame, target, "mean"), _column(frame, target, "std"))
    return *gaussian.interval(0.95), "95% interval"


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdigit()


def _scored(frame: pd.DataFrame, target: str) -> pd.DataFrame:
    """Rows that have a prediction and a measured value."""
    mean = _column(frame, target, "mean")
    if target not in frame:
        raise ValueError(
            f"the frame has no column {target!r} with the measured values: pass the frame of evaluate"
        )
    both = np.isfinite(mean) & np.isfinite(frame[target].to_numpy(np.float64))
    return frame.iloc[np.flatnonzero(both)]


def _breaks(times: NDArray[Any]) -> NDArray[np.int64]:
    """Positions before which a line has to break because rows are missing."""
    steps = np.diff(times).astype(np.int64)
    return np.flatnonzero(steps > 1.5 * np.median(steps)) + 1 if len(steps) else np.empty(0, int)


def _split(values: NDArray[Any], breaks: NDArray[np.int64]) -> NDArray[Any]:
    """Values with a NaN at each break, so that no line is drawn across."""
    if values.dtype.kind in "iu":
        values = values.astype(np.float64)
    gap = np.datetime64("NaT") if values.dtype.kind == "M" else np.nan
    return np.insert(values, breaks, gap)
