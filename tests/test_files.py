"""Model files: what comes back is what was saved, bit for bit; what cannot be saved says so."""

from __future__ import annotations

import builtins
import json
import os
import stat
import subprocess
import sys
from dataclasses import replace

import gpytorch
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from torch import nn

import seqgp
from seqgp import (
    GP,
    LSTM,
    NARX,
    ArtifactError,
    Encoder,
    SequenceGP,
    SequenceNet,
    Training,
    info,
    load,
    save,
)
from seqgp.encoders import ENCODERS
from seqgp.inference import GridPosterior
from seqgp.inference.grid import Grid
from seqgp.io import read, write
from seqgp.kernels import KERNELS
from seqgp.likelihoods import Gaussian

ENCODER_NAMES = [name for name in ENCODERS if ENCODERS[name].__module__.startswith("seqgp.")]
KERNEL_NAMES = [name for name in KERNELS if KERNELS[name].__module__ == "seqgp.kernels"]


def rows(outputs=1):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((70, 4, 2))
    y = np.tanh(X[:, -1]) @ np.array([[1.0, 0.5], [-0.5, 1.0]])[:, :outputs]
    y = y + 0.1 * rng.standard_normal(y.shape)
    # As a column-major array, the way a DataFrame gives it: the layout must not matter.
    return X, y[:, 0] if outputs == 1 else np.asfortranarray(y)


def make(kind=SequenceGP, epochs=1, training=None, **options):
    options = {
        "encoder": LSTM(hidden=4),
        "training": Training(**{"epochs": epochs, "lr": 0.01} | (training or {})),
        "random_state": 0,
        "progress": False,
    } | options
    return kind(**options)


def fitted(kind=SequenceGP, outputs=1, **options):
    X, y = rows(outputs)
    return make(kind, **options).fit(X[:50], y[:50])


def nlml(model):
    return [float(member.posterior.nlml) for member in model.fitted_.members]


def assert_same(model, twin, outputs=1):
    X, _ = rows(outputs)
    for observed in (True, False):
        ours, theirs = (each.fitted_.predict(X, observed) for each in (model, twin))
        for name in ("mean", "std", "dof"):
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    assert nlml(twin) == nlml(model)
    if model.fitted_.calibration.rows:
        for ours, theirs in zip(model.interval(X, 0.5), twin.interval(X, 0.5), strict=True):
            np.testing.assert_array_equal(ours, theirs)


def assert_round_trip(model, path, outputs=1):
    """The same predictions; after an update with more rows, and after a second training, too."""
    save(model, path)
    twin = load(path)
    assert type(twin) is type(model)
    assert vars(twin).keys() == vars(model).keys()
    assert_same(model, twin, outputs)
    X, y = rows(outputs)
    if isinstance(model, SequenceGP):
        assert_same(model.update(X[50:], y[50:]), twin.update(X[50:], y[50:]), outputs)
    return twin


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.seqgp"


# Every part comes back.


@pytest.mark.parametrize("inference", ["exact", "grid"])
@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("encoder", ENCODER_NAMES)
def test_every_encoder_comes_back(encoder, skip, inference, path):
    options = ENCODERS[encoder](hidden=4, layers=2, skip=skip)
    model = fitted(encoder=options, gp=GP(inference=inference, grid_size=16))
    assert_round_trip(model, path)


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("mean", ["zero", "linear"])
@pytest.mark.parametrize("inference", ["exact", "grid"])
@pytest.mark.parametrize("kernel", KERNEL_NAMES)
def test_every_kernel_and_mean_comes_back(kernel, inference, mean, outputs, path):
    gp = GP(kernel, inference=inference, grid_size=12)
    assert_round_trip(fitted(gp=gp, mean=mean, outputs=outputs, epochs=0), path, outputs)


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("inference", ["exact", "grid"])
def test_ensembles_come_back(inference, outputs, path):
    gp = GP(inference=inference, grid_size=12)
    model = fitted(gp=gp, members=3, outputs=outputs, validation_fraction=0.4)
    assert len(model.fitted_.members) > 1
    twin = assert_round_trip(model, path, outputs)
    assert len(twin.fitted_.members) == len(model.fitted_.members)
    for ours, theirs in zip(model.fitted_.members, twin.fitted_.members, strict=True):
        pd.testing.assert_frame_equal(ours.record.history, theirs.record.history)
        assert replace(ours.record, history=None) == replace(theirs.record, history=None)


