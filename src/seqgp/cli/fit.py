"""``seqgp fit``: from a table to a model file, with scores on rows held back from training."""

from __future__ import annotations

import os
import signal
import time as clock
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seqgp.cli.files import PIPE, find_time, read_data
from seqgp.cli.options import (
    Data,
    Force,
    Json,
    check_model_path,
    check_report_path,
    names,
    one_thread,
)
from seqgp.cli.output import (
    evaluation_document,
    print_evaluation,
    print_json,
    say,
    warn_if_narrow,
)

if TYPE_CHECKING:
    from seqgp.forecasting import Dataset, Evaluation, Forecaster

__all__ = ["EXAMPLE", "command"]

EXAMPLE = "load.csv --target load --inputs t1,t2 --calendar hour"


def command(
    data: Data,
    target: Annotated[str, typer.Option(metavar="NAMES", help="Columns to predict.")],
    inputs: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Columns known in advance.")
    ] = None,
    past_inputs: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Columns known only up to the present.")
    ] = None,
    time: Annotated[
        str | None, typer.Option(metavar="NAME", help="Time column; by default the one with dates.")
    ] = None,
    frequency: Annotated[
        str | None,
        typer.Option(metavar="STEP", help="Time step: h, 15min, D; by default inferred."),
    ] = None,
    lag: Annotated[int, typer.Option(metavar="N", help="Rows in a window.")] = 48,
    horizon: Annotated[int, typer.Option(metavar="N", help="Rows ahead that are predicted.")] = 1,
    mode: Annotated[
        str, typer.Option(metavar="M", help="autoregression, regression, simulation.")
    ] = "autoregression",
    calendar: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Any of hour, weekday, yearday.")
    ] = None,
    holidays: Annotated[
        str | None, typer.Option(metavar="DATES", help="Days to mark: 2024-12-25,2025-01-01.")
    ] = None,
    missing: Annotated[
        str, typer.Option(metavar="HOW", help="Windows with gaps: drop, interpolate.")
    ] = "drop",
    max_gap: Annotated[
        int, typer.Option(metavar="N", help="Longest gap to interpolate, in rows.")
    ] = 3,
    encoder: Annotated[str, typer.Option(metavar="E", help="lstm, gru, rnn, narx.")] = "lstm",
    hidden: Annotated[int, typer.Option(metavar="N", help="Hidden units of the network.")] = 64,
    epochs: Annotated[
        int | None, typer.Option(metavar="N", help="By default fewer for larger tables.")
    ] = None,
    members: Annotated[int, typer.Option(metavar="N", help="Trainings in the ensemble.")] = 1,
    seed: Annotated[int, typer.Option(metavar="N", help="Of random numbers.")] = 0,
    device: Annotated[str, typer.Option(metavar="D", help="auto, cpu, cuda.")] = "auto",
    test: Annotated[
        float, typer.Option(metavar="SHARE", help="Of the rows, held back for scores.")
    ] = 0.1,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Model file; by default DATA.seqgp.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write a report on the test rows.")
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Written every epoch, resumed if it exists.")
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Train a model on a table.

    The last rows are held back for scores; then the model is updated with them, so that forecasts
    start at the end of the table. Ctrl-C keeps the best model so far.
    """
    if not 0.0 <= test < 1.0:
        raise ValueError(f"--test is {test:g}, expected a share of the rows from 0 to below 1")
    path = Path(f"{_stem(data)}.seqgp") if out is None else out
    check_model_path(path, force)
    if report is not None:
        check_report_path(report)
    df = read_data(data)
    from seqgp.encoders import as_encoder
    from seqgp.forecasting import Forecaster
    from seqgp.forecasting.model import default_model

    targets, known, past = names(target), names(inputs), names(past_inputs)
    time = time or find_time(df, {*targets, *known, *past})
    forecaster = Forecaster(
        targets[0] if len(targets) == 1 else targets,
        inputs=known,
        past_inputs=past,
        time=time,
        lag=lag,
        horizon=horizon,
        mode=mode,
        calendar=names(calendar),
        holidays=names(holidays),
        frequency=frequency,
        missing=missing,
        max_gap=max_gap,
    )
    options: dict[str, Any] = {
        "encoder": as_encoder(encoder).set_params(hidden=hidden),
        "members": members,
        "random_state": seed,
        "device": device,
    }
    if epochs is not None:
        options["training__epochs"] = epochs
    rows = forecaster.read(df)
    train, held = _split(rows, test)
    forecaster.model = default_model(rows.windows, **options)
    with one_thread():
        start = clock.perf_counter()
        with _interruptible() as stop:
            say(
                f"training on {len(train):,} rows"
                + (f", {len(held):,} held back" if len(held) else "")
            )
            forecaster.fit(train, stop=stop, checkpoint=checkpoint)
            stopped = stop()
        seconds = clock.perf_counter() - start
        _say_done(forecaster, stopped, seconds)
        found = _score(forecaster, held)
        if report is not None and found is not None:
            from seqgp.report import write_report

            write_report(forecaster, df[len(train) : len(train) + len(held)], report)
            say(f"report in {report}")
        if len(held):
            _add(forecaster, held)
    forecaster.save(path)

    if as_json:
        print_json(
            {
                "out": path,
                "stopped": stopped,
                "seconds": seconds,
                "data": asdict(forecaster.data_report_),
                "test": None if found is None else evaluation_document(found),
            }
        )
    elif found is not None:
        print_evaluation(found)
        warn_if_narrow(found)
    say(f"model in {path}")


def _stem(data: str) -> str:
    """The name of the data file without folder and suffixes."""
    if data == PIPE:
        return "model"
    name = Path(data).name
    for suffix in (".gz", ".csv", ".parquet", ".txt", ".tsv"):
        name = name.removesuffix(suffix)
    return name or "model"


def _split(data: Dataset, test: float) -> tuple[Dataset, Dataset]:
    """The rows to train on and those held back, refused before minutes of training if too few remain."""
    train, held = data.split(test)
    layout = data.layout
    if len(train) < layout.need + 2:
        raise ValueError(
            f"the table has {len(train) + len(held)} rows up to its last target, of which {len(held)} are "
            f"held back for scores; --lag {layout.lag} and --horizon {layout.horizon} need at least "
            f"{layout.need + 2} to train on: use a shorter lag, --test 0, or more rows"
        )
    return train, held


@contextmanager
def _interruptible() -> Iterator[Callable[[], bool]]:
    """Gives a function that tells whether Ctrl-C has been pressed; the second one ends the program."""
    asked = False

    def handle(number: int, frame: Any) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        # Straight to the descriptor: the signal may have come in the middle of another write.
        os.write(
            2, b"\nstopping: the best model so far is kept (press Ctrl-C again to quit at once)\n"
        )

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)


def _say_done(forecaster: Forecaster, stopped: bool, seconds: float) -> None:
    from seqgp.forecasting.model import training_summary

    report = forecaster.data_report_
    summary = training_summary(forecaster.model_)
    kept = f"the state kept is that of epoch {summary.best_epoch}"
    if summary.members > 1:
        kept = f"the model is an ensemble of {summary.members} members"
    say(
        f"{'stopped by Ctrl-C' if stopped else 'trained'} after {summary.epochs} epochs in "
        f"{seconds:.0f} s; {kept}"
    )
    left = report.windows - report.windows_used
    filled = sum(report.interpolated_values.values())
    if left or filled or report.missing_times:
        say(
            f"missing data: {report.missing_times:,} times skipped, {filled:,} values interpolated, "
            f"{left:,} of {report.windows:,} windows left out"
        )


def _score(forecaster: Forecaster, held: Dataset) -> Evaluation | None:
    """Scores on the rows held back; a trained model is not lost if none can be computed."""
    if not len(held):
        return None
    try:
        return forecaster.evaluate(held)
    except ValueError as error:
        say(f"no scores: {error}")
        return None


def _add(forecaster: Forecaster, held: Dataset) -> None:
    """Update the model with the rows held back, so that forecasts start after them."""
    forecaster.update(held)
    say("the scores are those of rows held back; the saved model has been updated with them since")
