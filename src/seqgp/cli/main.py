"""The ``seqgp`` command: its subcommands, and how errors become messages and exit codes.

Results go to stdout, progress and messages to stderr. Exit codes: 0 success, 2 bad usage or input,
1 failure, 130 interrupted by Ctrl-C.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import typer

from seqgp._version import __version__
from seqgp.cli import fit, manage, predict
from seqgp.exceptions import NotPositiveDefiniteError

__all__ = ["app", "main", "run"]

_TRACEBACK = "SEQGP_TRACEBACK"

app = typer.Typer(
    help="Regression and forecasting on sequences with calibrated uncertainty.",
    epilog="Example: seqgp fit load.csv --target load",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for _name, _command, _example in (
    ("demo", manage.demo, "--out demo"),
    ("fit", fit.command, fit.EXAMPLE),
    ("predict", predict.predict, "load.seqgp new.csv --out predicted.csv"),
    ("forecast", predict.forecast, "load.seqgp --horizon 48 --future weather.csv"),
    ("simulate", predict.simulate, "motor.seqgp run.csv --init-rows 50 --out run_sim.csv"),
    ("evaluate", manage.evaluate, "load.seqgp new.csv --json"),
    ("report", manage.report, "load.seqgp --data new.csv --out report.html"),
    ("update", manage.update, "load.seqgp yesterday.csv --out load.seqgp --force"),
    ("info", manage.info, "load.seqgp"),
):
    app.command(_name, epilog=f"Example: seqgp {_name} {_example}")(_command)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"seqgp {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    pass


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command line with these arguments (those of the process if None), then exit."""
    run(app, args)


def run(app: typer.Typer, args: Sequence[str] | None = None) -> NoReturn:
    """Run an app; errors become one line on stderr and an exit code, without a traceback.

    With ``SEQGP_TRACEBACK=1`` in the environment errors are raised as they are.

    Args:
        app: the command.
        args: its arguments; those of the process if None.
    """
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            app(args=None if args is None else list(args), prog_name="seqgp")
    except Exception as error:
        if os.environ.get(_TRACEBACK):
            raise
        if isinstance(error, ValueError):  # bad input, throughout the library
            _stop(str(error), 2, error)
        # A plain ImportError names an extra to install.
        expected = isinstance(error, NotPositiveDefiniteError | OSError)
        if expected or type(error) is ImportError:
            _stop(str(error), 1, error)
        _stop(
            f"unexpected {type(error).__name__}: {error} (a bug; {_TRACEBACK}=1 shows where)",
            1,
            error,
        )
    raise SystemExit(0)


def _stop(text: str, code: int, error: Exception) -> NoReturn:
    typer.echo(f"Error: {' '.join(text.split())}", err=True)
    raise SystemExit(code) from error


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    typer.echo(f"Warning: {' '.join(str(message).split())}", err=True)