@pytest.mark.parametrize("inference", ["exact", "grid"])
def test_a_readout_and_its_unit_come_back(inference, path):
    gp = GP(inference=inference, grid_size=12)
    settings = {"pretrain_epochs": 2}
    model = fitted(gp=gp, outputs=2, readout=True, training=settings, validation_fraction=0.4)
    assert float(model.fitted_.members[0].network.readout.unit[0]) != 1.0
    twin = assert_round_trip(model, path, outputs=2)
    X, y = rows(2)
    assert_same(model.refit(X[:50], y[:50]), twin.refit(X[:50], y[:50]), outputs=2)


@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize("mean", ["zero", "linear"])
@pytest.mark.parametrize("outputs", [1, 2])
def test_a_plain_network_comes_back(outputs, mean, members, path):
    model = fitted(SequenceNet, outputs, mean=mean, members=members, validation_fraction=0.4)
    twin = assert_round_trip(model, path, outputs)
    X, y = rows(outputs)
    assert_same(model.refit(X[:50], y[:50]), twin.refit(X[:50], y[:50]), outputs)


def test_one_column_of_targets_comes_back_as_one(path):
    X, y = rows()
    model = make().fit(X, y[:, None])
    save(model, path)
    assert load(path).predict(X).shape == (70, 1)
    np.testing.assert_array_equal(load(path).predict(X), model.predict(X))


def test_a_calibration_with_all_its_parts_comes_back(path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 4, 1))
    y = np.exp(0.8 * X[:, -1, 0]) * rng.standard_normal(2000) + np.where(
        np.arange(2000) < 1000, 0, 3
    )
    model = make(encoder=NARX(hidden=4), gp=GP(inference="grid", grid_size=12))
    with pytest.warns(seqgp.TrainingWarning):
        model.fit(X[:1000], y[:1000], validation=(X[1000:1700], y[1000:1700]))
    ours = model.fitted_.calibration
    assert ours.noise is not None
    assert ours.shift.any()
    assert np.isfinite(ours.dof).all()
    save(model, path)
    twin = load(path)
    theirs = twin.fitted_.calibration
    for name in ("shift", "scale", "trust", "dof", "steps", "rows", "scores"):
        np.testing.assert_array_equal(getattr(theirs, name), getattr(ours, name))
    assert not any(value.requires_grad for value in theirs.noise.parameters())
    for one, other in zip(model.predict(X, True), twin.predict(X, True), strict=True):
        np.testing.assert_array_equal(one, other)
    for each in (model, twin):
        each.update(X[1700:], y[1700:])
    np.testing.assert_array_equal(model.predict(X), twin.predict(X))


def test_the_iterative_path_comes_back(path, monkeypatch):
    defaults = list(Grid.__init__.__defaults__)
    defaults[defaults.index(512)] = 8  # the largest rank of the direct path
    monkeypatch.setattr(Grid.__init__, "__defaults__", tuple(defaults))
    model = fitted(gp=GP("matern12", inference="grid", grid_size=16))
    posterior = model.fitted_.members[0].posterior
    assert isinstance(posterior, GridPosterior)
    assert posterior.diagnostics.method == "grid/iterative"
    assert_round_trip(model, path)


