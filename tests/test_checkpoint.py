"""Checkpoints: a fit that was interrupted ends with the numbers of one that was not, bit for bit."""

from __future__ import annotations

import os
import re
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from seqgp import (
    GP,
    GRU,
    LSTM,
    ArtifactError,
    Forecaster,
    SequenceGP,
    SequenceNet,
    Training,
    TrainingWarning,
    WindowSet,
    load,
    save,
)
from seqgp.inference import INFERENCES, Grid
from seqgp.training import Checkpoint

N, STEPS = 120, 6


class Killed(BaseException):
    """What ends a process, as far as the code inside can tell."""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fit.checkpoint"


def data(n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, STEPS, 2))
    return X, np.tanh(2 * X[:, -1, 0]) * X[:, -2, 1] + 0.1 * rng.standard_normal(n)


def model(kind=SequenceGP, encoder=None, training=None, **options):
    """A small one; ``training`` are options of it."""
    given = dict(epochs=4, batch_size=32, lr=0.01) | (training or {})
    common = dict(training=Training(**given), random_state=0, progress=False)
    return kind(LSTM(hidden=6) if encoder is None else encoder, **common | options)


def on_save(monkeypatch, called):
    """Call something with the epoch before each is written."""
    write = Checkpoint.save

    def save(self, state):
        called(int(state["history"][-1, 0]))
        write(self, state)

    monkeypatch.setattr(Checkpoint, "save", save)


def kill_after(monkeypatch, epochs):
    """Let the process die after so many epochs in all, when the next is nearly over."""
    left = iter(range(epochs))

    def called(epoch):
        if next(left, None) is None:
            raise Killed

    on_save(monkeypatch, called)


def fit(estimator, X, y, **how):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)
        return estimator.fit(X, y, **how)


def interrupted(monkeypatch, path, make, X, y, epochs, **how):
    """Fit, die after ``epochs``, fit again with what is left; the model, and what it did again."""
    with monkeypatch.context() as patch:
        kill_after(patch, epochs)
        with pytest.raises(Killed):
            fit(make(), X, y, checkpoint=path, **how)
    assert path.exists() == (epochs > 0)
    done = []
    with monkeypatch.context() as patch:
        on_save(patch, done.append)
        found = fit(make(), X, y, checkpoint=path, **how)
    assert os.listdir(path.parent) == []  # removed, and nothing left beside it
    return found, len(done)


def assert_same(found, expected, X):
    ours, theirs = found.fitted_, expected.fitted_
    assert len(ours.members) == len(theirs.members)
    for one, other in zip(ours.members, theirs.members, strict=True):
        pd.testing.assert_frame_equal(one.record.history, other.record.history, check_exact=True)
        for name in ("best_epoch", "pretrained_epochs", "seed"):
            assert getattr(one.record, name) == getattr(other.record, name)
        assert float(one.posterior.nlml) == float(other.posterior.nlml)
        for module in ("network", "layer"):
            values, expectations = (getattr(m, module).state_dict() for m in (one, other))
            assert list(values) == list(expectations)
            assert all(torch.equal(v, expectations[name]) for name, v in values.items())
    for name in ("shift", "scale", "trust", "dof", "scores"):
        values = (getattr(fitted.calibration, name) for fitted in (ours, theirs))
        np.testing.assert_array_equal(*values)
    for observed in (True, False):
        values = (each.predict(X, return_std=True, observed=observed) for each in (found, expected))
        np.testing.assert_array_equal(*values)


RICH = dict(
    encoder=LSTM(hidden=6, dropout=0.3, recurrent_dropout=0.2),
    training=dict(pretrain_epochs=2, schedule="cosine"),
    members=2,
    readout=True,
)


@pytest.mark.parametrize(
    "options",
    [
        dict(validation_fraction=0.0, training=dict(weight_decay=0.1, refresh=3)),  # stale
        dict(training=dict(refresh=7)),  # stale over the border of an epoch
        dict(training=dict(algorithm="alternating")),
        # θ has moved on from the posterior
        dict(training=dict(algorithm="full"), encoder=LSTM(hidden=6, dropout=0.2)),
        dict(gp=GP("spectral-mixture"), training=dict(theta_steps=0)),
        dict(gp=GP(inference="grid", grid_size=20), encoder=GRU(hidden=6, dropout=0.2, skip=True)),
    ],
)
def test_resumed_equals_uninterrupted(monkeypatch, path, options):
    X, y = data()
    expected = fit(model(**options), X, y)
    found, done = interrupted(monkeypatch, path, lambda: model(**options), X, y, 2)
    assert_same(found, expected, X)
    assert done == 2


def test_wherever_it_is_interrupted(monkeypatch, path):
    X, y = data()
    expected = fit(model(**RICH), X, y)
    # 2 epochs of pre-training and 4 of training, twice: in the middle and at the end of each.
    for epochs in (1, 2, 4, 6, 7, 9):
        found, done = interrupted(monkeypatch, path, lambda: model(**RICH), X, y, epochs)
        assert_same(found, expected, X)
        assert done == 12 - epochs


