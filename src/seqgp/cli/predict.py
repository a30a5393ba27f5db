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
from seqgp.cli.show import print_json, say

if TYPE_CHECKING:
    import pandas as pd

    from seqgp.forecasting import Forecaster

__all__ = [
    "FORECAST_EXAMPLE",
    "PREDICT_EXAMPLE",
    "SIMULATE_EXAMPLE",
    "forecast",
    "predict",
    "simulate",
    "with_time",
]

PREDICT_EXAMPLE = "Example: seqgp predict load.seqgp new.csv --out predicted.csv"
FORECAST_EXAMPLE = "Example: seqgp forecast load.seqgp --horizon 48 --future weather.csv"
SIMULATE_EXAMPLE = "Example: seqgp simulate motor.seqgp run.csv --init-rows 50 --out run_sim.csv"

_INTERVAL = "0.025,0.975"


def predict(
    model: Model,
    data: Data,
    quantiles: Quantiles = _INTERVAL,
    interval: Annotated[
        float | None,
        typer.Option(metavar="LEVEL", help="Add low and high, from errors on validation rows."),
    ] = None,
    adaptive: Adaptive = False,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Predict each row of a table from those before it.

    The result has one row for each of DATA: mean, std (of a new observation) and quantiles. Rows
    without enough rows before them, or with values missing there, are empty. Where DATA directly
    continues what the model knows, its first rows are predicted too. The target may be missing.

    The quantiles trust the model. --interval 0.95 gives a range that holds 95% of rows whatever their
    distribution, if they are like the validation rows. --adaptive moves the quantiles with the
    targets in DATA known by then, so that in the long run they hold their share under drift too.
    """
    _check_outputs(out, as_json)
    forecaster = open_model(model)
    frame = forecaster.predict(
        read_data(data), quantiles=levels(quantiles), interval=interval, adaptive=adaptive
    )
    counts = frame.attrs["counts"]
    say(
        f"{counts['predicted']:,} of {counts['rows']:,} rows predicted; {counts['before_first_window']:,} "
        f"stand before the first full window, at {counts['missing_values']:,} values are missing"
    )
    _give(forecaster, frame, out, as_json, counts=counts)


def forecast(
    model: Model,
    horizon: Annotated[int, typer.Option(metavar="N", help="Rows to forecast.")],
    future: Annotated[
        str | None,
        typer.Option(
            metavar="DATA", help="Table with the known inputs of those rows; - for stdin."
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(metavar="DATA", help="Newest rows to start from; else the model's own."),
    ] = None,
    samples: Samples = 200,
    seed: Seed = 0,
    quantiles: Quantiles = _INTERVAL,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Forecast the rows after the known data.

    The model runs on freely: sampled futures are fed back, so the interval widens as it should.
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
        int | None, typer.Option(metavar="N", help="Rows to start from; else as many as the lag.")
    ] = None,
    samples: Samples = 200,
    seed: Seed = 0,
    quantiles: Quantiles = _INTERVAL,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Run freely through a table, from its inputs.

    The first rows start the run; after them only the inputs are used, never the target. Where the
    table has the true target too, the run is scored against it.
    """
    _check_outputs(out, as_json)
    forecaster = open_model(model)
    df = read_data(data)
    count = forecaster.lag if init_rows is None else init_rows
    if len(df) <= count:
        raise ValueError(
            f"the table has {len(df)} rows and the first {count} start the run: give more rows, or a "
            "smaller --init-rows"
        )
    rest = df.iloc[count:]
    found = forecaster.simulate(
        rest, df.iloc[:count], samples=samples, quantiles=levels(quantiles), seed=seed
    )
    scored = _scores(forecaster, found.frame, rest)
    for target, scores in scored.items():
        say(
            f"{target}: free run over {scores['n']:,} rows, RMSE {scores['rmse']:.4g}, "
            f"{100 * scores['cov95']:.1f}% ± {100 * scores['cov95_error']:.1f} of them in the 95% interval"
        )
    _give(forecaster, found.frame, out, as_json, seed=seed, scores=scored)


def with_time(forecaster: Forecaster, frame: pd.DataFrame) -> pd.DataFrame:
    """The index as the first column, under the name of the time column where there is one."""
    name = frame.index.name or ("time" if forecaster.state_.kind == "time" else "row")
    return frame.rename_axis(str(name)).reset_index()


def _check_outputs(out: str | None, as_json: bool) -> None:
    if out is not None:
        check_output(out)
    if as_json and out == PIPE:
        raise ValueError("--json and --out - both write to standard output: choose one")


def _give(
    forecaster: Forecaster, frame: pd.DataFrame, out: str | None, as_json: bool, **more: Any
) -> None:
    """The table to a file or to stdout, or as a document with ``more`` beside it."""
    table = with_time(forecaster, frame)
    if out is not None or not as_json:
        write_table(table, PIPE if out is None else out)
    if out not in {None, PIPE}:
        say(f"{len(table):,} rows in {out}")
    if as_json:
        targets = list(forecaster.layout.targets)
        head = {"target": targets[0]} if len(targets) == 1 else {"target": targets}
        print_json(head | more | {"rows": table.to_dict("records")})


def _scores(
    forecaster: Forecaster, frame: pd.DataFrame, df: pd.DataFrame
) -> dict[str, dict[str, float]]:
    """Scores of a run for each target whose true values are in ``df``."""
    import numpy as np

    from seqgp.forecasting.columns import read_columns
    from seqgp.forecasting.predict import column
    from seqgp.metrics import pit, scores, share_error

    state, targets = forecaster.state_, forecaster.layout.targets
    run = frame.reindex(forecaster.reader.times(df))
    found = {}
    for target, unit in zip(targets, state.target_std, strict=True):
        mean, std = (run[column(target, name, targets)].to_numpy() for name in ("mean", "std"))
        truth = read_columns(df, [target], optional=[target])[:, 0]
        both = np.isfinite(truth) & np.isfinite(mean)
        if both.any():
            said = truth[both], mean[both], std[both]
            inside = np.abs(pit(*said) - 0.5) <= 0.475
            found[target] = scores(*said, float(unit)) | {"cov95_error": share_error(inside)}
    return found