def test_options_and_attributes_come_back(path):
    model = fitted(
        encoder=LSTM(hidden=4, dropout=0.1),
        gp=GP("matern32", likelihood=Gaussian(noise=0.3)),
        epochs=3,
        training={"patience": 5, "lr": 1},
        validation_fraction=0.4,
        lag=4,
    )
    twin = assert_round_trip(model, path)
    assert repr(twin) == repr(model)
    assert twin.get_params()["gp__likelihood__noise"] == 0.3
    assert twin.encoder == model.encoder
    assert twin.training.get_params() == model.training.get_params()
    pd.testing.assert_frame_equal(twin.history_, model.history_)
    assert twin.history_.epoch.dtype == np.int64
    assert twin.fitted_.rows == model.fitted_.rows == 70
    X, y = rows()
    assert nlml(clone(twin).fit(X, y)) == nlml(clone(model).fit(X, y))


@pytest.mark.parametrize("shorthand", [{"encoder": "gru", "gp": "matern52", "training": None}])
def test_shorthands_come_back_as_they_were_given(shorthand, path):
    model = make(**shorthand, calibrate=False).set_params(training__epochs=1)
    X, y = rows()
    model.set_params(training=None, encoder="gru")
    assert (model.encoder, model.gp, model.training) == ("gru", "matern52", None)
    model.fit(X, y, stop=lambda: True)
    save(model, path)
    twin = load(path)
    assert (twin.encoder, twin.gp, twin.training) == ("gru", "matern52", None)
    np.testing.assert_array_equal(twin.predict(X), model.predict(X))


def test_options_set_after_the_fit_are_saved_beside_those_of_the_fit(path):
    X, y = rows()
    model = fitted()
    before = model.predict(X)
    model.set_params(encoder__hidden=7, gp="matern12", mean="zero", training__lr=0.5)
    save(model, path)
    twin = load(path)
    assert (twin.encoder.hidden, twin.gp, twin.mean, twin.training.lr) == (
        7,
        "matern12",
        "zero",
        0.5,
    )
    np.testing.assert_array_equal(twin.predict(X), before)
    assert twin.fitted_.blueprint.encoder.hidden == 4
    assert_same(model.refit(X, y), twin.refit(X, y))


def test_a_model_saved_twice_is_the_same(path, tmp_path):
    save(fitted(validation_fraction=0.4), path)
    save(load(path), tmp_path / "again.seqgp")
    (first, one), (second, two) = read(path), read(tmp_path / "again.seqgp")
    assert json.loads(first)["model"] == json.loads(second)["model"]
    assert one.keys() == two.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], two[name])


def test_column_names_come_back(path):
    X, y = rows()
    frame = pd.DataFrame(X.reshape(len(X), -1), columns=[f"c{k}" for k in range(8)])
    model = make(lag=4).fit(frame, y)
    save(model, path)
    np.testing.assert_array_equal(load(path).predict(frame), model.predict(frame))
    with pytest.raises(ValueError, match="feature names"):
        load(path).predict(frame.rename(columns={"c0": "other"}))


def test_a_generator_as_random_state_comes_back_as_none(path):
    save(fitted(random_state=np.random.RandomState(0)), path)
    assert load(path).random_state is None


def test_numbers_of_numpy_are_numbers(path):
    model = fitted(
        encoder=LSTM(hidden=int(np.int64(4))),
        training={"lr": np.float32(0.01), "batch_size": np.int64(32)},
        random_state=np.int64(3),
        calibrate=np.bool_(True),
        device=torch.device("cpu"),
    )
    save(model, path)
    twin = load(path)
    assert (twin.random_state, twin.calibrate, twin.device) == (3, True, "cpu")
    assert twin.training.batch_size == 32
    assert_same(model, twin)


def test_loading_and_saving_draw_no_random_numbers(path):
    model = fitted(validation_fraction=0.4)
    state = torch.random.get_rng_state()
    save(model, path)
    load(path)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_windows_are_not_in_the_file(path):
    save(fitted(gp=GP(inference="grid", grid_size=12), mean="zero"), path)
    _, arrays = read(path)
    # With a grid nothing in the file but the training history has a length that grows with rows.
    assert 50 not in {size for value in arrays.values() for size in value.shape}


