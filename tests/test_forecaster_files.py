"""Model files of forecasters: what comes back is what was saved, bit for bit."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from seqgp import (
    LSTM,
    ArtifactError,
    Forecaster,
    SequenceGP,
    SequenceNet,
    Training,
    WindowSet,
    info,
    load,
    save,
)

pytestmark = pytest.mark.skip(reason="forecaster files follow")


def small(kind=SequenceGP):
    return kind(LSTM(hidden=4), training=Training(epochs=1), random_state=0, progress=False)


def hourly(rows=90):
    rng = np.random.default_rng(2)
    time = pd.date_range("2024-03-28", periods=rows, freq="h", tz="Europe/Berlin", name="time")
    values = rng.standard_normal((rows, 3))
    frame = pd.DataFrame(values, time, columns=["load", "plan", "wind"])
    frame["load"] += np.sin(np.arange(rows) / 4)
    frame.iloc[5, 1] = np.nan
    return frame


FORECASTERS = {
    "autoregression": dict(target="load"),
    "all options": dict(
        target=("load", "wind"),
        inputs=["plan"],
        calendar=["hour", "weekday"],
        holidays=["2024-03-29"],
        missing="interpolate",
        frequency="h",
    ),
    "past inputs": dict(target="load", inputs=["plan"], past_inputs=["wind"]),
    "direct": dict(target="load", past_inputs=["wind"], horizon=3),
    "regression": dict(target="load", inputs=["plan"], mode="regression"),
    "simulation": dict(target="load", inputs=["plan"], mode="simulation"),
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.seqgp"


@pytest.mark.parametrize("options", FORECASTERS.values(), ids=list(FORECASTERS))
def test_forecasters_come_back(options, path):
    frame = hourly()
    model = small()
    forecaster = Forecaster(**options, lag=5, model=model).fit(frame.iloc[:70])
    forecaster.save(path)
    twin = load(path)
    assert type(twin) is Forecaster
    assert vars(twin).keys() == vars(forecaster).keys()
    assert twin.params().keys() == forecaster.params().keys()
    assert {**twin.params(), "model": None} == {**forecaster.params(), "model": None}
    assert repr(twin.model) == repr(model)
    assert twin.data_report_ == forecaster.data_report_
    pd.testing.assert_frame_equal(twin.history_, forecaster.history_, check_exact=True)
    assert_same_forecasts(forecaster, twin, frame)
    if options.get("mode") != "simulation":
        more = frame.iloc[70:80]
        assert_same_forecasts(forecaster.update(more), twin.update(more), frame)


def assert_same_forecasts(forecaster, twin, frame):
    new = frame.iloc[60:]
    pd.testing.assert_frame_equal(twin.predict(new), forecaster.predict(new), check_exact=True)
    ours, theirs = (f.evaluate(new).metrics for f in (forecaster, twin))
    for target in ours:
        pd.testing.assert_frame_equal(theirs[target], ours[target], check_exact=True)
    steps = 2
    future = frame[["plan", "wind"]].loc[frame.index > forecaster.history_.index[-1]].iloc[:steps]
    ours, theirs = (f.forecast(steps, future, samples=5).frame for f in (forecaster, twin))
    pd.testing.assert_frame_equal(theirs, ours, check_exact=True)


def test_a_forecaster_on_inputs_alone_comes_back(path):
    from seqgp.forecasting import InputsOnly

    frame = hourly().reset_index(drop=True).dropna().reset_index(drop=True)
    model = small(SequenceNet)
    forecaster = Forecaster("load", ["plan"], lag=5, mode="simulation", model=model).fit(frame)
    windows = WindowSet(
        frame[["plan"]].to_numpy(), frame["load"].to_numpy(), lag=5, mode="autoregression"
    )
    forecaster.model_ = InputsOnly(clone(model), windows, windows)
    save(forecaster, path)
    twin = load(path)
    assert type(twin.model_) is InputsOnly
    assert vars(twin.model_).keys() == vars(forecaster.model_).keys()
    pd.testing.assert_frame_equal(twin.predict(frame), forecaster.predict(frame), check_exact=True)


def test_a_run_that_diverged_does_not_stop_saving(path):
    forecaster = Forecaster("load", lag=5, model=small(SequenceNet)).fit(hourly())
    forecaster.state_.simulation_scores["round 1"] = float("nan")
    save(forecaster, path)
    assert load(path).state_.simulation_scores == {"round 1": float("inf")}


def test_info_of_a_forecaster_names_its_columns(path):
    Forecaster("load", ["plan"], lag=5, model=small(SequenceNet)).fit(hourly()).save(path)
    found = info(path)
    json.dumps(found, allow_nan=False)
    assert found["kind"] == "Forecaster"
    assert found["forecaster"]["target"] == "load"
    assert found["forecaster"]["inputs"] == ["plan"]
    assert found["data"]["missing_values"]["plan"] == 1
    assert found["lag"] == 5


def test_a_forecaster_that_is_not_fitted_is_refused(path):
    with pytest.raises(ArtifactError, match="Forecaster is not fitted"):
        save(Forecaster("y"), path)
    assert not path.exists()
