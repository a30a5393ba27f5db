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
from seqgp.forecasting.model import InputsOnly
from seqgp.io import read, write


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
    frame = hourly().reset_index(drop=True).dropna().reset_index(drop=True)
    model = small(SequenceNet)
    forecaster = Forecaster("load", ["plan"], lag=5, mode="simulation", model=model).fit(frame)
    windows = WindowSet(
        frame[["plan"]].to_numpy(), frame["load"].to_numpy(), lag=5, mode="autoregression"
    )
    forecaster.model_ = InputsOnly.trained(clone(model), 1, windows, windows)
    save(forecaster, path)
    twin = load(path)
    assert type(twin.model_) is InputsOnly
    assert twin.model_.inputs == 1
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


# Files that lie.


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """Header and arrays of a file."""
    path = tmp_path_factory.mktemp("whole") / "model.seqgp"
    frame = hourly()
    Forecaster("load", ["plan"], past_inputs=["wind"], lag=5, model=small()).fit(frame).save(path)
    text, arrays = read(path)
    return text, arrays


def refused(path, header, arrays):
    write(path, {name: value for name, value in header.items() if name != "digest"}, arrays)
    with pytest.raises(ArtifactError) as caught:
        load(path)
    assert str(caught.value).count(str(path)) == 1
    return str(caught.value)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("options",), {}),
        (("options",), {"target": 3}),
        (("options", "target"), ["load", 3]),
        (("options", "inputs"), "plan"),
        (("options", "inputs"), []),
        (("options", "past_inputs"), ["wind", "gust"]),
        (("options", "lag"), 6),
        (("options", "lag"), "5"),
        (("options", "lag"), 0),
        (("options", "horizon"), 0),
        (("options", "mode"), "magic"),
        (("options", "mode"), "regression"),
        (("options", "missing"), "magic"),
        (("options", "calendar"), ["hour"]),
        (("options", "calendar"), ["century"]),
        (("options", "holidays"), ["Easter"]),
        (("options", "model"), None),
        (("template",), "SequenceGP"),
        (("template",), {"kind": "SequenceGP"}),
        (("template",), {"kind": "Forecaster", "options": {}}),
        (("template", "options", "training"), {"training": {"lr": -1.0}}),
        (("template", "options", "gp"), {"gp": "gp", "options": {"latent_dim": 2**31}}),
        (("estimator",), None),
        (("estimator", "kind"), "Forecaster"),
        (("inputs_only",), -1),
        (("inputs_only",), 7),
        (("inputs_only",), "1"),
        (("state",), None),
        (("state", "kind"), 3),
        (("state", "kind"), "magic"),
        (("state", "step"), None),
        (("state", "step"), "magic"),
        (("state", "step"), 2**70),
        (("state", "end"), "magic"),
        (("state", "end"), 1.5),
        (("state", "timezone"), "Mars/Olympus"),
        (("state", "timezone"), 3),
        (("state", "report"), {}),
        (("state", "report"), None),
        (("state", "simulation_scores"), {"round 1": "good"}),
        (("state", "extra"), 1),
        (("extra",), 1),
    ],
)
def test_forged_headers_are_refused(parts, path, place, value):
    header, arrays = json.loads(parts[0]), parts[1]
    inner = header["model"]
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    refused(path, header, arrays)


@pytest.mark.parametrize(
    "name", ["kind", "options", "template", "estimator", "inputs_only", "state"]
)
def test_every_part_is_needed(parts, path, name):
    header, arrays = json.loads(parts[0]), parts[1]
    del header["model"][name]
    refused(path, header, arrays)


@pytest.mark.parametrize("name", ["target_std", "persistence_std", "ridge.std", "carrier.std"])
def test_deviations_must_not_be_negative(parts, path, name):
    header, arrays = json.loads(parts[0]), {k: np.array(v) for k, v in parts[1].items()}
    arrays[f"state.{name}"].reshape(-1)[0] = -1.0
    refused(path, header, arrays)


def test_a_template_that_could_not_be_loaded_is_not_saved(path):
    forecaster = Forecaster("load", lag=5, model=small()).fit(hourly())
    forecaster.model.set_params(encoder__hidden="many")
    with pytest.raises(ArtifactError, match="hidden is 'many', expected int"):
        save(forecaster, path)
    assert not path.exists()
