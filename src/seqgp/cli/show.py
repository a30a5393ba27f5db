"""What commands print: one JSON document or short tables on stdout, messages on stderr."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    import pandas as pd

    from seqgp.forecasting import Evaluation

__all__ = [
    "evaluation_document",
    "plain",
    "print_evaluation",
    "print_json",
    "print_table",
    "say",
    "warn_if_narrow",
]


def say(text: str) -> None:
    """A message, on stderr."""
    typer.echo(text, err=True)


def print_json(document: Any) -> None:
    """One JSON document on stdout; what is not a finite number becomes null."""
    typer.echo(json.dumps(plain(document), indent=2, allow_nan=False, ensure_ascii=False))


def plain(value: Any) -> Any:
    """The same with dicts, lists, text, finite numbers and None only, as JSON can hold it."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if hasattr(value, "item"):  # a number of NumPy's
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int) else str(value)


def evaluation_document(found: Evaluation) -> dict[str, Any]:
    """Scores of the model, persistence and ridge; of several targets, a list under ``targets``."""
    documents: list[dict[str, Any]] = [
        {"target": target} | {str(name): _scores(row) for name, row in table.iterrows()}
        for target, table in found.metrics.items()
    ]
    return documents[0] if len(documents) == 1 else {"targets": documents}


def print_evaluation(found: Evaluation) -> None:
    """A table of scores for each target, coverage with its sampling error."""
    for target, table in found.metrics.items():
        n = int(table["n"].iloc[0])
        print_table(
            f"{target}, {n:,} rows",
            ["", "RMSE", "MAE", "NLPD", "CRPS", "in 80%", "in 95%"],
            [
                [
                    str(name),
                    *(_number(row[key]) for key in ("rmse", "mae", "nlpd", "crps")),
                    *(_share(row, key) for key in ("cov80", "cov95")),
                ]
                for name, row in table.iterrows()
            ],
        )
    say(
        "RMSE, MAE, NLPD, CRPS: lower is better. Of the rows, 80 and 95% should lie in those intervals; "
        "± is the sampling error, by which chance alone moves such a share."
    )


def warn_if_narrow(found: Evaluation) -> None:
    """Say where the model's 95% intervals hold clearly less than that, and what to try."""
    from seqgp.metrics import clearly_off

    for target, table in found.metrics.items():
        share, error = (float(table[key]["model"]) for key in ("cov95", "cov95_error"))
        if share < 0.95 and clearly_off(share, error):
            say(
                f"Warning: 95% intervals of {target} held {100 * share:.1f}% of these rows, less than "
                "chance explains: their errors are larger than those of the rows that the intervals "
                "were set by. Let intervals follow the truths (seqgp evaluate and predict with "
                "--adaptive), or train on newer rows (seqgp fit)"
            )


def print_table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on stdout, the first column to the left, the others to the right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for i, heading in enumerate(headings):
        table.add_column(heading, justify="right" if i else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    Console(highlight=False, markup=False).print(table)


def _number(value: float) -> str:
    """Four digits, and no exponent where a large number can be read without one."""
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e8 else f"{value:.4g}"


def _share(row: pd.Series[Any], key: str) -> str:
    return f"{100 * row[key]:.1f}% ± {100 * row[f'{key}_error']:.1f}"


def _scores(row: pd.Series[Any]) -> dict[str, Any]:
    return {str(key): int(value) if key == "n" else float(value) for key, value in row.items()}