def test_a_model_of_another_device_loads_where_that_is_missing(path):
    save(fitted(), path)
    text, arrays = read(path)
    header = json.loads(text)
    header["model"]["options"]["device"] = "cuda:3"
    write(path, {name: header[name] for name in ("made", "model")}, arrays)
    model = load(path)
    assert model.device == "cuda:3"
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    assert model.fitted_.device.type == expected
    assert np.isfinite(model.predict(rows()[0])).all()


def test_loading_in_another_process_gives_the_same_numbers(path, tmp_path):
    model = fitted()
    save(model, path)
    np.save(tmp_path / "X.npy", rows()[0])
    code = (
        "import sys, numpy as np, torch; torch.set_num_threads(1); import seqgp;"
        "model = seqgp.load(sys.argv[1]);"
        "np.save(sys.argv[3], model.predict(np.load(sys.argv[2]), return_std=True))"
    )
    files = [str(path), str(tmp_path / "X.npy"), str(tmp_path / "out.npy")]
    subprocess.run([sys.executable, "-c", code, *files], check=True)
    np.testing.assert_array_equal(
        np.load(tmp_path / "out.npy"), model.predict(rows()[0], return_std=True)
    )


# What is in the file.


@pytest.mark.parametrize("kind", [SequenceGP, SequenceNet])
def test_info_says_what_the_file_is(kind, path):
    save(fitted(kind, epochs=3, validation_fraction=0.4), path)
    found = info(path)
    json.dumps(found, allow_nan=False)
    assert found["kind"] == kind.__name__
    assert found["made"]["seqgp"] == seqgp.__version__
    assert found["made"]["torch"] == torch.__version__
    assert found["bytes"] == path.stat().st_size
    assert (found["rows"], found["lag"], found["features"], found["outputs"]) == (50, 4, 2, 1)
    assert found["validation_rows"] == 20
    assert found["options"]["encoder"]["options"]["hidden"] == 4
    assert found["inference"] == ("exact" if kind is SequenceGP else "plain")
    model = load(path)
    (member,) = model.fitted_.members
    assert found["parameters"] == sum(p.numel() for p in member.network.parameters())
    at_best = model.history_.set_index("epoch").loc[member.record.best_epoch]
    (held,) = found["members"]
    assert held["best"]["val_rmse"] == at_best["val_rmse"]
    assert held["best_epoch"] == member.record.best_epoch
    assert held["nlml"] == float(member.posterior.nlml)


def test_info_counts_the_parameters_of_all_members(path):
    model = fitted(members=2, validation_fraction=0.4)
    save(model, path)
    found = info(path)
    sizes = [p.numel() for each in model.fitted_.members for p in each.network.parameters()]
    assert len(found["members"]) == len(model.fitted_.members) == 2
    assert found["parameters"] == sum(sizes)


# What cannot be saved.


class Mean(nn.Module):
    def forward(self, x):
        return x.mean(1)


class Own(SequenceGP):
    pass


class OwnEncoder(LSTM):
    pass


class OwnGP(GP):
    pass


class OwnLikelihood(Gaussian):
    pass


class Nested(Encoder):
    """An encoder whose option is code."""

    def __init__(self, activation=torch.tanh):
        self.activation = activation

    def build(self, features, lag):
        return nn.Flatten()


