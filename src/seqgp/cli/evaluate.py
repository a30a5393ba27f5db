"""``seqgp evaluate`` and ``report``: how good a model is on a table, in numbers and on a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seqgp.cli.files import PIPE, check_output, check_place, read_data, write_table
from seqgp.cli.options import Adaptive, Data, Json, Model, known_rows, open_model
from seqgp.cli.predict import with_time
from seqgp.cli.show import (
    evaluation_document,
    print_evaluation,
    print_json,
    say,
    warn_if_narrow,
)

__all__ = ["EVALUATE_EXAMPLE", "REPORT_EXAMPLE", "evaluate", "report"]

EVALUATE_EXAMPLE = "Example: seqgp evaluate load.seqgp new.csv --json"
REPORT_EXAMPLE = "Example: seqgp report load.seqgp --data new.csv --out report.html"

_FLATTERED = (
    "Warning: the model knows {known:,} of these {rows:,} rows already, so the scores flatter it: "
    "give newer rows for honest ones"
)


def evaluate(
    model: Model,
    data: Data,
    adaptive: Adaptive = False,
    out: Annotated[
        str | None, typer.Option(metavar="FILE", help="Also write truth and predictions.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Score a model on a table, beside simple rivals.

    Persistence predicts the newest known value; ridge is linear in the same window. Give rows that
    the model was not fitted on, else the scores flatter. With --adaptive the model's intervals are
    those that follow the targets row by row; the other scores stay as they are.
    """
    if out is not None:
        check_output(out)
        if out == PIPE:
            raise ValueError("--out - would mix a table with the scores on stdout: name a file")
    forecaster = open_model(model)
    df = read_data(data)
    found = forecaster.evaluate(df, adaptive=adaptive)
    known = known_rows(forecaster, df)
    if known:
        say(_FLATTERED.format(known=known, rows=len(df)))
    if out is not None:
        write_table(with_time(forecaster, found.frame), out)
        say(f"{len(found.frame):,} rows in {out}")
    if as_json:
        print_json(evaluation_document(found) | {"known_rows": known, "adaptive": adaptive})
    else:
        print_evaluation(found)
        if adaptive:
            say("The model's intervals follow the targets; its NLPD and CRPS do not.")
        else:
            warn_if_narrow(found)


def report(
    model: Model,
    data: Annotated[
        str,
        typer.Option(metavar="DATA", help="Table to show the model on, as for evaluate."),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Page to write.")] = Path("report.html"),
) -> None:
    """Write a web page about a model on a table.

    It shows forecasts, errors, calibration, training and data, and opens in any browser without a
    network.
    """
    check_place(out)
    forecaster = open_model(model)
    df = read_data(data)
    if known_rows(forecaster, df) == len(df):  # else the page shows those that are new
        say(_FLATTERED.format(known=len(df), rows=len(df)))
    from seqgp.report import write_report

    write_report(forecaster, df, out)
    say(f"report in {out}")
