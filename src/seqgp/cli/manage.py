"""``seqgp evaluate``, ``report``, ``update``, ``info`` and ``demo``: models as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from seqgp.cli.files import PIPE, check_output, read_data, write_table
from seqgp.cli.options import (
    Adaptive,
    Data,
    Force,
    Json,
    Model,
    check_model_path,
    check_report_path,
    known_rows,
    one_thread,
    open_model,
)
from seqgp.cli.output import (
    evaluation_document,
    print_evaluation,
    print_json,
    print_lines,
    print_table,
    say,
    share,
    warn_if_narrow,
    with_time,
)

__all__ = ["demo", "evaluate", "info", "report", "update"]

_DAYS = 730  # of the demo's series
_KNOWN = (
    "Warning: the model was fitted or updated with {known:,} of these {rows:,} rows, so the scores are "
    "optimistic: use newer rows"
)


def evaluate(
    model: Model,
    data: Data,
    adaptive: Adaptive = False,
    out: Annotated[
        str | None, typer.Option(metavar="FILE", help="Also write measured and predicted values.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Score a model on a table against simple baselines.

    Persistence repeats the newest known value; ridge is a linear model of the same windows. Use
    rows that the model was not fitted on, otherwise the scores are optimistic. With --adaptive,
    coverage and width are those of the adaptive intervals; the other scores do not change.
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
        say(_KNOWN.format(known=known, rows=len(df)))
    if out is not None:
        write_table(with_time(forecaster, found.frame), out)
        say(f"{len(found.frame):,} rows in {out}")
    if as_json:
        print_json(evaluation_document(found) | {"known_rows": known, "adaptive": adaptive})
        return
    print_evaluation(found)
    if adaptive:
        say("Coverage of the model is that of adaptive intervals; its NLPD and CRPS are not.")
    else:
        warn_if_narrow(found)


def report(
    model: Model,
    data: Annotated[
        str, typer.Option(metavar="DATA", help="Table with measured targets, as for evaluate.")
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="HTML file.")] = Path("report.html"),
) -> None:
    """Write an HTML report on a model and a table.

    It shows forecasts, residuals, calibration, training and data, and opens in any browser without
    a network.
    """
    check_report_path(out)
    forecaster = open_model(model)
    df = read_data(data)
    if known_rows(forecaster, df) == len(df):  # otherwise only the new rows are scored
        say(_KNOWN.format(known=len(df), rows=len(df)))
    from seqgp.report import write_report

    write_report(forecaster, df, out)
    say(f"report in {out}")


def update(
    model: Model,
    data: Data,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Model file to write.")],
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Add newer rows to a model without retraining.

    The Gaussian process is conditioned on the new rows too, and forecasts start after them. The
    network and the scaling stay as they are.
    """
    check_model_path(out, force)
    forecaster = open_model(model)
    before = forecaster.data_report_
    forecaster.update(read_data(data))
    forecaster.save(out)
    after = forecaster.data_report_
    rows = after.updated_rows - before.updated_rows
    windows = after.updated_windows - before.updated_windows
    end = forecaster.state_.end
    if as_json:
        print_json({"out": out, "rows": rows, "windows": windows, "end": end})
    say(f"{rows:,} rows added as {windows:,} windows; the data of the model now ends at {end}")
    say(f"model in {out}")


def info(model: Model, as_json: Json = False) -> None:
    """Describe a model file."""
    from seqgp.loading import info as read_info

    found = read_info(model)
    if as_json:
        print_json(found)
    else:
        print_lines(_lines(found))


def _encoder(options: dict[str, Any]) -> str:
    """The name of an encoder, given as such or with options of its own."""
    encoder = options["encoder"]
    return str(encoder["encoder"] if isinstance(encoder, dict) else encoder)


def _lines(found: dict[str, Any]) -> list[tuple[str, str]]:
    """What a person wants to know, name and value."""
    made, options = found["made"], found["options"]
    lines = [
        ("kind", f"{found['kind']}, file format {found['format']}, {found['bytes']:,} bytes"),
        ("made", f"{made['at']} by seqgp {made['seqgp']}"),
    ]
    if "forecaster" in found:
        own, data = found["forecaster"], found["data"]
        for name in ("target", "inputs", "past_inputs", "calendar"):
            value = own[name]
            if value:
                text = value if isinstance(value, str) else ", ".join(value)
                lines.append((name.replace("_", " "), text))
        lines += [
            ("mode", f"{own['mode']}, lag {own['lag']}, horizon {own['horizon']}"),
            ("data", f"{data['rows']:,} rows from {data['first']} to {data['last']}"),
            ("step", str(data["step"])),
            ("windows", f"{data['windows_used']:,} of {data['windows']:,} used"),
        ]
        if data["updated_rows"]:
            lines.append(("updates", f"{data['updated_rows']:,} rows added"))
    lines += [
        ("network", f"{_encoder(options)}, {found['parameters']:,} parameters"),
        ("inference", str(found["inference"])),
        ("training", f"the best epoch was {found['members'][0]['best_epoch']}"),
    ]
    if len(found["members"]) > 1:
        lines.append(("ensemble", f"{len(found['members'])} members"))
    best = found["members"][0]["best"]
    scores = {"RMSE": best.get("val_rmse"), "NLPD": best.get("val_nlpd")}
    shown = [f"{name} {value:.3f}" for name, value in scores.items() if value is not None]
    if shown:
        lines.append(("validation", f"{', '.join(shown)} (standardised)"))
    return lines


def demo(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for the results.")] = Path(
        "seqgp-demo"
    ),
    quick: Annotated[bool, typer.Option("--quick", help="Train for two epochs only.")] = False,
    as_json: Json = False,
) -> None:
    """Train and evaluate models of a real series in two minutes.

    The hourly load of a US utility (GEFCom2012) is downloaded once (15 MB). A GP-LSTM is compared
    with persistence, ridge regression and an LSTM on eight weeks held back from all of them. The
    folder then contains a report to open in a browser, a picture and the model. Without a
    network connection a simulated series is used.
    """
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file: give a folder with --out")
    from seqgp.demo import load_series, run_demo

    with one_thread():
        series = load_series(_DAYS)
        say(series.note)
        found = run_demo(series, out, quick, say)
    if as_json:
        print_json(
            {
                "simulated": series.simulated,
                "scores": {name: row.to_dict() for name, row in found.scores.iterrows()},
                "files": found.files,
                "seconds": found.seconds,
            }
        )
    else:
        print_table(
            f"{series.title}, {int(found.scores['n'].iloc[0]):,} test hours",
            ["", "RMSE (MW)", "NLPD", "95% coverage"],
            [
                [
                    str(name),
                    f"{row['rmse']:.1f}",
                    f"{row['nlpd']:.2f}",
                    share(row["cov95"], row["cov95_error"]),
                ]
                for name, row in found.scores.iterrows()
            ],
        )
        say(
            f"{found.seconds:.0f} s in all. RMSE and NLPD: lower is better. Coverage: share of hours "
            "inside the 95% interval, ± its sampling error."
        )
    for what, path in found.files.items():
        say(f"{what} in {path}")
