"""Windows ``(n, lag, p)`` over one or several series, held as a view: memory O(series)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, DTypeLike, NDArray
from torch import Tensor

from seqgp.data.checks import as_finite, as_series, check_alike, check_int

__all__ = ["TensorWindows", "WindowSet"]

Array = NDArray[Any]
_MODES = ("regression", "autoregression")


class WindowSet:
    """Windows ``(n, lag, p)`` and targets ``(n,)`` or ``(n, o)`` over one or several series.

    A window holds the rows ``t - lag + 1 .. t`` of its series; its target is at ``t + horizon``.
    Only the series and one start per window are stored; a batch is made when it is asked for.

    Args:
        inputs: ``(N, p)`` or ``(N,)``, or a list of those: several series, side by side, whose
            borders no window crosses. None is allowed in autoregression (past targets only).
        targets: ``(N, o)`` or ``(N,)``, or a list of those with the lengths of ``inputs``.
        lag: rows in a window.
        horizon: steps from a window's last row to its target. 0 (the target's own time) is allowed
            in regression only, since in autoregression the window would hold its own target.
        mode: ``"regression"``: a window holds inputs; ``"autoregression"``: inputs, then past
            targets, side by side in the last axis.
        pad: None, or a value: each series is then preceded by ``lag - 1`` rows of it, so that the
            first window ends at the first row. The value is on the scale of the series given:
            ``map_features`` transforms padding like any other row.
        dtype: a floating dtype for the stored series and ``y``.

    Example:
        >>> windows = WindowSet(np.arange(6.0), 10 * np.arange(6.0), lag=3)
        >>> windows.shape, windows.y
        ((3, 3, 1), array([30., 40., 50.]))
        >>> windows[[0]].ravel()
        array([0., 1., 2.])
    """

    def __init__(
        self,
        inputs: ArrayLike | list[Any] | tuple[Any, ...] | None,
        targets: ArrayLike | list[Any] | tuple[Any, ...],
        lag: int,
        horizon: int = 1,
        mode: str = "regression",
        pad: float | None = None,
        dtype: DTypeLike = np.float64,
    ) -> None:
        if mode not in _MODES:
            raise ValueError(f"mode is {mode!r}; expected one of {', '.join(map(repr, _MODES))}.")
        lag = check_int("lag", lag, least=1)
        horizon = check_int("horizon", horizon, least=0)
        if mode == "autoregression" and horizon == 0:
            raise ValueError(
                "horizon is 0 in autoregression: the window would contain its own target. "
                "Use horizon >= 1, or mode='regression'."
            )
        if inputs is None and mode == "regression":
            raise ValueError(
                "inputs is None in regression: a window would be empty. "
                "Pass inputs, or use mode='autoregression' to predict from past targets."
            )
        if pad is not None and not np.isfinite(pad):
            raise ValueError(f"pad is {pad}; expected None or a finite number.")
        kind = np.dtype(dtype)
        if kind.kind != "f":
            raise ValueError(f"dtype is {kind}; expected a floating dtype such as np.float64.")

        y_list = as_series("targets", targets, kind)
        x_list = as_series("inputs", inputs, kind) if inputs is not None else None
        check_alike(x_list, y_list)

        # With padding a window may end at row 0, so one row and the horizon are enough.
        need = horizon + (lag if pad is None else 1)
        n_pad = 0 if pad is None else lag - 1
        blocks, starts, times, owners, ys, offsets = [], [], [], [], [], []
        offset = 0
        for k, y in enumerate(y_list):
            if len(y) < need:
                raise ValueError(
                    f"series {k} has {len(y)} rows; lag={lag} and horizon={horizon}"
                    f"{'' if pad is None else ' with padding'} need at least {need}. "
                    "Use a shorter lag or horizon, pad the start, or leave the series out."
                )
            parts = [] if x_list is None else [_columns(x_list[k])]
            if mode == "autoregression":
                parts.append(_columns(y))
            block = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
            if n_pad:
                block = np.concatenate([np.full((n_pad, block.shape[1]), pad, kind), block])
            n = len(y) - need + 1
            time = np.arange(need - 1, need - 1 + n)
            blocks.append(block)
            starts.append(np.arange(offset, offset + n))
            times.append(time)
            owners.append(np.full(n, k))
            ys.append(y[time])
            offsets.append(offset)
            offset += len(block)

        # One series without padding is not copied: read-only, because it may be the caller's.
        series = (
            np.ascontiguousarray(blocks[0]).view() if len(blocks) == 1 else np.concatenate(blocks)
        )
        series.flags.writeable = False
        self._series: Array = series
        self._starts: NDArray[np.int64] = np.concatenate(starts).astype(np.int64)
        self._lag = lag
        self._n_pad = n_pad
        self._offsets = offsets
        self.horizon = horizon
        self.mode = mode
        self.y: Array = np.concatenate(ys)
        self.time: NDArray[np.int64] = np.concatenate(times).astype(np.int64)
        self.series_index: NDArray[np.int64] = np.concatenate(owners).astype(np.int64)

    def __len__(self) -> int:
        return len(self._starts)

    def __repr__(self) -> str:
        n, lag, p = self.shape
        return f"WindowSet(n={n}, lag={lag}, features={p}, horizon={self.horizon}, {self.mode})"

    @property
    def shape(self) -> tuple[int, int, int]:
        """``(n, lag, p)``, the shape all windows would have as one array."""
        return len(self), self._lag, self.features

    @property
    def ndim(self) -> int:
        """Always 3."""
        return 3

    @property
    def lag(self) -> int:
        """Rows in a window."""
        return self._lag

    @property
    def features(self) -> int:
        """Columns ``p`` in a window."""
        return int(self._series.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the stored series."""
        return self._series.dtype

    @property
    def series(self) -> Array:
        """``(N_total, p)``: the stored rows of all series one after another, padding included."""
        return self._series

    @property
    def starts(self) -> NDArray[np.int64]:
        """``(n,)``: the row of ``series`` at which each window begins."""
        return self._starts

    def __getitem__(self, index: Any) -> Array:
        """``(b, lag, p)``: the windows at ``index`` (slice, int array, mask), as a new array.

        An integer gives one window ``(lag, p)``.
        """
        view = sliding_window_view(self._series, self._lag, axis=0).swapaxes(1, 2)
        starts = self._starts[_numpy_index(index)]
        # A scalar start would give a view of the series; copy, so that the rule is one.
        return np.ascontiguousarray(view[starts]) if np.ndim(starts) else view[starts].copy()

    def subset(self, index: Any) -> WindowSet:
        """``(b, lag, p)``: the windows at ``index`` as a set that shares this one's series."""
        index = _numpy_index(index)
        if np.ndim(index) == 0 and not isinstance(index, slice):
            index = [index]
        part = copy.copy(self)
        part._starts = self._starts[index]
        part.y = self.y[index]
        part.time = self.time[index]
        part.series_index = self.series_index[index]
        return part

    def union(self, other: WindowSet) -> WindowSet:
        """``(n + m, lag, p)``: these windows, then those of ``other``, a subset of the same set."""
        if self._series is not other._series or self._lag != other._lag:
            raise ValueError(
                "the windows are of different series: only subsets of one WindowSet can be joined"
            )
        both = copy.copy(self)
        both._starts = np.concatenate([self._starts, other._starts])
        both.y = np.concatenate([self.y, other.y])
        both.time = np.concatenate([self.time, other.time])
        both.series_index = np.concatenate([self.series_index, other.series_index])
        return both

    def rows(self) -> Array:
        """``(k, p)``: every row of the series that some window holds, once, without padding.

        This is what a standardisation of the features of a training part is fitted on.
        """
        # +1 where a window begins, -1 after it ends: the running sum counts the windows on a row.
        edges = np.zeros(len(self._series) + 1, dtype=np.int64)
        np.add.at(edges, self._starts, 1)
        np.add.at(edges, self._starts + self._lag, -1)
        held = np.cumsum(edges[:-1]) > 0
        for offset in self._offsets:
            held[offset : offset + self._n_pad] = False
        return self._series[held]

    def map_features(self, fn: Callable[[Array], ArrayLike]) -> WindowSet:
        """``(n, lag, q)``: the same windows over ``fn(series)``, ``(N_total, p) → (N_total, q)``.

        ``fn`` also sees the padding rows, which are on the scale of the series given.
        """
        mapped = np.asarray(fn(self._series))
        if mapped.ndim != 2 or len(mapped) != len(self._series):
            raise ValueError(
                f"map_features: fn returned shape {mapped.shape} for a series of shape "
                f"{self._series.shape}; expected ({len(self._series)}, q). "
                "fn must act on each row and keep their number."
            )
        mapped = as_finite("map_features: the result of fn", mapped, self.dtype)
        if np.shares_memory(mapped, self._series):
            mapped = mapped.copy()
        mapped.flags.writeable = False
        out = copy.copy(self)
        out._series = mapped
        return out

    def tensor(
        self, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu"
    ) -> TensorWindows:
        """``(n, lag, p)``: the windows on a device, the series copied there once."""
        series = torch.tensor(self._series, dtype=dtype, device=device)
        return TensorWindows(series, torch.tensor(self._starts, device=device), self._lag)


