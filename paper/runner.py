"""What an experiment is, and how its cells are run: side by side, each stored as it ends."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

import gpytorch
import numpy as np
import pandas as pd
import torch

import seqgp

__all__ = ["Cell", "Experiment", "Row", "run_cells", "table_lines", "write_text"]

Cell = tuple[Any, ...]
Row = dict[str, Any]


@dataclass(frozen=True)
class Experiment:
    """A table or figure: its cells, what one of them computes, and how the rows are shown.

    Functions are those of a module, so that a worker process can import them.
    """

    name: str
    keys: tuple[str, ...]
    """What the entries of a cell are, and the first columns of the table."""
    cells: Callable[[int, bool], list[Cell]]
    """Number of seeds, and whether it is a quick trial, to the cells."""
    settings: Callable[[Cell, bool], dict[str, Any]]
    """All that decides a cell's numbers, stored beside them."""
    scores: Callable[[Cell, bool], Row]
    """What a cell computes: the columns after the keys."""
    markdown: Callable[[pd.DataFrame], str] | None = None
    figures: Mapping[str, Callable[[pd.DataFrame, Path], None]] = field(default_factory=dict)
    """Functions that draw, by the name of the file."""
    folder: str = ""
    threads: int | None = 1
    """Small recurrent networks are fastest with one thread, and cells run side by side."""

    def path(self, out: Path, quick: bool = False) -> Path:
        """The CSV file of its rows."""
        return out / self.folder / f"{self.name.replace('-', '_')}{'_quick' if quick else ''}.csv"

    def run(self, cell: Cell, quick: bool = False) -> Row:
        """The row of a cell, with the seconds that it took."""
        if self.threads is not None:
            torch.set_num_threads(self.threads)
        start = time.perf_counter()
        row = dict(zip(self.keys, cell, strict=True)) | self.scores(cell, quick)
        return row | {"seconds": time.perf_counter() - start}

    def run_all(
        self,
        cells: Sequence[Cell],
        path: Path,
        quick: bool = False,
        jobs: int = 1,
        on_done: Callable[[Row], None] | None = None,
    ) -> pd.DataFrame:
        """The rows of cells, by :func:`run_cells`."""
        return run_cells(
            partial(self.run, quick=quick),
            cells,
            self.keys,
            path,
            lambda cell: self.settings(cell, quick),
            jobs=jobs,
            on_done=on_done,
        )

    def draw(self, table: pd.DataFrame, path: Path) -> list[Path]:
        """Write the figures of a table beside its CSV file; their paths."""
        suffix = "_quick" if path.stem.endswith("_quick") else ""
        written = []
        for name, draw in self.figures.items():
            written.append(path.with_name(f"{name}{suffix}.png"))
            draw(table, written[-1])
        return written


def run_cells(
    work: Callable[[Cell], Row],
    cells: Sequence[Cell],
    keys: Sequence[str],
    path: Path,
    settings: Callable[[Cell], dict[str, Any]],
    *,
    jobs: int = 1,
    on_done: Callable[[Row], None] | None = None,
) -> pd.DataFrame:
    """One row per cell in the CSV at ``path``; cells that are there already are not run again.

    Settings are stored with versions and command in a JSON file beside the rows, and a cell whose
    settings have changed since is run again. A cell that fails does not keep others from being run; it
    is an error once they are.

    Args:
        work: makes the row of a cell, its keys included.
        cells: those to be run.
        keys: the columns that name a cell.
        path: of the CSV file.
        settings: all that decides a cell's numbers.
        jobs: processes at the same time.
        on_done: called with each new row.
    """
    described = path.with_suffix(".json")
    made: dict[str, Any] = {}
    if described.exists():
        made = json.loads(described.read_text(encoding="utf-8"))
    done = pd.read_csv(path) if path.exists() else pd.DataFrame(columns=list(keys))
    wanted = {cell: json.loads(json.dumps(settings(cell))) for cell in cells}
    known = {tuple(row): row for row in done[list(keys)].itertuples(index=False)}
    stale = {
        c for c in known if c in wanted and made.get(_name(c), {}).get("settings") != wanted[c]
    }
    kept = [tuple(row) not in stale for row in done[list(keys)].itertuples(index=False)]
    rows: list[Any] = done[kept].to_dict("records")
    left = [cell for cell in cells if cell not in known or cell in stale]

    def add(row: Row) -> None:
        rows.append(row)
        cell = tuple(row[key] for key in keys)
        made[_name(cell)] = {"settings": wanted[cell], **_environment()}
        write_text(described, json.dumps(made, indent=1, sort_keys=True) + "\n")
        write_text(path, _ordered(rows, cells, keys).to_csv(index=False, float_format="%.6g"))
        if on_done is not None:
            on_done(row)

    failed: dict[Cell, Exception] = {}
    for cell, found in _results(work, left, jobs):
        if isinstance(found, Exception):
            failed[cell] = found
        else:
            add(found)
    if failed:
        cell, error = next(iter(failed.items()))
        raise RuntimeError(
            f"{len(failed)} of {len(left)} cells failed, {_name(cell)} with {type(error).__name__}: "
            f"{error}. The others are in {path}; the same command tries again what failed"
        ) from error
    return _ordered(rows, cells, keys)


def _results(
    work: Callable[[Cell], Row], cells: Sequence[Cell], jobs: int
) -> Iterator[tuple[Cell, Row | Exception]]:
    """Each cell with its row, or with the error that it failed with, as they end."""
    if jobs == 1:
        for cell in cells:
            yield cell, _outcome(partial(work, cell))
        return
    # A fresh process per worker: torch's threads do not survive a fork.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        try:
            futures = {pool.submit(work, cell): cell for cell in cells}
            for future in as_completed(futures):
                yield futures[future], _outcome(future.result)
        except BaseException:
            # Stopping the run must not wait for cells of minutes, nor leave them running.
            for worker in active_children():
                worker.terminate()
            raise


def _outcome(ask: Callable[[], Row]) -> Row | Exception:
    try:
        return ask()
    except Exception as error:
        return error


def _name(cell: Cell) -> str:
    """A cell's entry in the JSON file."""
    return "/".join(str(part) for part in cell)


def _ordered(rows: list[Row], cells: Sequence[Cell], keys: Sequence[str]) -> pd.DataFrame:
    """In the order of the cells asked for, with any others of earlier runs after them."""
    place = {cell: k for k, cell in enumerate(cells)}
    table = pd.DataFrame(rows)
    order = [place.get(tuple(row), len(place)) for row in table[list(keys)].itertuples(index=False)]
    return table.assign(_order=order).sort_values("_order", kind="stable").drop(columns="_order")


def _environment() -> dict[str, Any]:
    """Versions, device and the command, to be stored beside a result."""
    cuda = torch.cuda.is_available()
    return {
        "command": "python -m paper " + " ".join(sys.argv[1:]),
        "device": torch.cuda.get_device_name() if cuda else "CPU",
        "versions": {
            "seqgp": seqgp.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "gpytorch": gpytorch.__version__,
            "numpy": np.__version__,
        },
    }


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + f".{os.getpid()}.part")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def table_lines(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """A table in Markdown.

    >>> table_lines(["model", "RMSE"], [["ridge", 0.5]])
    ['| model | RMSE |', '| --- | --- |', '| ridge | 0.5 |']
    """
    return [f"| {' | '.join(map(str, row))} |" for row in (columns, ["---"] * len(columns), *rows)]
