"""``seqgp reproduce``: the paper's tables and figures, made again with its numbers beside ours."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["EXAMPLE", "command"]

EXAMPLE = "Example: seqgp reproduce table2 --jobs 2 --out results"
_WHAT = ("table1", "table2", "fig-optimization", "ablation-mean", "search-table2")


def command(
    what: Annotated[str, typer.Argument(help=f"What to reproduce: {', '.join(_WHAT)}.")],
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("results"),
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each cell.")] = 5,
    jobs: Annotated[int, typer.Option(min=1, help="Cells side by side.")] = 1,
    quick: Annotated[bool, typer.Option(help="A first look: few epochs, one seed.")] = False,
    dataset: Annotated[str | None, typer.Option(help="table2: only this data set.")] = None,
    model: Annotated[str | None, typer.Option(help="table2: only this model.")] = None,
    mode: Annotated[str | None, typer.Option(help="table2: only this mode.")] = None,
) -> None:
    """Reproduce a table or figure of the paper. Stopped and started again, it goes on where it was."""
    if what not in _WHAT:
        raise ValueError(f"nothing to reproduce by the name {what!r}: use {', '.join(_WHAT)}")
    seeds = 1 if quick else seeds
    suffix = "_quick" if quick else ""
    if what == "table1":
        _table1(out)
    elif what == "table2":
        _table2(out / f"table2{suffix}.csv", seeds, jobs, quick, dataset, model, mode)
    elif what == "ablation-mean":
        from seqgp.experiments import ablation

        _cells_to_text(ablation, out / f"ablation_mean{suffix}.csv", seeds, jobs, quick)
    elif what == "search-table2":
        from seqgp.experiments import search

        _cells_to_text(search, out / f"search_table2{suffix}.csv", seeds, jobs, quick)
    else:
        _optimization(out / f"fig_optimization{suffix}.csv", seeds, jobs, quick)


def _table1(out: Path) -> None:
    import pandas as pd

    from seqgp.experiments import table1
    from seqgp.experiments.runner import write_text

    table = pd.DataFrame([table1.statistics(name) for name in ("drives", "actuator")])
    write_text(out / "table1.csv", table.to_csv(index=False, float_format="%.6g"))
    text = table1.markdown(table)
    write_text(out / "table1.md", text)
    typer.echo(text)


def _table2(
    path: Path,
    seeds: int,
    jobs: int,
    quick: bool,
    dataset: str | None,
    model: str | None,
    mode: str | None,
) -> None:
    from seqgp.experiments import table2
    from seqgp.experiments.runner import write_text

    cells: list[tuple[Any, ...]] = [
        (d, m, mo, seed)
        for seed in range(seeds)
        for d in _chosen("dataset", dataset, table2.DATASETS)
        for mo in _chosen("mode", mode, table2.MODES)
        for m in _chosen("model", model, table2.MODELS)
        if seed == 0 or m not in {"persistence", "ridge"}  # nothing random in those
    ]
    table = _run(table2, cells, path, jobs, quick)
    text = table2.markdown(table)
    write_text(path.with_suffix(".md"), text)
    typer.echo(text)


def _cells_to_text(experiment: Any, path: Path, seeds: int, jobs: int, quick: bool) -> None:
    from seqgp.experiments.runner import write_text

    table = _run(experiment, experiment.cells(seeds), path, jobs, quick)
    text = experiment.markdown(table)
    write_text(path.with_suffix(".md"), text)
    typer.echo(text)


def _optimization(path: Path, seeds: int, jobs: int, quick: bool) -> None:
    from seqgp.experiments import optimization

    table = _run(optimization, optimization.cells(seeds, quick), path, jobs, quick)
    optimization.draw(table, path.with_suffix(".png"))
    typer.echo(f"figure in {path.with_suffix('.png')}")


def _run(experiment: Any, cells: list[tuple[Any, ...]], path: Path, jobs: int, quick: bool) -> Any:
    """All cells of an experiment, each said on standard error as it ends."""
    from seqgp.experiments.runner import run_cells

    count = 0

    def report(row: dict[str, Any]) -> None:
        nonlocal count
        count += 1
        name = " ".join(str(row[key]) for key in experiment.KEYS)
        typer.echo(
            f"[{count}] {name}: RMSE z {row['rmse_z']:.3f}, {row['seconds']:.0f} s", err=True
        )

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


def _chosen(name: str, value: str | None, known: tuple[str, ...]) -> tuple[str, ...]:
    if value is None:
        return known
    if value not in known:
        raise ValueError(f"{name} {value!r} is not in the table: use one of {', '.join(known)}")
    return (value,)
