"""Runs cells side by side, writes each as it ends, and goes on where an earlier run stopped."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
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
    JSON file beside the rows, and a cell whose settings have changed since is run again.
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

    if jobs == 1:
        for cell in left:
            add(work(cell))
    else:
        # A fresh process per worker: torch's threads do not survive a fork.
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
            for future in as_completed([pool.submit(work, cell) for cell in left]):
                add(future.result())
    return _ordered(rows, cells, keys)


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
    """Versions and the command, to be stored beside a result."""
    import gpytorch
    import numpy as np
    import torch

    import seqgp

    return {
        "command": "seqgp " + " ".join(sys.argv[1:]),
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
