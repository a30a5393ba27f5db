"""Model files: what comes back is what was saved, bit for bit; what cannot be saved says so."""

import builtins
import json
import os
import stat
import subprocess
import sys
from dataclasses import replace
from typing import get_args

import gpytorch
import numpy as np
import pandas as pd
import pytest
import torch
from seqgp.artifact import info, schema
from seqgp.artifact.container import read, write
from sklearn.base import clone
from torch import nn

import seqgp
from seqgp import ArtifactError, Forecaster, SequenceGP, SequenceNet, WindowSet, load, save
from seqgp.encoders import ENCODERS
from seqgp.forecasting import InputsOnly
from seqgp.kernels import KERNELS


def _data(outputs=1):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((70, 4, 2))
    y = np.tanh(X[:, -1]) @ np.array([[1.0, 0.5], [-0.5, 1.0]])[:, :outputs]
    y = y + 0.1 * rng.standard_normal(y.shape)
    # As a column-major array, the way a DataFrame gives it: the layout must not matter.
    return X, y[:, 0] if outputs == 1 else np.asfortranarray(y)


def _fitted(kind=SequenceGP, outputs=1, **options):
    X, y = _data(outputs)
    options = dict(hidden=4, epochs=1, random_state=0, progress=False, lr=0.01) | options
    return kind(**options).fit(X[:50], y[:50])


def _assert_same(model, twin, outputs=1):
    X, _ = _data(outputs)
    for observed in (True, False):
        pairs = zip(
            model.predict(X, return_std=True, observed=observed),
            twin.predict(X, return_std=True, observed=observed),
            strict=True,
        )
        for ours, theirs in pairs:
            np.testing.assert_array_equal(ours, theirs)
    assert twin.nlml_ == model.nlml_


def _assert_round_trip(model, path, outputs=1):
    save(model, path)
    twin = load(path)
    assert type(twin) is type(model)
    assert vars(twin).keys() == vars(model).keys()
    _assert_same(model, twin, outputs)
    if isinstance(model, SequenceGP):
        X, y = _data(outputs)
        _assert_same(model.update(X[50:], y[50:]), twin.update(X[50:], y[50:]), outputs)
    return twin


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.seqgp"


@pytest.mark.parametrize("inference", ["exact", "grid"])
@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_every_encoder_comes_back(encoder, skip, inference, path):
    model = _fitted(encoder=encoder, skip=skip, inference=inference, grid_size=16, layers=2)
    _assert_round_trip(model, path)


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("mean", ["zero", "linear"])
@pytest.mark.parametrize("inference", ["exact", "grid"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_every_kernel_and_mean_comes_back(kernel, inference, mean, outputs, path):
    model = _fitted(
        kernel=kernel, inference=inference, mean=mean, outputs=outputs, grid_size=12, epochs=0
    )
    _assert_round_trip(model, path, outputs)


@pytest.mark.parametrize(("inference", "rank"), [("exact", None), ("grid", 1)])
def test_correlated_outputs_come_back(inference, rank, path):
    model = _fitted(outputs=2, correlated=True, output_rank=rank, inference=inference, grid_size=16)
    twin = _assert_round_trip(model, path, outputs=2)
    X, _ = _data(outputs=2)
    pairs = zip(model.predict(X, return_cov=True), twin.predict(X, return_cov=True), strict=True)
    for ours, theirs in pairs:
        np.testing.assert_array_equal(ours, theirs)


def test_the_iterative_path_comes_back(path, monkeypatch):
    monkeypatch.setattr("seqgp.inference.grid.Grid.__init__.__defaults__", _small_rank())
    model = _fitted(inference="grid", kernel="matern12", grid_size=16)
    assert model.posterior_.diagnostics.method == "grid/iterative"
    _assert_round_trip(model, path)


def _small_rank():
    from seqgp.inference.grid import Grid

    defaults = list(Grid.__init__.__defaults__)
    defaults[defaults.index(512)] = 8  # rank_cap
    return tuple(defaults)


@pytest.mark.parametrize("mean", ["zero", "linear"])
@pytest.mark.parametrize("outputs", [1, 2])
def test_a_plain_network_comes_back(outputs, mean, path):
    _assert_round_trip(_fitted(SequenceNet, outputs, mean=mean), path, outputs)


def test_options_and_attributes_come_back(path):
    model = _fitted(
        epochs=3, validation_fraction=0.4, dropout=0.1, patience=5, inference="auto", lr=1, lag=4
    )
    twin = _assert_round_trip(model, path)
    assert twin.get_params() == model.get_params()
    pd.testing.assert_frame_equal(twin.history_, model.history_)
    assert twin.best_epoch_ == model.best_epoch_
    assert twin.n_rows_ == model.n_rows_ == 70
    assert twin.gp_.noise == model.gp_.noise
    X, y = _data()
    assert clone(twin).fit(X, y).nlml_ == clone(model).fit(X, y).nlml_


def test_a_model_saved_twice_is_the_same(path, tmp_path):
    save(_fitted(), path)
    save(load(path), tmp_path / "again.seqgp")
    (first, one), (second, two) = read(path), read(tmp_path / "again.seqgp")
    assert json.loads(first)["model"] == json.loads(second)["model"]
    assert one.keys() == two.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], two[name])


