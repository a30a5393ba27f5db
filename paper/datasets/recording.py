"""A recording: its rows, where it is interrupted, and its entry in the list of data sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seqgp.demo import DataFile, WrongFileError

__all__ = ["Array", "Dataset", "Entry", "Rows", "Status", "bin_means", "elapsed", "join", "ticks"]

Array = NDArray[np.float64]
Segments = tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Rows:
    """Inputs ``(N, p)`` and targets ``(N,)`` or ``(N, o)``, complete: no NaN in either.

    Rows with a missing value are left out and counted in ``holes``. The rest is cut into
    ``segments``, gap-free runs in order, so that no window crosses a gap or a border of two series.
    """

    inputs: Array = field(repr=False)
    targets: Array = field(repr=False)
    times: NDArray[Any] | None = field(default=None, repr=False)
    """``(N,)``: datetime64, or timedelta64 from the start of each series; None if not known."""
    segments: Segments | None = field(default=None, repr=False)
    """``(start, stop)`` of each gap-free run; None: all rows are one run."""
    series: tuple[str, ...] | None = field(default=None, repr=False)
    """For each segment the farm, drive, ... it belongs to; None if there is only one."""
    marks: Mapping[str, NDArray[Any]] = field(default_factory=dict, repr=False)
    """``(N,)`` each: what the source records about a row beside inputs and targets."""
    holes: Mapping[str, int] = field(default_factory=dict)
    """What is missing or was filled in, and in how many rows."""

    def runs(self, least: int = 1) -> tuple[list[Array], list[Array]]:
        """Inputs and targets of each segment of at least that many rows, as ``WindowSet`` takes them.

        A window needs ``lag + horizon`` rows: ``WindowSet(*data.runs(lag + 1), lag=lag)``.
        """
        kept = [slice(*run) for run in self._segments if run[1] - run[0] >= least]
        if not kept:
            longest = max(stop - start for start, stop in self._segments)
            raise ValueError(
                f"no gap-free run has {least} rows; the longest has {longest}. Use shorter windows."
            )
        return [self.inputs[run] for run in kept], [self.targets[run] for run in kept]

    def where(self, mask: ArrayLike) -> Self:
        """Only the rows that a boolean ``mask (N,)`` keeps; runs break where one is left out."""
        keep = np.asarray(mask)
        n = len(self.targets)
        if keep.shape != (n,) or keep.dtype != bool:
            raise ValueError(
                f"mask is {keep.dtype} of shape {keep.shape}; expected booleans of shape ({n},)"
            )
        if not keep.any():
            raise ValueError("mask keeps no row: nothing would be left")
        before = np.concatenate([[0], np.cumsum(keep)])  # rows kept before each row
        segments, series = [], []
        for k, (start, stop) in enumerate(self._segments):
            for first, last in _stretches(keep[start:stop]):
                segments.append((int(before[start + first]), int(before[start + last])))
                series.append(self.series[k] if self.series is not None else "")
        return replace(
            self,
            inputs=self.inputs[keep],
            targets=self.targets[keep],
            times=None if self.times is None else self.times[keep],
            segments=tuple(segments),
            series=None if self.series is None else tuple(series),
            marks={name: values[keep] for name, values in self.marks.items()},
        )

    @property
    def _segments(self) -> Segments:
        return ((0, len(self.targets)),) if self.segments is None else self.segments


@dataclass(frozen=True, eq=False, kw_only=True)
class Dataset(Rows):
    """The rows of a recording with the names of its columns."""

    name: str
    input_names: tuple[str, ...]
    target_names: tuple[str, ...]
    sample_time: float | None = None
    """Seconds between two rows, where it is known."""


@dataclass(frozen=True)
class Status:
    """Whether a data set is on this machine."""

    present: bool
    """All its files are here and are the right ones."""
    where: tuple[Path | None, ...]
    """The path of each file, or None."""
    problem: str | None = None
    """What is wrong with a file that is here but will be refused."""


@dataclass(frozen=True)
class Entry:
    """A data set in the list: what it is, where it comes from, and how its files are read."""

    name: str
    rows: int
    input_names: tuple[str, ...]
    target_names: tuple[str, ...]
    description: str
    source: str
    licence: str
    files: tuple[DataFile, ...]
    read: Callable[[Sequence[Path]], Rows] = field(repr=False)
    """From the paths of ``files``, in their order, to the rows."""
    sample_time: float | None = None

    def status(self) -> Status:
        """Look for the files and check them; nothing is downloaded."""
        where: list[Path | None] = []
        problem = None
        for file in self.files:
            try:
                where.append(file.find())
            except WrongFileError as error:
                where.append(None)
                problem = problem or str(error)
        return Status(None not in where, tuple(where), problem)

    def load(self) -> Dataset:
        """Read it, after downloading what is missing."""
        rows = self.read([file.fetch() for file in self.files])
        return Dataset(
            **vars(rows),
            name=self.name,
            input_names=self.input_names,
            target_names=self.target_names,
            sample_time=self.sample_time,
        )


def join(parts: Mapping[str, Rows]) -> Rows:
    """Several series as one recording, one after another, each with its name; holes add up."""
    rows = list(parts.values())
    offsets = np.cumsum([0, *(len(part.targets) for part in rows)]).tolist()
    segments = [
        (start + offset, stop + offset)
        for part, offset in zip(rows, offsets[:-1], strict=True)
        for start, stop in part._segments
    ]
    times = [part.times for part in rows if part.times is not None]
    return Rows(
        inputs=np.concatenate([part.inputs for part in rows]),
        targets=np.concatenate([part.targets for part in rows]),
        times=np.concatenate(times) if len(times) == len(rows) else None,
        segments=tuple(segments),
        series=tuple(name for name, part in parts.items() for _ in part._segments),
        marks={name: np.concatenate([part.marks[name] for part in rows]) for name in rows[0].marks},
        holes={name: sum(part.holes[name] for part in rows) for name in rows[0].holes},
    )


def _stretches(mask: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """``(start, stop)`` of each stretch of True in ``mask (N,)``.

    >>> _stretches(np.array([True, True, False, True]))
    [(0, 2), (3, 4)]
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    return [(int(start), int(stop)) for start, stop in edges.reshape(-1, 2)]


# From samples at irregular times to rows on a regular clock, without looking ahead.


def ticks(start: float, stop: float, step: float) -> Array:
    """``(N,)``: the ends of the whole steps from ``start`` to ``stop``, in seconds."""
    # The small surplus keeps a last step that rounding made a little too short.
    count = int((stop - start) / step + 1e-6)
    return np.asarray(start + step * np.arange(1, count + 1), dtype=np.float64)


def bin_means(times: Array, values: Array, clock: Array, step: float, hold: int = 0) -> Array:
    """``(N, p)``: for each tick the mean of the samples in the ``step`` seconds up to it.

    The mean also acts as the low-pass filter that thinning out needs. A tick without a sample takes
    the row before it, for at most ``hold`` ticks, and then NaN.

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
    rows = np.arange(len(clock))
    last = np.maximum.accumulate(np.where(counts > 0, rows, -1))
    usable = (last >= 0) & (rows - last <= hold)
    return np.where(usable[:, None], means[last], np.nan)


def elapsed(clock: Array, start: float) -> NDArray[np.timedelta64]:
    """``(N,)``: the ticks as timedelta64 since ``start``, to the millisecond."""
    return np.round(1000 * (clock - start)).astype("timedelta64[ms]")