def test_writing_checkpoints_changes_nothing(path):
    X, y = data()
    assert_same(fit(model(**RICH), X, y, checkpoint=path), fit(model(**RICH), X, y), X)


@pytest.mark.parametrize(
    ("theta_steps", "refresh"),
    [
        (2, "epoch"),
        (0, "epoch"),
        (1, 20),  # never in four epochs: solves to evaluate follow one another
        (2, 3),  # every solve can start from the one before
    ],
)
def test_iterative_solves_resume_exactly(monkeypatch, path, theta_steps, refresh):
    """A rough kernel and few eigenvectors: conjugate gradients, which can start where others ended."""
    few = partial(Grid, solver="iterative", rank_cap=8, probes=4)
    monkeypatch.setitem(INFERENCES._items, "grid", few)
    X, y = data()
    gp = GP("matern12", inference="grid", grid_size=12)
    training = dict(epochs=3, theta_steps=theta_steps, refresh=refresh)
    expected = fit(model(gp=gp, training=training), X, y)
    assert expected.fitted_.members[0].posterior.diagnostics.method == "grid/iterative"
    found, _ = interrupted(monkeypatch, path, lambda: model(gp=gp, training=training), X, y, 2)
    assert_same(found, expected, X)


def test_a_plain_network_resumes(monkeypatch, path):
    X, y = data()
    y = np.stack([y, -y + X[:, 0, 0]], 1)
    options = dict(kind=SequenceNet, encoder=GRU(hidden=6, dropout=0.3), members=2, mean="linear")
    expected = fit(model(**options), X, y)
    found, done = interrupted(monkeypatch, path, lambda: model(**options), X, y, 5)
    assert_same(found, expected, X)
    assert done == 3


def test_windows_validation_and_patience(monkeypatch, path):
    rng = np.random.default_rng(0)
    windows = WindowSet(rng.standard_normal(200), rng.standard_normal(200), lag=5)
    train, held = windows.subset(slice(0, 120)), windows.subset(slice(120, None))
    options = dict(training=dict(epochs=30, lr=0.05, patience=3))
    expected = fit(model(**options), train, None, validation=held)
    total = len(expected.history_)
    assert total < 30
    make = lambda: model(**options)  # noqa: E731
    for epochs in (1, total - 1):
        found, done = interrupted(monkeypatch, path, make, train, None, epochs, validation=held)
        assert_same(found, expected, train)
        assert done == total - epochs


def test_stop_leaves_the_checkpoint_to_go_on_from(path):
    X, y = data()
    options = dict(members=2, encoder=LSTM(hidden=6, dropout=0.2))
    asked = iter(range(12))  # 4 mini-batches an epoch, not asked in the first
    stopped = fit(model(**options), X, y, checkpoint=path, stop=lambda: next(asked, None) is None)
    assert path.exists()
    assert len(stopped.history_) == 4
    assert_same(fit(model(**options), X, y, checkpoint=path), fit(model(**options), X, y), X)
    assert not path.exists()


