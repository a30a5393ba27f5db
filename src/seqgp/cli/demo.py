"""``seqgp demo``: what this is about, on a real series, in two minutes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqgp.cli.options import Json
from seqgp.cli.show import print_json, print_table, say
from seqgp.cli.threads import one_thread

if TYPE_CHECKING:
    from seqgp.demo import Demo

__all__ = ["EXAMPLE", "command"]

EXAMPLE = "Example: seqgp demo --out demo"

_DAYS = 730


def command(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for what it makes.")] = Path(
        "seqgp-demo"
    ),
    quick: Annotated[bool, typer.Option("--quick", help="Two epochs only, to see it run.")] = False,
    as_json: Json = False,
) -> None:
    """Forecast a real series in two minutes on two cores.

    The hourly load of a US utility (GEF 2012) is downloaded once, 15 MB. A GP-LSTM is trained and
    compared with persistence, ridge regression and a plain LSTM on eight weeks that none of them
    saw. The folder then has a report (open it in a browser), a picture and the model. Without a
    network connection, a simulated series takes the load's place.
    """
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file: give a folder with --out")
    from seqgp.demo import load_series, run_demo

    with one_thread():
        series = load_series(_DAYS)
        say(series.note)
        found = run_demo(series, out, quick, say)
    if as_json:
        scores = {name: row.to_dict() for name, row in found.scores.iterrows()}
        print_json(
            {
                "simulated": series.simulated,
                "scores": scores,
                "files": found.files,
                "seconds": found.seconds,
            }
        )
    else:
        _print(found, series.title)
    for what, path in found.files.items():
        say(f"{what} in {path}")


def _print(found: Demo, title: str) -> None:
    n = int(found.scores["n"].iloc[0])
    print_table(
        f"{title}, {n:,} unseen hours",
        ["", "RMSE (MW)", "NLPD", "in the 95% interval"],
        [
            [
                str(name),
                f"{row['rmse']:.1f}",
                f"{row['nlpd']:.2f}",
                f"{100 * row['cov95']:.1f}% ± {100 * row['cov95_error']:.1f}",
            ]
            for name, row in found.scores.iterrows()
        ],
    )
    say(
        f"{found.seconds:.0f} s in all. RMSE and NLPD: lower is better; 95% of the hours should lie in "
        "the interval (± is the sampling error)."
    )
