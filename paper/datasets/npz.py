"""Drives in a NumPy archive: one table each, sampled at times of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from paper.datasets.clock import bin_means, elapsed, ticks
from paper.datasets.rows import Rows, join

__all__ = ["npz_reader"]


def npz_reader(inputs: Sequence[str], target: str, step: float) -> Callable[[Sequence[Path]], Rows]:
    """A reader of one ``.npz`` file: a table for each drive, ``cols`` with its columns' names.

    A row is the mean over ``step`` seconds of the column ``t``, named by their end. Rows in which
    something is missing are holes.
    """

    def read(paths: Sequence[Path]) -> Rows:
        (path,) = paths
        drives = {}
        missing = 0
        with np.load(path) as archive:
            columns = archive["cols"].tolist()
            wanted = [columns.index(name) for name in (*inputs, target)]
            for drive in sorted(set(archive.files) - {"cols"}):
                samples = archive[drive].astype(np.float64)
                times = samples[:, columns.index("t")]
                clock = ticks(times[0], times[-1], step)
                rows = bin_means(times, samples[:, wanted], clock, step)
                known = np.isfinite(rows).all(axis=1)
                missing += int((~known).sum())
                if known.any():
                    drives[drive] = Rows(
                        inputs=rows[:, :-1], targets=rows[:, -1], times=elapsed(clock, times[0])
                    ).where(known)
        return replace(join(drives), holes={f"rows without inputs or {target}": missing})

    return read
