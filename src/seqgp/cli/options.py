"""Arguments and options that commands share, and what they stand for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqgp.cli.files import check_place

if TYPE_CHECKING:
    import pandas as pd

    from seqgp.forecasting import Forecaster

__all__ = [
    "Adaptive",
    "Data",
    "Force",
    "Json",
    "Model",
    "Out",
    "Quantiles",
    "Samples",
    "Seed",
    "check_model_path",
    "known_rows",
    "levels",
    "names",
    "open_model",
]

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Model file that fit wrote.")]
Data = Annotated[
    str, typer.Argument(metavar="DATA", help="CSV, gzip CSV or Parquet file; - for stdin.")
]
Out = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Write .csv, .csv.gz or .parquet, not CSV to stdout."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, for programs.")]
Quantiles = Annotated[
    str, typer.Option(metavar="LEVELS", help="Quantiles to give, such as 0.1,0.9.")
]
Adaptive = Annotated[
    bool, typer.Option("--adaptive", help="Quantiles that follow the targets in DATA.")
]
Samples = Annotated[int, typer.Option(metavar="N", help="Sampled futures.")]
Seed = Annotated[int, typer.Option(metavar="N", help="Of the random numbers.")]
Force = Annotated[bool, typer.Option("--force", help="Replace a model file that is there.")]


def names(text: str | None) -> tuple[str, ...]:
    """The names in ``"a, b"``."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def levels(text: str) -> tuple[float, ...]:
    """The numbers in ``"0.1, 0.9"``."""
    try:
        return tuple(float(each) for each in names(text))
    except ValueError:
        raise ValueError(
            f"--quantiles is {text!r}, expected numbers between 0 and 1 with commas, such as 0.1,0.9"
        ) from None


def open_model(path: Path) -> Forecaster:
    """The forecaster in a model file."""
    from seqgp.artifact import load
    from seqgp.forecasting import Forecaster

    model = load(path)
    if not isinstance(model, Forecaster):
        raise ValueError(
            f"{path} holds a {type(model).__name__}, which works on windows and not on tables: use it from "
            "Python (seqgp.load), or make a model with seqgp fit"
        )
    return model


def check_model_path(path: Path, force: bool) -> None:
    """Refuse a place where no model file can be written, or where one would be lost."""
    check_place(path)
    if path.exists() and not force:
        raise ValueError(f"{path} is there already: use --force to replace it, or another --out")


def known_rows(forecaster: Forecaster, df: pd.DataFrame) -> int | None:
    """How many rows the model had at fit or in an update; None where rows are only counted."""
    state = forecaster.state_
    if state.kind == "row" and forecaster.time is None:
        return None
    return int((forecaster.reader.times(df) <= forecaster.history_.index[-1]).sum())