def test_column_names_come_back(path):
    X, y = _data()
    frame = pd.DataFrame(X.reshape(len(X), -1), columns=[f"c{k}" for k in range(8)])
    model = SequenceGP(hidden=4, epochs=1, lag=4, random_state=0).fit(frame, y)
    save(model, path)
    np.testing.assert_array_equal(load(path).predict(frame), model.predict(frame))
    with pytest.raises(ValueError, match="feature names"):
        load(path).predict(frame.rename(columns={"c0": "other"}))


def test_a_generator_as_random_state_comes_back_as_none(path):
    save(_fitted(random_state=np.random.RandomState(0)), path)
    assert load(path).random_state is None


def test_loading_and_saving_draw_no_random_numbers(path):
    model = _fitted()
    state = torch.random.get_rng_state()
    save(model, path)
    load(path)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_windows_are_not_in_the_file(path):
    save(_fitted(inference="grid", grid_size=12, mean="zero"), path)
    _, arrays = read(path)
    # With a grid nothing in the file but the training history has a length that grows with rows.
    assert 50 not in {size for value in arrays.values() for size in value.shape}


def test_a_model_of_another_device_loads_where_that_is_missing(path):
    save(_fitted(), path)
    text, arrays = read(path)
    header = json.loads(text)
    header["model"]["params"]["device"] = "cuda:3"
    write(path, {name: header[name] for name in ("made", "model")}, arrays)
    model = load(path)
    assert model.device == "cuda:3"
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    assert model.posterior_.noise.device.type == expected
    assert np.isfinite(model.predict(_data()[0])).all()


def test_loading_in_another_process_gives_the_same_numbers(path, tmp_path):
    model = _fitted()
    save(model, path)
    np.save(tmp_path / "X.npy", _data()[0])
    code = (
        "import sys, numpy as np, torch; torch.set_num_threads(1); import seqgp;"
        "model = seqgp.load(sys.argv[1]);"
        "np.save(sys.argv[3], model.predict(np.load(sys.argv[2]), return_std=True))"
    )
    files = [str(path), str(tmp_path / "X.npy"), str(tmp_path / "out.npy")]
    subprocess.run([sys.executable, "-c", code, *files], check=True)
    np.testing.assert_array_equal(
        np.load(tmp_path / "out.npy"), model.predict(_data()[0], return_std=True)
    )


# Forecasters.


def _frame(rows=90):
    rng = np.random.default_rng(2)
    time = pd.date_range("2024-03-28", periods=rows, freq="h", tz="Europe/Berlin", name="time")
    values = rng.standard_normal((rows, 3))
    frame = pd.DataFrame(values, time, columns=["load", "plan", "wind"])
    frame["load"] += np.sin(np.arange(rows) / 4)
    frame.iloc[5, 1] = np.nan
    return frame


