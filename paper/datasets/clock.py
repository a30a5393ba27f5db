"""From samples at times of their own to rows on a regular clock, never looking ahead."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from paper.datasets.rows import Array

__all__ = ["bin_means", "elapsed", "ticks"]


def ticks(start: float, stop: float, step: float) -> Array:
    """``(N,)``: the ends of the whole steps from ``start`` to ``stop``, in seconds."""
    # The small surplus keeps a last step that rounding made a little too short.
    count = int((stop - start) / step + 1e-6)
    return np.asarray(start + step * np.arange(1, count + 1), dtype=np.float64)


def bin_means(times: Array, values: Array, clock: Array, step: float, hold: int = 0) -> Array:
    """``(N, p)``: for each tick the mean of the samples in the ``step`` seconds up to it.

    A mean is also the right filter before thinning out: faster swings do not fold into slow ones.
    A tick with no sample takes the row before it, at most ``hold`` ticks long, and then NaN.

    Args:
        times: ``(n,)``, seconds, in any order.
        values: ``(n, p)``; a NaN makes its bin NaN.
        clock: ``(N,)``, from :func:`ticks`.
        step: seconds between two ticks.
        hold: how many ticks a value may stand in for missing ones.
    """
    # A sample at a tick belongs to the step that ends there; rounding must not move it.
    bins = np.ceil((times - clock[0]) / step - 1e-6).astype(np.int64)
    inside = (bins >= 0) & (bins < len(clock))
    bins, values = bins[inside], values[inside]
    counts = np.bincount(bins, minlength=len(clock))
    sums = np.zeros((len(clock), values.shape[1]))
    np.add.at(sums, bins, values)
    means: Array = np.full_like(sums, np.nan)
    np.divide(sums, counts[:, None], out=means, where=counts[:, None] > 0)
    return _held(means, counts > 0, hold)


def elapsed(clock: Array, start: float) -> NDArray[np.timedelta64]:
    """``(N,)``: the ticks as timedelta64 since ``start``, to the millisecond."""
    return np.round(1000 * (clock - start)).astype("timedelta64[ms]")


def _held(rows: Array, there: NDArray[np.bool_], hold: int) -> Array:
    last = np.maximum.accumulate(np.where(there, np.arange(len(rows)), -1))
    usable = (last >= 0) & (np.arange(len(rows)) - last <= hold)
    return np.where(usable[:, None], rows[last], np.nan)
