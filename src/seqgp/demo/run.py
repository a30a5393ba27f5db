"""Train a GP-LSTM and an LSTM on one series, score them against baselines, and write the results."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from sklearn.base import clone

from seqgp.demo.data import Series
from seqgp.demo.picture import forecast_picture, save_picture
from seqgp.encoders import LSTM
from seqgp.estimators import SequenceGP, SequenceNet
from seqgp.forecasting import Forecaster
from seqgp.report import write_report
from seqgp.training import Training

__all__ = ["Demo", "run_demo"]

_TEST = 8 * 7 * 24  # hours at the end, held back from all models
_LAG = 24
# Chosen on the eight weeks before the test rows. Both models have the same network and number of
# epochs; the GP-LSTM is pre-trained as an LSTM and needs no linear mean.
_ENCODER = LSTM(hidden=32)
_TRAINING = Training(epochs=30, batch_size=256, lr=5e-3, schedule="cosine")
_GP_TRAINING = {"pretrain_epochs": 20, "epochs": 10, "theta_lr": 0.05, "theta_steps": 5}


@dataclass(frozen=True)
class Demo:
    """Scores of the demo and the files it wrote."""

    scores: pd.DataFrame
    """Rows persistence, ridge, LSTM and GP-LSTM; columns as :func:`seqgp.metrics.scores` has them."""
    files: dict[str, Path]
    seconds: float


def run_demo(series: Series, folder: Path, quick: bool, say: Callable[[str], None]) -> Demo:
    """Train on all but the last eight weeks, score on those, and write model, report and picture.

    Args:
        series: hourly rows.
        folder: where to write; it is made if need be.
        quick: train for two epochs only.
        say: called with messages on the progress.
    """
    start = time.perf_counter()
    train, test = series.frame.iloc[:-_TEST], series.frame.iloc[-_TEST:]
    say(f"training on {len(train):,} hours, testing on the last {len(test):,}")
    of_gp = clone(_TRAINING).set_params(**_GP_TRAINING)
    of_net = clone(_TRAINING)
    if quick:
        of_gp.set_params(epochs=2, pretrain_epochs=0)
        of_net.set_params(epochs=2)
    gp_model = SequenceGP(_ENCODER, mean="zero", training=of_gp, random_state=0)
    gp = _fit(gp_model, train, "GP-LSTM", say)
    net = _fit(SequenceNet(_ENCODER, training=of_net, random_state=0), train, "LSTM", say)

    found = gp.evaluate(test)
    rows = found.metrics["load"]
    scores = pd.DataFrame(
        {
            "persistence": rows.loc["persistence"],
            "ridge": rows.loc["ridge"],
            "LSTM": net.evaluate(test).metrics["load"].loc["model"],
            "GP-LSTM": rows.loc["model"],
        }
    ).T
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        "picture": folder / "forecast.png",
        "report": folder / "report.html",
        "model": folder / "model.seqgp",
    }
    save_picture(forecast_picture(found.frame, series.title), files["picture"])
    write_report(gp, test, files["report"], title=series.title)
    gp.save(files["model"])
    return Demo(scores, files, time.perf_counter() - start)


def _fit(
    model: SequenceGP | SequenceNet, train: pd.DataFrame, name: str, say: Callable[[str], None]
) -> Forecaster:
    start = time.perf_counter()
    forecaster = Forecaster(
        "load",
        past_inputs=["temperature"],
        lag=_LAG,
        calendar=["hour", "weekday"],
        model=model,
    ).fit(train)
    say(f"{name}: trained in {time.perf_counter() - start:.0f} s")
    return forecaster