_FORECASTERS = {
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


@pytest.mark.parametrize("options", _FORECASTERS.values(), ids=list(_FORECASTERS))
def test_forecasters_come_back(options, path):
    frame = _frame()
    model = SequenceGP(hidden=4, epochs=1, random_state=0, progress=False)
    forecaster = Forecaster(**options, lag=5, model=model).fit(frame.iloc[:70])
    forecaster.save(path)
    twin = load(path)
    assert type(twin) is Forecaster
    assert vars(twin).keys() == vars(forecaster).keys()
    assert twin.params().keys() == forecaster.params().keys()
    assert {**twin.params(), "model": None} == {**forecaster.params(), "model": None}
    assert twin.model.get_params() == model.get_params()
    assert twin.data_report_ == forecaster.data_report_
    pd.testing.assert_frame_equal(twin.history_, forecaster.history_, check_exact=True)
    _assert_same_forecasts(forecaster, twin, frame)
    if options.get("mode") != "simulation":
        more = frame.iloc[70:80]
        _assert_same_forecasts(forecaster.update(more), twin.update(more), frame)


def _assert_same_forecasts(forecaster, twin, frame):
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
    frame = _frame().reset_index(drop=True).dropna().reset_index(drop=True)
    model = SequenceNet(hidden=4, epochs=1, random_state=0, progress=False)
    forecaster = Forecaster("load", ["plan"], lag=5, mode="simulation", model=model).fit(frame)
    windows = WindowSet(
        frame[["plan"]].to_numpy(), frame["load"].to_numpy(), lag=5, mode="autoregression"
    )
    forecaster.model_ = InputsOnly.trained(model, 1, windows, windows)
    save(forecaster, path)
    twin = load(path)
    assert type(twin.model_) is InputsOnly
    assert vars(twin.model_).keys() == vars(forecaster.model_).keys()
    pd.testing.assert_frame_equal(twin.predict(frame), forecaster.predict(frame), check_exact=True)


def test_a_run_that_diverged_does_not_stop_saving(path):
    frame = _frame()
    model = SequenceNet(hidden=4, epochs=1, random_state=0, progress=False)
    forecaster = Forecaster("load", lag=5, model=model).fit(frame)
    forecaster.state_.simulation_scores["round 1"] = float("nan")
    save(forecaster, path)
    assert load(path).state_.simulation_scores == {"round 1": float("inf")}


# What is in the file.


def test_info_says_what_the_file_is(path):
    save(_fitted(epochs=3, validation_fraction=0.4), path)
    found = info(path)
    json.dumps(found, allow_nan=False)
    assert found["kind"] == "SequenceGP"
    assert found["made"]["seqgp"] == seqgp.__version__
    assert found["made"]["torch"] == torch.__version__
    assert found["bytes"] == path.stat().st_size
    assert (found["rows"], found["lag"], found["features"], found["outputs"]) == (50, 4, 2, 1)
    assert found["params"]["kernel"] == "rbf"
    model = load(path)
    assert found["parameters"] == sum(p.numel() for p in model.network_.parameters())
    at_best = model.history_.set_index("epoch").loc[model.best_epoch_]
    assert found["best"]["val_rmse"] == at_best["val_rmse"]
    assert found["nlml"] == model.nlml_


def test_info_of_a_forecaster_names_its_columns(path):
    model = SequenceNet(hidden=4, epochs=1, random_state=0, progress=False)
    Forecaster("load", ["plan"], lag=5, model=model).fit(_frame()).save(path)
    found = info(path)
    json.dumps(found, allow_nan=False)
    assert found["kind"] == "Forecaster"
    assert found["forecaster"]["target"] == "load"
    assert found["forecaster"]["inputs"] == ["plan"]
    assert found["data"]["missing_values"]["plan"] == 1
    assert found["params"]["kind"] == "SequenceNet"
    assert found["lag"] == 5


def test_the_schema_knows_every_option():
    for kind, params in ((SequenceGP, schema.GPParams), (SequenceNet, schema.NetParams)):
        assert params.model_fields.keys() - {"kind"} == kind().get_params().keys()
    fields = schema.GPParams.model_fields
    assert set(get_args(fields["kernel"].annotation)) == set(KERNELS)
    assert set(get_args(fields["encoder"].annotation)) == set(ENCODERS)
    assert schema.ForecasterParams.model_fields.keys() == Forecaster("y").params().keys()


# What cannot be saved.


class _Mean(nn.Module):
    def forward(self, x):
        return x.mean(1)


class _Own(SequenceGP):
    pass


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: _fitted(encoder=_Mean()), "encoder is a _Mean object.*no code"),
        (
            lambda: _fitted(kernel=gpytorch.kernels.RBFKernel(), inference="exact"),
            "kernel is a RBFKernel object",
        ),
        (SequenceGP, "SequenceGP is not fitted: call fit"),
        (lambda: Forecaster("y"), "Forecaster is not fitted"),
        (lambda: _fitted(_Own), "a _Own cannot be saved"),
        (lambda: {"weights": 1}, "a dict cannot be saved"),
        (lambda: _fitted().set_params(hidden=5), "changed after fit"),
        (lambda: _fitted().set_params(lr=-1.0), "lr=-1.0 must be a positive"),
        (lambda: _fitted().set_params(lr="fast"), "lr is 'fast'"),
        (lambda: _fitted().set_params(mean="zero"), "nothing asks for"),
        (
            lambda: _fitted(kernel="matern32").set_params(kernel="matern52"),
            "trained kernel is not the one",
        ),
    ],
)
def test_what_a_file_cannot_hold_is_refused(make, message, path):
    model = make()
    with pytest.raises(ArtifactError, match=message):
        save(model, path)
    assert not path.exists()