class TensorWindows:
    """Windows ``(n, lag, p)`` over one ``(N, p)`` tensor, gathered on its device when indexed.

    Wherever only ``len``, ``shape``, ``dtype``, ``device`` and indexing by rows are used, it and a
    plain ``(n, lag, p)`` tensor are interchangeable.
    """

    def __init__(self, series: Tensor, starts: Tensor, lag: int) -> None:
        if series.ndim != 2:
            raise ValueError(f"series has shape {tuple(series.shape)}; expected (N, p).")
        if len(starts) and (int(starts.min()) < 0 or int(starts.max()) + lag > len(series)):
            raise ValueError(
                f"windows of {lag} rows starting at {int(starts.min())} to {int(starts.max())} "
                f"leave the series of {len(series)} rows; expected 0 <= start <= N - lag."
            )
        self._series = series
        self._starts = starts
        self._lag = lag
        # index_select on this overlapping view copies each window as one run of memory: twice as
        # fast as index arithmetic at (128, 48, 12), and faster than indexing materialised windows.
        self._view = series.unfold(0, lag, 1).transpose(1, 2)

    def __len__(self) -> int:
        return len(self._starts)

    @property
    def shape(self) -> torch.Size:
        """``(n, lag, p)``."""
        return torch.Size((len(self), self._lag, self._series.shape[1]))

    @property
    def ndim(self) -> int:
        """Always 3."""
        return 3

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of a batch."""
        return self._series.dtype

    @property
    def device(self) -> torch.device:
        """The device of a batch."""
        return self._series.device

    def __getitem__(self, index: Any) -> Tensor:
        """``(b, lag, p)``: the windows at ``index`` (LongTensor, slice, mask), as a new tensor.

        An integer gives one window ``(lag, p)``.
        """
        starts = self._starts[self._on_device(index)]
        if starts.ndim == 0:
            return self._view[starts].clone()
        return self._view.index_select(0, starts)

    def subset(self, index: Any) -> TensorWindows:
        """``(b, lag, p)``: the windows at ``index``, sharing this one's series tensor."""
        return TensorWindows(self._series, self._starts[self._on_device(index)], self._lag)

    def _on_device(self, index: Any) -> Any:
        if isinstance(index, Tensor):
            return index.to(self.device)
        return torch.tensor(np.array(index), device=self.device) if np.ndim(index) else index


def _numpy_index(index: Any) -> Any:
    return index.cpu().numpy() if isinstance(index, Tensor) else index


def _columns(values: Array) -> Array:
    return values[:, None] if values.ndim == 1 else values
