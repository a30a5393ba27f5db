"""Runs cells side by side, writes each as it ends, and goes on where an earlier run stopped."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

import pandas as pd

__all__ = ["environment", "run_cells", "write_text"]

Cell = tuple[Any, ...]


def run_cells(
    work: Callable[[Cell], dict[str, Any]],
    cells: Sequence[Cell],
    keys: Sequence[str],
    path: Path,
    settings: Callable[[Cell], dict[str, Any]],
    *,
    jobs: int = 1,
    on_done: Callable[[dict[str, Any]], None] | None = None,
) -> pd.DataFrame:
    """One row per cell in the CSV at ``path``; cells that are there already are not run again.

    ``settings`` says all that decides a cell's numbers; it is stored with versions and command in a
    JSON file beside the rows, and a cell whose settings have changed since is run again. A cell that
    fails does not keep others from being run; it is an error once they are.
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

    def add(row: dict[str, Any]) -> None:
        rows.append(row)
        cell = tuple(row[key] for key in keys)
        made[_name(cell)] = {"settings": wanted[cell], **environment()}
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
    work: Callable[[Cell], dict[str, Any]], cells: Sequence[Cell], jobs: int
) -> Iterator[tuple[Cell, dict[str, Any] | Exception]]:
    """Each cell with its row, or with what it failed of, as they end."""
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
            # Whoever stops the run does not want to wait for cells of minutes, nor to leave them running.
            for worker in active_children():
                worker.terminate()
            raise


def _outcome(ask: Callable[[], dict[str, Any]]) -> dict[str, Any] | Exception:
    try:
        return ask()
    except Exception as error:
        return error


def _name(cell: Cell) -> str:
    """A cell's entry beside the table."""
    return "/".join(str(part) for part in cell)


def _ordered(
    rows: list[dict[str, Any]], cells: Sequence[Cell], keys: Sequence[str]
) -> pd.DataFrame:
    """In the order of the cells asked for, with any others of earlier runs after them."""
    place = {cell: k for k, cell in enumerate(cells)}
    table = pd.DataFrame(rows)
    order = [place.get(tuple(row), len(place)) for row in table[list(keys)].itertuples(index=False)]
    return table.assign(_order=order).sort_values("_order", kind="stable").drop(columns="_order")


def environment() -> dict[str, Any]:
    """Versions, device and the command, to be stored beside a result."""
    import gpytorch
    import numpy as np
    import torch

    import seqgp

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