def test_weights_that_are_not_finite_are_refused(path):
    model = _fitted()
    with torch.no_grad():
        model.network_[1].linear.bias[0] = float("nan")
    with pytest.raises(ArtifactError, match=r"network\.1\.linear\.bias has values that are NaN"):
        save(model, path)


def test_a_path_that_cannot_be_a_file_is_refused(tmp_path):
    model = _fitted()
    with pytest.raises(ArtifactError, match="is a folder"):
        save(model, tmp_path)
    with pytest.raises(ArtifactError, match="there is no folder"):
        save(model, tmp_path / "nowhere" / "model.seqgp")


# Writing is all or nothing.


@pytest.mark.parametrize("step", ["replace", "fsync"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("before", [None, b"what was there"])
def test_a_failed_write_changes_nothing(step, error, before, path, monkeypatch):
    model = _fitted(epochs=0)
    if before is not None:
        path.write_bytes(before)

    def fail(*_):
        raise error

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(type(error)):
        save(model, path)
    assert [p.name for p in path.parent.iterdir()] == ([] if before is None else [path.name])
    assert before is None or path.read_bytes() == before


def test_a_new_file_replaces_the_old_and_is_readable_by_others(path):
    path.write_bytes(b"what was there")
    model = _fitted(epochs=0)
    save(model, str(path))
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask
    _assert_same(model, load(str(path)))


def test_nothing_is_unpickled(path, monkeypatch):
    save(_fitted(), path)

    def forbidden(*_, **__):
        raise AssertionError("a model file must not reach this")

    for name in ("eval", "exec"):
        monkeypatch.setattr(builtins, name, forbidden)
    monkeypatch.setattr("pickle.loads", forbidden)
    monkeypatch.setattr("pickle.load", forbidden)
    monkeypatch.setattr("torch.load", forbidden)
    load(path)


def test_a_readout_in_its_unit_a_shift_and_a_lowered_signal_come_back(tmp_path):
    """All decide predictions or what ``refit`` does, and none follows from the rest of the file."""
    model = _fitted(outputs=2, readout=True, pretrain_epochs=2, validation_fraction=0.4)
    said = replace(
        model.calibration_,
        quieter=np.array([1.0, 100.0]),
        slope=np.array([0.4, 1.0]),
        share=np.array([1.0, 0.6]),
        shift=np.array([0.3, -0.1]),
    )
    model.calibration_ = said
    model._condition()
    assert float(model.network_[1].readout.unit[0]) != 1.0
    path = tmp_path / "model.seqgp"
    save(model, path)
    twin = load(path)
    _assert_same(model, twin, outputs=2)
    torch.testing.assert_close(
        twin.network_[1].readout.unit, model.network_[1].readout.unit, rtol=0, atol=0
    )
    np.testing.assert_array_equal(twin.calibration_.quieter, said.quieter)
    np.testing.assert_array_equal(twin.calibration_.slope, said.slope)
    np.testing.assert_array_equal(twin.calibration_.share, said.share)
    np.testing.assert_array_equal(twin.calibration_.shift, said.shift)
    X, y = _data(2)
    np.testing.assert_array_equal(
        twin.refit(X[:50], y[:50]).predict(X), model.refit(X[:50], y[:50]).predict(X)
    )
    model.calibration_ = replace(said, quieter=np.array([1.0, 0.0]))
    with pytest.raises(ArtifactError, match="louder"):  # what is saved is made again first
        save(model, path)
    model.calibration_ = replace(said, slope=np.array([0.4, 1.5]))
    with pytest.raises(ArtifactError, match="not from 0 to 1"):
        save(model, path)
