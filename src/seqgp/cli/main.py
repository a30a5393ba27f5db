"""The ``seqgp`` command: its commands, and how errors become messages and exit codes.

Results go to stdout; progress and messages to stderr. Exit codes: 0 done, 2 bad usage or input,
1 failure, 130 ended by Ctrl-C.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import typer

from seqgp import __version__
from seqgp.cli import demo, evaluate, fit, model, predict
from seqgp.exceptions import NotPositiveDefiniteError

__all__ = ["app", "main", "run"]

_TRACEBACK = "SEQGP_TRACEBACK"

app = typer.Typer(
    help="Sequence regression with an honest error bar.",
    epilog="Example: seqgp fit load.csv --target load",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("demo", epilog=demo.EXAMPLE)(demo.command)
app.command("fit", epilog=fit.EXAMPLE)(fit.command)
app.command("predict", epilog=predict.PREDICT_EXAMPLE)(predict.predict)
app.command("forecast", epilog=predict.FORECAST_EXAMPLE)(predict.forecast)
app.command("simulate", epilog=predict.SIMULATE_EXAMPLE)(predict.simulate)
app.command("evaluate", epilog=evaluate.EVALUATE_EXAMPLE)(evaluate.evaluate)
app.command("report", epilog=evaluate.REPORT_EXAMPLE)(evaluate.report)
app.command("update", epilog=model.UPDATE_EXAMPLE)(model.update)
app.command("info", epilog=model.INFO_EXAMPLE)(model.info)


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
    """Run an app; errors become one line on stderr and an exit code, without traceback.

    With ``SEQGP_TRACEBACK=1`` in the environment errors are left as they are.
    """
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            app(args=None if args is None else list(args), prog_name="seqgp")
    except Exception as error:
        if os.environ.get(_TRACEBACK):
            raise
        if isinstance(error, ValueError):  # bad input, in the whole library
            _stop(str(error), 2, error)
        if isinstance(error, NotPositiveDefiniteError | OSError):
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
