"""Arguments and options that commands share, their checks, and how models are opened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqgp.io import check_writable

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
    "check_report_path",
    "known_rows",
    "levels",
    "names",
    "one_thread",
    "open_model",
]

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Model file written by fit.")]
Data = Annotated[
    str, typer.Argument(metavar="DATA", help="CSV, gzip CSV or Parquet file; - for stdin.")
]
Out = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Write to a .csv, .csv.gz or .parquet file."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, for programs.")]
Quantiles = Annotated[
    str, typer.Option(metavar="LEVELS", help="Levels of the quantiles, such as 0.1,0.9.")
]
Adaptive = Annotated[
    bool, typer.Option("--adaptive", help="Adapt quantiles to the targets in DATA, row by row.")
]
Samples = Annotated[int, typer.Option(metavar="N", help="Number of sampled paths.")]
Seed = Annotated[int, typer.Option(metavar="N", help="Seed of the random numbers.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing model file.")]


def names(text: str | None) -> tuple[str, ...]:
    """The names in ``"a, b"``."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def levels(text: str) -> tuple[float, ...]:
    """The numbers in ``"0.1, 0.9"``."""
    try:
        return tuple(float(each) for each in names(text))
    except ValueError:
        raise ValueError(
            f"--quantiles is {text!r}, expected numbers between 0 and 1 separated by commas, such as "
            "0.1,0.9"
        ) from None


def open_model(path: Path) -> Forecaster:
    """The forecaster in a model file."""
    from seqgp.forecasting import Forecaster
    from seqgp.loading import load

    model = load(path)
    if not isinstance(model, Forecaster):
        raise ValueError(
            f"{path} holds a {type(model).__name__}, which works on windows and not on tables: use it from "
            "Python (seqgp.load), or make a model with seqgp fit"
        )
    return model


def check_model_path(path: Path, force: bool) -> None:
    """Refuse a place where no model file can be written, or where one would be lost."""
    check_writable(path)
    if path.exists() and not force:
        raise ValueError(f"{path} exists already: use --force to replace it, or another --out")


def check_report_path(path: Path) -> None:
    """Refuse a report that could not be written, before any training."""
    check_writable(path)
    import_module("seqgp.report")  # says what to install where matplotlib is missing


def known_rows(forecaster: Forecaster, df: pd.DataFrame) -> int | None:
    """Number of rows that the model had at fit or in an update; None if rows have numbers only."""
    state = forecaster.state_
    if state.kind == "row" and forecaster.time is None:
        return None
    return int((forecaster.reader.times(df) <= forecaster.history_.index[-1]).sum())


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit torch to one thread: small recurrent networks gain nothing from more, and on a busy machine
    the threads wait for one another."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
