"""``seqgp predict``, ``forecast`` and ``simulate``: from a model and a table to a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from seqgp.cli.files import PIPE, check_output, read_data, write_table
from seqgp.cli.options import (
    Adaptive,
    Data,
    Json,
    Model,
    Out,
    Quantiles,
    Samples,
    Seed,
    levels,
    open_model,
)
from seqgp.cli.output import print_json, say, share, with_time

if TYPE_CHECKING:
    import pandas as pd

    from seqgp.forecasting import Forecaster

__all__ = ["forecast", "predict", "simulate"]

_INTERVAL = "0.025,0.975"


def predict(
    model: Model,
    data: Data,
    quantiles: Quantiles = _INTERVAL,
    interval: Annotated[
        float | None,
        typer.Option(metavar="LEVEL", help="Add a conformal interval, low and high."),
    ] = None,
    adaptive: Adaptive = False,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Predict each row of a table from the rows before it.

    The result has one row for each row of DATA: mean, standard deviation (of a measured value) and
    quantiles. It is empty for rows whose window is incomplete. If DATA continues the data of
    the model, its first rows are predicted too. Targets may be missing.

    Quantiles are those of the model. --interval 0.95 adds a conformal interval, which covers 95% of
    rows that are exchangeable with the validation rows, whatever their distribution.
    --adaptive adjusts the quantiles to the targets known so far, so that their long-run coverage
    holds under distribution shift.
    """
    _check_outputs(out, as_json)
    forecaster = open_model(model)
    frame = forecaster.predict(
        read_data(data), quantiles=levels(quantiles), interval=interval, adaptive=adaptive
    )
    counts = frame.attrs["counts"]
    say(
        f"{counts['predicted']:,} of {counts['rows']:,} rows predicted; {counts['before_first_window']:,} "
        f"before the first complete window, {counts['missing_values']:,} with missing values"
    )
    _give(forecaster, frame, out, as_json, counts=counts)


def forecast(
    model: Model,
    horizon: Annotated[int, typer.Option(metavar="N", help="Number of rows to forecast.")],
    future: Annotated[
        str | None,
        typer.Option(metavar="DATA", help="Table with their known inputs; - for stdin."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(metavar="DATA", help="Newest rows to start from, if newer than the model's."),
    ] = None,
    samples: Samples = 200,
    seed: Seed = 0,
    quantiles: Quantiles = _INTERVAL,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Forecast the rows after the end of the data.

    Sampled paths are fed back into the model, so that intervals widen with the horizon.
    """
    _check_outputs(out, as_json)
    if future == PIPE == data:
        raise ValueError("--future and --data are both -: only one can come from standard input")
    forecaster = open_model(model)
    found = forecaster.forecast(
        horizon,
        future=None if future is None else read_data(future),
        df=None if data is None else read_data(data),
        samples=samples,
        quantiles=levels(quantiles),
        seed=seed,
    )
    _give(forecaster, found.frame, out, as_json, seed=seed)


def simulate(
    model: Model,
    data: Data,
    init_rows: Annotated[
        int | None,
        typer.Option(metavar="N", help="Initial rows with measured targets. [default: the lag]"),
    ] = None,
    samples: Samples = 200,
    seed: Seed = 0,
    quantiles: Quantiles = _INTERVAL,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Simulate the targets of a table from its inputs.

    Measured targets are used in the initial rows only; after them the model continues from its own
    predictions. If the table has measured targets there too, the simulation is scored.
    """
    _check_outputs(out, as_json)
    forecaster = open_model(model)
    df = read_data(data)
    count = forecaster.lag if init_rows is None else init_rows
    if len(df) <= count:
        raise ValueError(
            f"the table has {len(df)} rows, of which the first {count} are initial rows: give more rows, "
            "or a smaller --init-rows"
        )
    rest = df.iloc[count:]
    found = forecaster.simulate(
        rest, df.iloc[:count], samples=samples, quantiles=levels(quantiles), seed=seed
    )
    scored = _scores(forecaster, found.frame, rest)
    for target, scores in scored.items():
        say(
            f"{target}: simulation of {scores['n']:,} rows, RMSE {scores['rmse']:.4g}, "
            f"coverage of the 95% interval {share(scores['cov95'], scores['cov95_error'])}"
        )
    _give(forecaster, found.frame, out, as_json, seed=seed, scores=scored)


def _check_outputs(out: str | None, as_json: bool) -> None:
    if out is not None:
        check_output(out)
    if as_json and out == PIPE:
        raise ValueError("--json and --out - both write to standard output: choose one")


def _give(
    forecaster: Forecaster, frame: pd.DataFrame, out: str | None, as_json: bool, **more: Any
) -> None:
    """Write the table to a file or stdout, or print it as a document with ``more`` beside it."""
    table = with_time(forecaster, frame)
    if out is not None or not as_json:
        write_table(table, PIPE if out is None else out)
    if out not in {None, PIPE}:
        say(f"{len(table):,} rows in {out}")
    if as_json:
        targets = list(forecaster.layout.targets)
        head = {"target": targets[0] if len(targets) == 1 else targets}
        print_json(head | more | {"rows": table.to_dict("records")})


def _scores(
    forecaster: Forecaster, frame: pd.DataFrame, df: pd.DataFrame
) -> dict[str, dict[str, float]]:
    """Scores of a simulation for each target that has measured values in ``df``."""
    import numpy as np

    from seqgp.forecasting.columns import read_columns
    from seqgp.forecasting.predict import column
    from seqgp.metrics import observed_coverage, pit, scores

    state, targets = forecaster.state_, forecaster.layout.targets
    run = frame.reindex(forecaster.reader.times(df))
    found = {}
    for target, unit in zip(targets, state.target_std, strict=True):
        mean, std = (run[column(target, name, targets)].to_numpy() for name in ("mean", "std"))
        truth = read_columns(df, [target], optional=[target])[:, 0]
        both = np.isfinite(truth) & np.isfinite(mean)
        if both.any():
            predicted = truth[both], mean[both], std[both]
            error = observed_coverage(pit(*predicted), 0.95)[1]
            found[target] = scores(*predicted, float(unit)) | {"cov95_error": error}
    return found
