"""``seqgp reproduce``: the paper's tables, made again with its figures beside ours."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["EXAMPLE", "command"]

EXAMPLE = "Example: seqgp reproduce table2 --jobs 2 --out results"
_WHAT = ("table2",)


def command(
    what: Annotated[str, typer.Argument(help=f"What to reproduce: {', '.join(_WHAT)}.")],
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("results"),
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each cell.")] = 5,
    jobs: Annotated[int, typer.Option(min=1, help="Cells side by side.")] = 1,
    quick: Annotated[bool, typer.Option(help="A first look: few epochs, one seed.")] = False,
    dataset: Annotated[str | None, typer.Option(help="Only this data set.")] = None,
    model: Annotated[str | None, typer.Option(help="Only this model.")] = None,
    mode: Annotated[str | None, typer.Option(help="Only this mode.")] = None,
) -> None:
    """Reproduce a table of the paper. Stopped and started again, it goes on where it was."""
    if what not in _WHAT:
        raise ValueError(f"nothing to reproduce by the name {what!r}: use {', '.join(_WHAT)}")
    from seqgp.experiments import table2
    from seqgp.experiments.runner import run_cells, write_text

    cells = [
        (d, m, mo, seed)
        for seed in range(1 if quick else seeds)
        for d in _chosen("dataset", dataset, table2.DATASETS)
        for mo in _chosen("mode", mode, table2.MODES)
        for m in _chosen("model", model, table2.MODELS)
        if seed == 0 or m not in {"persistence", "ridge"}  # nothing random in those
    ]
    path = out / ("table2_quick.csv" if quick else "table2.csv")
    total = len(cells)

    def report(row: dict[str, Any]) -> None:
        typer.echo(
            f"{row['dataset']} {row['mode']} {row['model']} seed {row['seed']}: "
            f"RMSE {row['rmse']:.3f}, z {row['rmse_z']:.3f}, {row['seconds']:.0f} s",
            err=True,
        )

    typer.echo(f"{total} cells, results in {path}", err=True)
    table = run_cells(
        partial(table2.run_cell, quick=quick),
        cells,
        table2.KEYS,
        path,
        table2.settings(quick),
        jobs=jobs,
        on_done=report,
    )
    text = table2.markdown(table)
    write_text(path.with_suffix(".md"), text)
    typer.echo(text)


def _chosen(name: str, value: str | None, known: tuple[str, ...]) -> tuple[str, ...]:
    if value is None:
        return known
    if value not in known:
        raise ValueError(f"{name} {value!r} is not in the table: use one of {', '.join(known)}")
    return (value,)
