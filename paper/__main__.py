"""``python -m paper NAME``: the paper's tables and figures with our numbers beside its own."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from paper import (
    ablation,
    ablation_calibration,
    calibration,
    car,
    optimization,
    performance,
    quarters,
    scalability,
    search_table2,
    search_table3,
    table1,
    table2,
    table3,
)
from paper.datasets import DatasetError, Entry, Status, available
from paper.datasets.files import cache_folder, data_folder
from paper.runner import run_cells, write_text

__all__ = ["main"]

EXPERIMENTS: dict[str, Any] = {
    "table2": table2,
    "table3": table3,
    "quarters": quarters,
    "fig-optimization": optimization,
    "fig-performance": performance,
    "fig-scalability": scalability,
    "fig-car": car,
    "ablation-mean": ablation,
    "ablation-calibration": ablation_calibration,
    "calibration": calibration,
    "search-table2": search_table2,
    "search-table3": search_table3,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one experiment, or list the data sets; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m paper",
        description="Run one experiment; started again after an interruption, it goes on where it was.",
        epilog="Example: python -m paper table2 --jobs 2",
    )
    parser.add_argument(
        "name",
        choices=["datasets", "table1", *EXPERIMENTS],
        metavar="NAME",
        help=f"datasets, table1, {', '.join(EXPERIMENTS)}",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("paper/results"), help="folder for the results"
    )
    parser.add_argument("--seeds", type=int, default=5, help="runs of each cell")
    parser.add_argument("--jobs", type=int, default=1, help="cells side by side")
    parser.add_argument("--quick", action="store_true", help="few epochs, one seed")
    for key in ("dataset", "model", "mode"):
        parser.add_argument(
            f"--{key}", action="append", help=f"only this {key}; may be given several times"
        )
    parser.add_argument("--json", action="store_true", help="datasets: print one JSON document")
    options = parser.parse_args(arguments)
    if options.seeds < 1 or options.jobs < 1:
        parser.error("--seeds and --jobs are at least 1")
    try:
        if options.name == "datasets":
            _datasets(options.json)
        elif options.name == "table1":
            _table1(options.out)
        else:
            _experiment(options)
    except ValueError as error:
        parser.error(str(error))
    except DatasetError as error:
        parser.exit(1, f"Error: {error}\n")
    return 0


def _experiment(options: argparse.Namespace) -> None:
    experiment = EXPERIMENTS[options.name]
    seeds = 1 if options.quick else options.seeds
    name, suffix = options.name.replace("-", "_"), "_quick" if options.quick else ""
    path = options.out / getattr(experiment, "FOLDER", "") / f"{name}{suffix}.csv"
    chosen = {key: getattr(options, key) for key in ("dataset", "mode", "model")}
    cells = _chosen(experiment.cells(seeds, options.quick), experiment.KEYS, chosen)
    table = _run(experiment, cells, path, options.jobs, options.quick)
    if hasattr(experiment, "markdown"):
        text = experiment.markdown(table)
        write_text(path.with_suffix(".md"), text)
        print(text)
    figures = {name: experiment.draw} if hasattr(experiment, "draw") else {}
    for each, draw in getattr(experiment, "FIGURES", figures).items():
        figure = path.with_name(f"{each}{suffix}.png")
        draw(table, figure)
        print(f"figure in {figure}")


def _table1(out: Path) -> None:
    table = pd.DataFrame([table1.statistics(name) for name in ("drives", "actuator")])
    write_text(out / "table1.csv", table.to_csv(index=False, float_format="%.6g"))
    text = table1.markdown(table)
    write_text(out / "table1.md", text)
    print(text)


def _run(experiment: Any, cells: list[tuple[Any, ...]], path: Path, jobs: int, quick: bool) -> Any:
    """All cells of an experiment, each reported on standard error as it ends."""
    count = 0

    def report(row: dict[str, Any]) -> None:
        nonlocal count
        count += 1
        name = " ".join(str(row[key]) for key in experiment.KEYS)
        found = f"RMSE z {row['rmse_z']:.4f}, {row['seconds']:.0f} s" if "rmse_z" in row else "done"
        print(f"[{count} of {len(cells)}] {name}: {found}", file=sys.stderr, flush=True)

    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    print(f"{len(cells)} cells, results in {path}", file=sys.stderr, flush=True)
    return run_cells(
        partial(experiment.run_cell, quick=quick),
        cells,
        experiment.KEYS,
        path,
        partial(experiment.settings, quick=quick),
        jobs=jobs,
        on_done=report,
    )


def _chosen(
    cells: list[tuple[Any, ...]], keys: tuple[str, ...], wanted: dict[str, list[str] | None]
) -> list[tuple[Any, ...]]:
    """The cells that have the values wanted."""
    for name, values in wanted.items():
        if not values:
            continue
        known = sorted({str(cell[keys.index(name)]) for cell in cells}) if name in keys else []
        for value in values:
            if value not in known:
                has = f"use one of {', '.join(known)}" if known else f"it has no {name}s"
                raise ValueError(f"{name} {value!r} is not in the table: {has}")
        cells = [cell for cell in cells if str(cell[keys.index(name)]) in values]
    return cells


def _datasets(as_json: bool) -> None:
    """List the data sets, and whether they are on this machine; nothing is downloaded."""
    found = [(entry, entry.status()) for entry in available()]
    if as_json:
        print(json.dumps(_document(found), indent=2))
        return
    for entry, status in found:
        size = f"{entry.rows:>8,} rows {entry.inputs:>3} inputs {entry.outputs:>3} outputs"
        print(f"{entry.name:<10} {size}  {_presence(status):<14} {entry.source}")
    for label, folder in (
        ("data folder (SEQGP_DATA)", data_folder()),
        ("cache (SEQGP_CACHE)", cache_folder()),
    ):
        print(f"{label}: {folder or 'none'}")
    for entry, status in found:
        if status.problem is not None:
            print(f"Warning: {entry.name}: {status.problem}", file=sys.stderr)


def _document(found: list[tuple[Entry, Status]]) -> dict[str, Any]:
    return {
        "data_folder": _text(data_folder()),
        "cache_folder": _text(cache_folder()),
        "datasets": [
            {
                "name": entry.name,
                "rows": entry.rows,
                "inputs": entry.inputs,
                "outputs": entry.outputs,
                "input_names": entry.input_names,
                "target_names": entry.target_names,
                "sample_time": entry.sample_time,
                "description": entry.description,
                "source": entry.source,
                "licence": entry.licence,
                "present": status.present,
                "problem": status.problem,
                "files": [
                    {
                        "path": file.path,
                        "url": file.url,
                        "requirement": file.requirement,
                        "sha256": file.sha256,
                        "where": _text(where),
                    }
                    for file, where in zip(entry.files, status.where, strict=True)
                ],
            }
            for entry, status in found
        ],
    }


def _presence(status: Status) -> str:
    if status.problem is not None:
        return "wrong file"
    return "present" if status.present else "not here"


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


if __name__ == "__main__":
    sys.exit(main())
