"""``seqgp update`` and ``info``: more rows for a model, and what is in a model file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from seqgp.cli.files import read_data
from seqgp.cli.options import Data, Force, Json, Model, check_model_path, open_model
from seqgp.cli.show import print_json, say

__all__ = ["INFO_EXAMPLE", "UPDATE_EXAMPLE", "info", "update"]

UPDATE_EXAMPLE = "Example: seqgp update load.seqgp yesterday.csv --out load.seqgp --force"
INFO_EXAMPLE = "Example: seqgp info load.seqgp"


def update(
    model: Model,
    data: Data,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Model file to write.")],
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Add newer rows to a model, without training again.

    The Gaussian process then predicts as if it had had them from the start, and forecasts begin
    after them. The network and the scales stay as they are.
    """
    check_model_path(out, force)
    forecaster = open_model(model)
    before = forecaster.data_report_
    forecaster.update(read_data(data))
    forecaster.save(out)
    after = forecaster.data_report_
    rows, windows = (
        after.updated_rows - before.updated_rows,
        after.updated_windows - before.updated_windows,
    )
    end = forecaster.state_.end
    if as_json:
        print_json({"out": out, "rows": rows, "windows": windows, "end": end})
    say(f"{rows:,} rows added as {windows:,} windows; the model knows all up to {end} now")
    say(f"model in {out}")


def info(model: Model, as_json: Json = False) -> None:
    """Say what is in a model file."""
    from seqgp.artifact import info as read_info

    found = read_info(model)
    if as_json:
        print_json(found)
        return
    from rich.console import Console
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for name, value in _lines(found):
        table.add_row(name, value)
    Console(highlight=False, markup=False).print(table)


def _lines(found: dict[str, Any]) -> list[tuple[str, str]]:
    """What a person wants to know, name and value."""
    made, params = found["made"], found["params"]
    lines = [
        ("kind", f"{found['kind']}, file format {found['format']}, {found['bytes']:,} bytes"),
        ("made", f"{made['at']} by seqgp {made['seqgp']}"),
    ]
    if "forecaster" in found:
        options, data = found["forecaster"], found["data"]
        for name in ("target", "inputs", "past_inputs", "calendar"):
            value = options[name]
            if value:
                text = value if isinstance(value, str) else ", ".join(value)
                lines.append((name.replace("_", " "), text))
        lines += [
            ("mode", f"{options['mode']}, lag {options['lag']}, horizon {options['horizon']}"),
            ("data", f"{data['rows']:,} rows from {data['first']} to {data['last']}"),
            ("step", str(data["step"])),
            ("windows", f"{data['windows_used']:,} of {data['windows']:,} used"),
        ]
        if data["updated_rows"]:
            lines.append(("updates", f"{data['updated_rows']:,} more rows since"))
    lines += [
        ("network", f"{params['encoder']}, {found['parameters']:,} parameters"),
        ("inference", str(found["inference"])),
        ("trained", f"{params['epochs']} epochs at most, best {found['best_epoch']}"),
    ]
    if found["others"]:
        lines.append(("mixed", f"{1 + len(found['others'])} trainings predict together"))
    best = found.get("best") or {}
    scores = [f"{name} {best[key]:.3f}" for name, key in _VALIDATION if best.get(key) is not None]
    if scores:
        lines.append(("validation", ", ".join(scores) + " (standardised)"))
    return lines


_VALIDATION = (("RMSE", "val_rmse"), ("NLPD", "val_nlpd"))