@pytest.mark.parametrize(
    "make_model, message",
    [
        (lambda: fitted(encoder=Mean()), "encoder is a Mean object that has no registered name"),
        (
            lambda: fitted(gp=GP(gpytorch.kernels.RBFKernel(), inference="exact")),
            "kernel is a RBFKernel object that has no registered name",
        ),
        (lambda: fitted(encoder=OwnEncoder()), "encoder is a OwnEncoder object"),
        (lambda: fitted(gp=OwnGP()), "gp is a OwnGP object"),
        (
            lambda: fitted(gp=GP(likelihood=OwnLikelihood())),
            "likelihood is a OwnLikelihood object",
        ),
    ],
)
def test_options_that_hold_code_are_refused(make_model, message, path):
    model = make_model()
    with pytest.raises(ArtifactError, match=f"{message}.*no code: use .*register its class"):
        save(model, path)
    assert not path.exists()


def test_an_option_of_an_option_that_is_code_is_refused(path, monkeypatch):
    monkeypatch.setattr(ENCODERS, "_items", ENCODERS._items | {"nested": Nested})
    with pytest.raises(ArtifactError, match="activation is a builtin_function_or_method object"):
        save(fitted(encoder=Nested()), path)
    assert not path.exists()


@pytest.mark.parametrize(
    "make_model, message",
    [
        (SequenceGP, "SequenceGP is not fitted: call fit"),
        (SequenceNet, "SequenceNet is not fitted: call fit"),
        (lambda: fitted(Own), "a Own cannot be saved"),
        (lambda: {"weights": 1}, "a dict cannot be saved"),
        (lambda: None, "a NoneType cannot be saved"),
        (lambda: fitted().set_params(training__lr=-1.0), "lr=-1.0 must be a positive"),
        (lambda: fitted().set_params(training__lr="fast"), "Training.lr is 'fast', expected float"),
        (lambda: fitted().set_params(mean="cubic"), "mean='cubic' is not known"),
        (lambda: fitted().set_params(encoder="transformer"), "encoder='transformer' is not known"),
        (lambda: fitted().set_params(encoder__hidden="many"), "hidden is 'many', expected int"),
        (lambda: fitted(progress=0), "progress is 0, expected bool"),
        (lambda: fitted(training={"patience": 2.5}), "patience is 2.5, expected int"),
    ],
)
def test_what_could_not_be_loaded_is_refused(make_model, message, path):
    model = make_model()
    with pytest.raises(ArtifactError, match=message):
        save(model, path)
    assert not path.exists()


def test_numbers_that_are_not_finite_are_refused(path):
    model = fitted()
    with torch.no_grad():
        model.fitted_.members[0].network.head.linear.bias[0] = float("nan")
    with pytest.raises(ArtifactError, match=r"network\.head\.linear\.bias has values that are NaN"):
        save(model, path)
    assert not path.exists()


def test_a_path_that_cannot_be_a_file_is_refused(tmp_path):
    model = fitted()
    with pytest.raises(ArtifactError, match="is a folder"):
        save(model, tmp_path)
    with pytest.raises(ArtifactError, match="there is no folder"):
        save(model, tmp_path / "nowhere" / "model.seqgp")


# Writing is all or nothing.


@pytest.mark.parametrize("step", ["replace", "fsync"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("before", [None, b"what was there"])
def test_a_failed_write_changes_nothing(step, error, before, path, monkeypatch):
    model = fitted(epochs=0)
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
    model = fitted(epochs=0)
    save(model, str(path))
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask
    assert_same(model, load(str(path)))


def test_nothing_is_unpickled_or_run(path, monkeypatch):
    save(fitted(), path)

    def forbidden(*_, **__):
        raise AssertionError("a model file must not reach this")

    def evaluated(code, *scope):
        # The package's own annotations are text until typing reads them.
        assert sys._getframe(1).f_globals["__name__"] == "typing", code
        return run(code, *scope)

    run = builtins.eval
    monkeypatch.setattr(builtins, "eval", evaluated)
    monkeypatch.setattr(builtins, "exec", forbidden)
    monkeypatch.setattr("pickle.loads", forbidden)
    monkeypatch.setattr("pickle.load", forbidden)
    monkeypatch.setattr("torch.load", forbidden)
    load(path)