class Bursting(nn.Module):
    """Not finite any more from a certain number of steps on; has what a state may hold."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2 * STEPS, 5)
        self.norm = nn.BatchNorm1d(5)
        self.register_buffer("mask", torch.tensor([True, False, True, True, True]))

    def forward(self, x):
        out = self.norm(self.linear(x.flatten(1))) * self.mask
        return out / (self.norm.num_batches_tracked < 10)


def test_divergence_and_foreign_encoders(monkeypatch, path):
    X, y = data()
    encoder = Bursting()
    make = lambda: model(encoder=encoder, members=2)  # noqa: E731
    expected = fit(make(), X, y)
    assert len(expected.history_) == 2
    for epochs in (1, 3):
        with monkeypatch.context() as patch:
            kill_after(patch, epochs)
            with pytest.raises(Killed):
                fit(make(), X, y, checkpoint=path)
        with pytest.warns(TrainingWarning, match="diverged"):
            found = make().fit(X, y, checkpoint=path)
        assert_same(found, expected, X)


def test_no_seed_goes_on_with_the_seed_of_the_checkpoint(monkeypatch, path):
    X, y = data()
    state = np.random.RandomState(3)
    expected = fit(model(members=2, random_state=np.random.RandomState(3)), X, y)
    make = lambda: model(members=2, random_state=state)  # noqa: E731
    found, _ = interrupted(monkeypatch, path, make, X, y, 3)
    assert_same(found, expected, X)


def left_after(monkeypatch, path, epochs=1, **options):
    with monkeypatch.context() as patch:
        kill_after(patch, epochs)
        with pytest.raises(Killed):
            fit(model(**options), *data(), checkpoint=path)
    return path.read_bytes()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            dict(training=dict(lr=0.02)),
            r"\(training__lr was 0.01 and is 0.02\): fit as then to go on, or delete it",
        ),
        (
            dict(encoder=LSTM(hidden=7), training=dict(epochs=5)),
            r"\(encoder__hidden was 6 and is 7, training__epochs was 4 and is 5\)",
        ),
        (
            dict(kind=SequenceNet),
            r"estimator was SequenceGP and is SequenceNet, gp was 'rbf' and is not there, mean was",
        ),
        (dict(random_state=1), r"\(random_state was 0 and is 1\)"),
        (dict(gp=GP("rbf", latent_dim=3)), r"\(gp was 'rbf' and is GP, gp__kernel was not there"),
        (dict(encoder=GRU(hidden=6)), r"\(encoder was LSTM and is GRU\)"),
        (
            dict(encoder=Bursting()),
            r"\(encoder was LSTM and is Bursting #\w+, encoder__dropout was",
        ),
    ],
)
def test_other_options_are_refused(monkeypatch, path, change, said):
    before = left_after(monkeypatch, path)
    with pytest.raises(ValueError, match=said):
        model(**change).fit(*data(), checkpoint=path)
    assert path.read_bytes() == before


def test_other_data_are_refused(monkeypatch, path):
    before = left_after(monkeypatch, path)
    X, y = data()
    other = y.copy()
    other[50] = np.nextafter(other[50], 1.0)
    with pytest.raises(ValueError, match=r"\(y was \(120,\) #\w+ and is \(120,\) #\w+\)"):
        model().fit(X, other, checkpoint=path)
    with pytest.raises(
        ValueError, match=r"\(X was \(120, 6, 2\) #\w+ and is \(119, 6, 2\) #\w+, y w"
    ):
        model().fit(X[1:], y[1:], checkpoint=path)
    with pytest.raises(ValueError, match=r"\(validation X was not there and is \(120, 6, 2\) #"):
        model().fit(X, y, validation=(X, y), checkpoint=path)
    assert path.read_bytes() == before


def test_damaged_and_foreign_files_are_refused(monkeypatch, path):
    whole = left_after(monkeypatch, path)
    with pytest.raises(ArtifactError, match="is a checkpoint of a fit that has not ended"):
        load(path)
    X, y = data()
    flipped = bytearray(whole)
    flipped[-100] ^= 1
    for raw in (bytes(flipped), whole[:-1], whole[:20], b"", b"a,b\n1,2\n", b"PK\x03\x04 and more"):
        path.write_bytes(raw)
        with pytest.raises(
            ValueError, match=r"damaged or no checkpoint \(.*\): delete it, or give"
        ):
            model().fit(X, y, checkpoint=path)
        assert path.read_bytes() == raw
    save(fit(model(training=dict(epochs=1)), X, y), path)
    with pytest.raises(
        ValueError, match="is a model file, expected a checkpoint: give another name"
    ):
        model().fit(X, y, checkpoint=path)
    path.unlink()
    path.mkdir()
    with pytest.raises(ValueError, match="is a folder"):
        model().fit(X, y, checkpoint=path)
    nowhere = path / "missing" / "file"
    with pytest.raises(
        ValueError, match=re.escape(f"there is no folder {nowhere.parent}: make it")
    ):
        model().fit(X, y, checkpoint=nowhere)


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_kill_while_writing_leaves_the_checkpoint_before(monkeypatch, path, call):
    X, y = data()
    left = iter(range(2))
    real = getattr(os, call)

    def dying(*args):
        if next(left, None) is None:
            raise Killed
        real(*args)

    with monkeypatch.context() as patch:
        patch.setattr(os, call, dying)
        with pytest.raises(Killed):
            fit(model(encoder=LSTM(hidden=6, dropout=0.2)), X, y, checkpoint=path)
    done = []
    on_save(monkeypatch, done.append)
    found = fit(model(encoder=LSTM(hidden=6, dropout=0.2)), X, y, checkpoint=path)
    assert done == [3, 4]
    assert_same(found, fit(model(encoder=LSTM(hidden=6, dropout=0.2)), X, y), X)


def test_a_forecaster_passes_it_on(monkeypatch, path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"y": np.sin(np.arange(120) / 3) + 0.1 * rng.standard_normal(120)})
    expected = Forecaster("y", lag=4, model=model()).fit(frame)
    with monkeypatch.context() as patch:
        kill_after(patch, 2)
        with pytest.raises(Killed):
            Forecaster("y", lag=4, model=model()).fit(frame, checkpoint=path)
    assert path.exists()
    found = Forecaster("y", lag=4, model=model()).fit(frame, checkpoint=path)
    pd.testing.assert_frame_equal(found.predict(frame), expected.predict(frame), check_exact=True)
    assert not path.exists()
    free = Forecaster("y", lag=4, mode="simulation", model=model())
    with pytest.raises(ValueError, match=r"trains several models .*leave checkpoint out"):
        free.fit(frame, checkpoint=path)
