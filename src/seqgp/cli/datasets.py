"""``seqgp datasets``: what can be loaded by name, and what is on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from seqgp.datasets import Entry, Status, available
from seqgp.datasets.files import cache_folder, data_folder

__all__ = ["EXAMPLE", "command"]

EXAMPLE = "Example: SEQGP_DATA=~/recordings seqgp datasets"


def command(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document, for programs.")
    ] = False,
) -> None:
    """List the data sets and say which are on this machine.

    A data set is looked for in the folder that SEQGP_DATA names, then in the cache (SEQGP_CACHE
    names another one); one that is in neither is downloaded when it is first loaded, if it has
    a public home.
    """
    found = [(entry, entry.status()) for entry in available()]
    if as_json:
        typer.echo(json.dumps(_document(found), indent=2))
        return
    _print_table(found)
    for entry, status in found:
        if status.problem is not None:
            typer.echo(f"Warning: {entry.name}: {status.problem}", err=True)


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


def _print_table(found: list[tuple[Entry, Status]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("name", no_wrap=True)
    for heading in ("rows", "inputs", "outputs"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("source", overflow="fold")
    table.add_column("present", no_wrap=True)
    for entry, status in found:
        table.add_row(
            entry.name,
            f"{entry.rows:,}",
            str(entry.inputs),
            str(entry.outputs),
            entry.source,
            _presence(entry, status),
        )
    console = Console(highlight=False)
    console.print(table)
    # Below the table, unwrapped: a folder's path may be longer than the screen is wide.
    for label, folder in (
        ("data folder (SEQGP_DATA)", data_folder()),
        ("cache (SEQGP_CACHE)", cache_folder()),
    ):
        console.print(f"{label}: {folder or 'none'}", soft_wrap=True, markup=False)


def _presence(entry: Entry, status: Status) -> str:
    if status.problem is not None:
        return "wrong file"
    if not status.present:
        return "no"
    folder = data_folder()
    places = {
        "data folder" if folder is not None and where == folder / file.path else "cache"
        for file, where in zip(entry.files, status.where, strict=True)
    }
    return f"in {' and '.join(sorted(places))}"


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
