"""Splits in time order: contiguous blocks of row indices, never shuffled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import overload

import numpy as np
from numpy.typing import NDArray

from seqgp.data.windows import WindowSet

__all__ = ["split_in_time"]

Index = NDArray[np.int64]


@overload
def split_in_time(
    rows: int | WindowSet, fractions: Mapping[str, float], gap: int = ...
) -> dict[str, Index]: ...
@overload
def split_in_time(
    rows: int | WindowSet, fractions: Sequence[float] = ..., gap: int = ...
) -> tuple[Index, ...]: ...
def split_in_time(
    rows: int | WindowSet,
    fractions: Mapping[str, float] | Sequence[float] = (0.45, 0.45, 0.10),
    gap: int = 0,
) -> dict[str, Index] | tuple[Index, ...]:
    """Index arrays ``(n_1,), (n_2,), ...`` of contiguous blocks in time order.

    The default fractions are the paper's protocol: train, test, validation. The order of the
    fractions is the order in time. Several series in one ``WindowSet`` are split one by one.

    Args:
        rows: a number of rows in time order, or a ``WindowSet``.
        fractions: positive, summing to 1; a mapping names the parts and gives a dict.
        gap: rows left out at the start of every part but the first. Neighbouring windows overlap;
            ``gap = lag + horizon - 1`` makes each part's windows begin after the last target of
            the part before. With 0, every row is used exactly once.

    Example:
        >>> parts = split_in_time(10, {"train": 0.7, "test": 0.3}, gap=1)
        >>> parts["train"], parts["test"]
        (array([0, 1, 2, 3, 4, 5, 6]), array([8, 9]))
    """
    names = list(fractions) if isinstance(fractions, Mapping) else None
    shares = np.asarray(
        list(fractions.values()) if isinstance(fractions, Mapping) else list(fractions), dtype=float
    )
    # Written so that NaN fails it too.
    if not (len(shares) and (shares > 0).all() and abs(shares.sum() - 1) < 1e-6):
        raise ValueError(
            f"fractions are {fractions!r}; expected positive numbers that sum to 1. "
            "To leave rows out, give them a part of their own."
        )
    if isinstance(gap, bool) or not isinstance(gap, int | np.integer) or gap < 0:
        raise ValueError(f"gap is {gap!r}; expected an integer >= 0.")

    pieces = [
        [block[start + (gap if j else 0) : stop] for j, (start, stop) in enumerate(pairwise(edges))]
        for block in _blocks(rows)
        for edges in [_edges(len(block), shares)]
    ]
    parts = tuple(np.concatenate(column) for column in zip(*pieces, strict=True))
    for j, part in enumerate(parts):
        if not len(part):
            raise ValueError(
                f"part {names[j] if names else j} of the split is empty: "
                f"{rows if isinstance(rows, int) else len(rows)} rows, fractions {fractions!r}, "
                f"gap {gap}. Use more rows, a larger fraction, or a smaller gap."
            )
    return dict(zip(names, parts, strict=True)) if names else parts


def _edges(n: int, shares: NDArray[np.float64]) -> list[int]:
    """Borders ``0 = e_0 <= ... <= e_k = n``; rounding the running sum uses each row once."""
    inner = np.floor(np.cumsum(shares)[:-1] * n + 0.5).astype(int)
    return [0, *inner.tolist(), n]


def _blocks(rows: int | WindowSet) -> list[Index]:
    """One index array per series, in time order."""
    if isinstance(rows, WindowSet):
        if not len(rows):
            raise ValueError("the WindowSet is empty; expected at least one window to split.")
        # A subset may be in any order: sort by series, then by time.
        order = np.lexsort((rows.time, rows.series_index))
        borders = np.flatnonzero(np.diff(rows.series_index[order])) + 1
        return [np.asarray(block, dtype=np.int64) for block in np.split(order, borders)]
    if isinstance(rows, bool) or not isinstance(rows, int | np.integer) or rows < 1:
        raise ValueError(f"rows is {rows!r}; expected a positive integer or a WindowSet.")
    return [np.arange(rows, dtype=np.int64)]
