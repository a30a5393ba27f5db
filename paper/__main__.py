"""``python -m paper NAME``: the paper's tables and figures with our numbers beside its own."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from paper import (
    ablations,
    calibration,
    cost,
    figures,
    optimization,
    quarters,
    scalability,
    searches,
    summary,
    table1,
    table2,
    table3,
)
from paper.datasets import Entry, Status, available
from paper.runner import Cell, Experiment, Row, write_text
from seqgp.demo import DatasetError, cache_folder, data_folder

__all__ = ["main"]

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        table1.EXPERIMENT,
        table2.EXPERIMENT,
        table3.EXPERIMENT,
        quarters.EXPERIMENT,
        optimization.EXPERIMENT,
        figures.PERFORMANCE,
        scalability.EXPERIMENT,
        figures.CAR,
        ablations.MEAN,
        ablations.CALIBRATION,
        calibration.EXPERIMENT,
        *searches.EXPERIMENTS,
    )
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one experiment, or list the data sets; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m paper",
        description="Run one experiment; cells that are stored already are not run again.",
        epilog="datasets lists the recordings; report writes the Markdown tables of the results again, "
        "and those of docs/results.md. Example: python -m paper table2 --jobs 2",
    )
    parser.add_argument(
        "name",
        choices=["datasets", "report", *EXPERIMENTS],
        metavar="NAME",
        help=f"datasets, report, {', '.join(EXPERIMENTS)}",
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
        elif options.name == "report":
            _report(options.out)
        else:
            _run(EXPERIMENTS[options.name], options)
    except ValueError as error:
        parser.error(str(error))
    except DatasetError as error:
        parser.exit(1, f"Error: {error}\n")
    return 0


def _run(experiment: Experiment, options: argparse.Namespace) -> None:
    """All cells asked for, each reported on standard error as it ends; then the tables and figures."""
    chosen = {key: getattr(options, key) for key in ("dataset", "mode", "model")}
    seeds = 1 if options.quick else options.seeds
    cells = _chosen(experiment.cells(seeds, options.quick), experiment.keys, chosen)
    path = experiment.path(options.out, options.quick)
    done: list[Row] = []

    def report(row: Row) -> None:
        done.append(row)
        name = " ".join(str(row[key]) for key in experiment.keys)
        error = f"RMSE z {row['rmse_z']:.4f}, " if "rmse_z" in row else ""
        text = f"[{len(done)} of {len(cells)}] {name}: {error}{row['seconds']:.0f} s"
        print(text, file=sys.stderr, flush=True)

    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    print(f"{len(cells)} cells, results in {path}", file=sys.stderr, flush=True)
    table = experiment.run_all(cells, path, options.quick, options.jobs, report)
    if experiment.markdown is not None:
        text = experiment.markdown(table)
        write_text(path.with_suffix(".md"), text)
        print(text)
    for figure in experiment.draw(table, path):
        print(f"figure in {figure}", file=sys.stderr)


def _report(out: Path) -> None:
    """Write the Markdown tables, and those of docs/results.md, again from the rows at hand."""
    for experiment in EXPERIMENTS.values():
        path = experiment.path(out)
        if experiment.markdown is not None and path.exists():
            write_text(path.with_suffix(".md"), experiment.markdown(pd.read_csv(path)))
    path = out / "calibration" / "cost.csv"
    if path.exists():
        write_text(path.with_suffix(".md"), cost.markdown(pd.read_csv(path)))
    summary.update(Path("docs/results.md"), out)


def _chosen(
    cells: list[Cell], keys: tuple[str, ...], wanted: dict[str, list[str] | None]
) -> list[Cell]:
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
        columns = f"{len(entry.input_names):>3} inputs {len(entry.target_names):>3} outputs"
        print(
            f"{entry.name:<10} {entry.rows:>8,} rows {columns}  {_presence(status):<14} {entry.source}"
        )
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
                "inputs": len(entry.input_names),
                "outputs": len(entry.target_names),
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
