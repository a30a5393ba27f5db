"""The ``seqgp`` command: its commands, and how errors become messages and exit codes.

Results go to stdout; progress and messages to stderr. Exit codes: 0 done, 2 bad usage or input,
1 failure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from seqgp import __version__
from seqgp.cli import datasets, reproduce
from seqgp.datasets import DatasetError
from seqgp.exceptions import NotPositiveDefiniteError

__all__ = ["app", "main", "run"]

app = typer.Typer(
    help="Sequence regression with an honest error bar.",
    epilog="Example: seqgp datasets --json",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("datasets", epilog=datasets.EXAMPLE)(datasets.command)
app.command("reproduce", epilog=reproduce.EXAMPLE)(reproduce.command)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"seqgp {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and stop."
        ),
    ] = False,
) -> None:
    pass


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command line with these arguments (those of the process if None), then exit."""
    run(app, args)


def run(app: typer.Typer, args: Sequence[str] | None = None) -> NoReturn:
    """Run an app; expected errors become one line on stderr and an exit code, without traceback."""
    try:
        app(args=None if args is None else list(args), prog_name="seqgp")
    except ValueError as error:  # bad input, in the whole library
        _stop(error, 2)
    except (DatasetError, NotPositiveDefiniteError) as error:
        _stop(error, 1)
    raise SystemExit(0)


def _stop(error: Exception, code: int) -> NoReturn:
    typer.echo(f"Error: {' '.join(str(error).split())}", err=True)
    raise SystemExit(code) from error
