"""What a data set is: its entry in the list, and its rows once loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from paper.datasets.files import File, WrongFileError, fetch, find
from paper.datasets.rows import Rows

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Dataset", "Entry", "Status"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Dataset(Rows):
    """A recording: inputs ``(N, p)`` and targets ``(N,)`` or ``(N, o)``, in their own units."""

    name: str
    input_names: tuple[str, ...]
    target_names: tuple[str, ...]
    description: str = field(repr=False)
    source: str = field(repr=False)
    sample_time: float | None = None
    """Seconds between two rows, where it is known."""

    def frame(self) -> pd.DataFrame:
        """A column for each input and target, on a regular clock where the times are known.

        A hole is then a row of NaN. Several series stand one below another, with their names in
        a column ``series``; without times, a column ``run`` counts the gap-free runs.
        """
        step = self.sample_time and np.timedelta64(round(self.sample_time * 1e6), "us")
        return self._frame((*self.input_names, *self.target_names), step or None)


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
    files: tuple[File, ...]
    read: Callable[[Sequence[Path]], Rows] = field(repr=False)
    """From the paths of ``files``, in their order, to the rows."""
    sample_time: float | None = None

    @property
    def inputs(self) -> int:
        """How many inputs a row has."""
        return len(self.input_names)

    @property
    def outputs(self) -> int:
        """How many targets a row has."""
        return len(self.target_names)

    @property
    def present(self) -> bool:
        """Whether it is on this machine: loading needs no network."""
        return self.status().present

    def status(self) -> Status:
        """Look for the files and check them; nothing is downloaded."""
        where: list[Path | None] = []
        problem = None
        for file in self.files:
            try:
                where.append(find(file))
            except WrongFileError as error:
                where.append(None)
                problem = problem or str(error)
        return Status(None not in where, tuple(where), problem)

    def load(self) -> Dataset:
        """Read it, after downloading what is missing."""
        rows = self.read([fetch(file) for file in self.files])
        return Dataset(
            **vars(rows),
            name=self.name,
            input_names=self.input_names,
            target_names=self.target_names,
            description=self.description,
            source=self.source,
            sample_time=self.sample_time,
        )
