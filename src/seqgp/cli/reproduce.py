"""``seqgp reproduce``: the paper's tables and figures, made again with its numbers beside ours."""

from __future__ import annotations

import signal
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["EXAMPLE", "command"]

EXAMPLE = "Example: seqgp reproduce table2 --jobs 2 --out results"
_WHAT = (
    "table1",
    "table2",
    "table3",
    "quarters",
    "fig-optimization",
    "fig-performance",
    "fig-scalability",
    "fig-car",
    "ablation-mean",
    "ablation-calibration",
    "calibration",
    "search-table2",
    "search-table3",
)


def command(
    what: Annotated[str, typer.Argument(help=f"What to reproduce: {', '.join(_WHAT)}.")],
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("results"),
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each cell.")] = 5,
    jobs: Annotated[int, typer.Option(min=1, help="Cells side by side.")] = 1,
    quick: Annotated[bool, typer.Option(help="A first look: few epochs, one seed.")] = False,
    dataset: Annotated[
        list[str] | None, typer.Option(help="Tables: only this data set; may be repeated.")
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="Tables: only this model; may be repeated.")
    ] = None,
    mode: Annotated[
        list[str] | None, typer.Option(help="Tables: only this mode; may be repeated.")
    ] = None,
) -> None:
    """Reproduce a table or figure of the paper. Stopped and started again, it goes on where it was."""
    if what not in _WHAT:
        raise ValueError(f"nothing to reproduce by the name {what!r}: use {', '.join(_WHAT)}")
    seeds = 1 if quick else seeds
    if what == "table1":
        _table1(out)
        return
    experiment = _experiment(what)
    name, suffix = what.replace("-", "_"), "_quick" if quick else ""
    path = out / getattr(experiment, "FOLDER", "") / f"{name}{suffix}.csv"
    chosen = {"dataset": dataset, "mode": mode, "model": model}
    cells = _chosen(experiment.cells(seeds, quick), experiment.KEYS, chosen)
    table = _run(experiment, cells, path, jobs, quick)
    if hasattr(experiment, "markdown"):
        from seqgp.experiments.runner import write_text

        text = experiment.markdown(table)
        write_text(path.with_suffix(".md"), text)
        typer.echo(text)
    figures = {name: experiment.draw} if hasattr(experiment, "draw") else {}
    for each, draw in getattr(experiment, "FIGURES", figures).items():
        figure = path.with_name(f"{each}{suffix}.png")
        draw(table, figure)
        typer.echo(f"figure in {figure}")


def _experiment(what: str) -> Any:
    """The module with its cells; imported here, since it brings torch with it."""
    from seqgp.experiments import (
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
        table2,
        table3,
    )

    return {
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
    }[what]


def _table1(out: Path) -> None:
    import pandas as pd

    from seqgp.experiments import table1
    from seqgp.experiments.runner import write_text

    table = pd.DataFrame([table1.statistics(name) for name in ("drives", "actuator")])
    write_text(out / "table1.csv", table.to_csv(index=False, float_format="%.6g"))
    text = table1.markdown(table)
    write_text(out / "table1.md", text)
    typer.echo(text)


def _run(experiment: Any, cells: list[tuple[Any, ...]], path: Path, jobs: int, quick: bool) -> Any:
    """All cells of an experiment, each said on standard error as it ends."""
    from seqgp.experiments.runner import run_cells

    count = 0

    def report(row: dict[str, Any]) -> None:
        nonlocal count
        count += 1
        name = " ".join(str(row[key]) for key in experiment.KEYS)
        found = f"RMSE z {row['rmse_z']:.4f}, {row['seconds']:.0f} s" if "rmse_z" in row else "done"
        typer.echo(f"[{count} of {len(cells)}] {name}: {found}", err=True)

    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    typer.echo(f"{len(cells)} cells, results in {path}", err=True)
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
