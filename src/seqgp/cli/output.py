"""What commands print: one JSON document or tables on stdout, messages on stderr."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    import pandas as pd

    from seqgp.forecasting import Evaluation, Forecaster

__all__ = [
    "evaluation_document",
    "plain",
    "print_evaluation",
    "print_json",
    "print_lines",
    "print_table",
    "say",
    "share",
    "warn_if_narrow",
    "with_time",
]


def say(text: str) -> None:
    """A message on stderr."""
    typer.echo(text, err=True)


def print_json(document: Any) -> None:
    """One JSON document on stdout; NaN and infinite numbers become null."""
    typer.echo(json.dumps(plain(document), indent=2, allow_nan=False, ensure_ascii=False))


def plain(value: Any) -> Any:
    """The same value made of dicts, lists, text, finite numbers and None, as JSON can hold it."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if hasattr(value, "item"):  # a NumPy number
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int) else str(value)


def evaluation_document(found: Evaluation) -> dict[str, Any]:
    """Scores of the model, persistence and ridge; with several targets a list under ``targets``."""
    documents: list[dict[str, Any]] = [
        {"target": target} | {str(name): _scores(row) for name, row in table.iterrows()}
        for target, table in found.metrics.items()
    ]
    return documents[0] if len(documents) == 1 else {"targets": documents}


def print_evaluation(found: Evaluation) -> None:
    """A table of scores for each target, coverage with its sampling error."""
    for target, table in found.metrics.items():
        rows = [
            [
                str(name),
                *(_number(row[key]) for key in ("rmse", "mae", "nlpd", "crps")),
                *(share(row[key], row[f"{key}_error"]) for key in ("cov80", "cov95")),
            ]
            for name, row in table.iterrows()
        ]
        headings = ["", "RMSE", "MAE", "NLPD", "CRPS", "80% coverage", "95% coverage"]
        print_table(f"{target}, {int(table['n'].iloc[0]):,} rows", headings, rows)
    say(
        "RMSE, MAE, NLPD and CRPS: lower is better. Coverage: share of rows inside the 80 and 95% "
        "intervals, ± its sampling error."
    )


def warn_if_narrow(found: Evaluation) -> None:
    """Warn of 95% intervals whose coverage is significantly too low, and say what to try."""
    from seqgp.metrics import clearly_off

    for target, table in found.metrics.items():
        covered, error = (float(table[key]["model"]) for key in ("cov95", "cov95_error"))
        if covered < 0.95 and clearly_off(covered, error):
            say(
                f"Warning: the 95% intervals of {target} contain {100 * covered:.1f}% of these rows, "
                "significantly less than 95%: errors are larger than on the validation rows used for "
                "calibration (distribution shift). Use adaptive intervals (seqgp evaluate and predict "
                "with --adaptive), or train on newer rows (seqgp fit)"
            )


def print_table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on stdout, the first column aligned to the left, the others to the right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for i, heading in enumerate(headings):
        table.add_column(heading, justify="right" if i else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    Console(highlight=False, markup=False).print(table)


def print_lines(lines: Sequence[tuple[str, str]]) -> None:
    """Names and values on stdout."""
    from rich.console import Console
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for name, value in lines:
        table.add_row(name, value)
    Console(highlight=False, markup=False).print(table)


def share(covered: float, error: float) -> str:
    """A coverage with its sampling error."""
    return f"{100 * covered:.1f}% ± {100 * error:.1f}"


def with_time(forecaster: Forecaster, frame: pd.DataFrame) -> pd.DataFrame:
    """The index as the first column, under the name of the time column if there is one."""
    name = frame.index.name or ("time" if forecaster.state_.kind == "time" else "row")
    return frame.rename_axis(str(name)).reset_index()


def _number(value: float) -> str:
    """Four digits, without an exponent where a large number is readable."""
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e8 else f"{value:.4g}"


def _scores(row: pd.Series[Any]) -> dict[str, Any]:
    return {str(key): int(value) if key == "n" else float(value) for key, value in row.items()}
