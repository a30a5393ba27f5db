from __future__ import annotations

import json

import numpy as np
import pytest

from cli_data import run
from seqgp import load
from seqgp.cli import manage
from seqgp.demo import DataFile, DatasetError, WrongFileError, load_series, simulated_series


@pytest.fixture
def offline(monkeypatch):
    def refuse(file: DataFile) -> None:
        raise DatasetError("the file cannot be downloaded")

    monkeypatch.setattr(DataFile, "fetch", refuse)


def test_offline_demo_says_that_its_series_is_simulated(capsys, monkeypatch, tmp_path, offline):
    monkeypatch.setattr(manage, "_DAYS", 80)
    code, out, err = run(capsys, "demo", "--quick", "--out", tmp_path / "new" / "demo", "--json")
    assert code == 0
    document = json.loads(out)
    assert document["simulated"] is True
    assert "SIMULATED" in err
    assert "the file cannot be downloaded" in err
    assert list(document["scores"]) == ["persistence", "ridge", "LSTM", "GP-LSTM"]
    assert {row["n"] for row in document["scores"].values()} == {8 * 7 * 24}
    # Written by the run, and readable.
    assert set(document["files"]) == {"picture", "report", "model"}
    with open(document["files"]["picture"], "rb") as picture:
        assert picture.read(8) == b"\x89PNG\r\n\x1a\n"
    with open(document["files"]["report"]) as page:
        assert "Simulated hourly load" in page.read()
    model = load(document["files"]["model"])
    error = document["scores"]["GP-LSTM"]["rmse"]
    again = model.evaluate(simulated_series(80).iloc[-8 * 7 * 24 :]).metrics["load"]
    assert again.loc["model", "rmse"] == pytest.approx(error)


def test_a_wrong_file_is_no_reason_to_simulate(monkeypatch):
    def wrong(file: DataFile) -> None:
        raise WrongFileError("another version")

    monkeypatch.setattr(DataFile, "fetch", wrong)
    with pytest.raises(WrongFileError):
        load_series(30)


def test_the_simulated_series_is_a_load(offline):
    series = load_series(400)
    load_ = series.frame["load"]
    assert series.simulated
    assert len(series.frame) == 400 * 24
    assert load_.min() > 0
    by_day = load_.groupby(load_.index.day_of_week).mean()
    assert by_day[:5].min() > by_day[5:].max()  # less at weekends
    night, evening = (load_[load_.index.hour == hour].mean() for hour in (3, 19))
    assert evening > 1.1 * night
    # Cold and hot days both need more than mild ones, so no line in the temperature will do.
    degrees = series.frame["temperature"]
    cold, mild, hot = (
        load_[part].mean() for part in (degrees < 40, abs(degrees - 65) < 4, degrees > 82)
    )
    assert min(cold, hot) > mild
    assert np.isfinite(series.frame.to_numpy()).all()
