"""The rows of a recording, and where it is broken: holes, several drives, several farms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Array", "Rows", "join", "runs_of"]

Array = NDArray[np.float64]
Segments = tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Rows:
    """Inputs ``(N, p)`` and targets ``(N,)`` or ``(N, o)``, complete: no NaN in either.

    Rows that the source lacks are left out and counted in ``holes``. What is left is cut into
    ``segments``, gap-free runs in order, so that no window needs to cross a hole or a border.
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
    """``(N,)`` each: what the source says about a row beside inputs and targets."""
    holes: Mapping[str, int] = field(default_factory=dict)
    """What is missing or was filled in, and how many rows of it."""

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
            for first, last in runs_of(keep[start:stop]):
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

    def only(self, *names: str) -> Self:
        """Only the series of these names: some of the farms, some of the drives."""
        known = tuple(dict.fromkeys(self.series or ()))
        unknown = [name for name in names if name not in known]
        if unknown or not names:
            raise ValueError(
                f"series {', '.join(map(repr, unknown)) or '(none)'} asked for; expected some of "
                f"{', '.join(known) or '(this recording has one series, without a name)'}"
            )
        mask = np.zeros(len(self.targets), dtype=bool)
        for (start, stop), name in zip(self._segments, self.series or (), strict=True):
            mask[start:stop] = name in names
        return self.where(mask)

    @property
    def _segments(self) -> Segments:
        return ((0, len(self.targets)),) if self.segments is None else self.segments

    def _frame(self, columns: tuple[str, ...], step: np.timedelta64 | None) -> pd.DataFrame:
        import pandas as pd

        table = pd.DataFrame(np.column_stack([self.inputs, self.targets]), columns=list(columns))
        if self.times is None or step is None:
            if len(self._segments) > 1:
                table["run"] = np.repeat(
                    np.arange(len(self._segments)), [stop - start for start, stop in self._segments]
                )
            return table
        pieces = {}
        for name in dict.fromkeys(self.series or ("",)):
            owned = [
                np.arange(*run)
                for k, run in enumerate(self._segments)
                if self.series is None or self.series[k] == name
            ]
            rows = np.concatenate(owned)
            times = self.times[rows]
            clock = pd.Index(np.arange(times[0], times[-1] + step, step), name="time")
            pieces[name] = table.iloc[rows].set_index(pd.Index(times, name="time")).reindex(clock)
        if len(pieces) == 1:
            (piece,) = pieces.values()
            return piece
        return pd.concat(pieces, names=["series"]).reset_index(level="series")


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


def runs_of(mask: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """``(start, stop)`` of each stretch of True in ``mask (N,)``.

    >>> runs_of(np.array([True, True, False, True]))
    [(0, 2), (3, 4)]
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    return [(int(start), int(stop)) for start, stop in edges.reshape(-1, 2)]
