"""The estimators under scikit-learn's own checks, and their options by nested names."""

from __future__ import annotations

import inspect

import gpytorch
import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

from seqgp import GP, GRU, LSTM, NARX, RNN, Encoder, SequenceGP, SequenceNet, Training
from seqgp.encoders import Given
from seqgp.likelihoods import Gaussian

SAME = dict(random_state=0, progress=False)
ENCODERS = [LSTM(hidden=4), GRU(hidden=4), RNN(hidden=4), NARX(hidden=4)]


def waves(n=90, lag=10, seed=0):
    rng = np.random.default_rng(seed)
    x = np.sin(np.arange(n + lag) / 3.0) + 0.05 * rng.standard_normal(n + lag)
    X = np.stack([x[i : i + lag] for i in range(n)])[:, :, None]
    return X, 5.0 + 3.0 * X[:, -1, 0] ** 2 + 0.1 * rng.standard_normal(n)


def estimators():
    training = Training(epochs=2)
    for encoder in ENCODERS:
        yield SequenceGP(encoder, training=training, **SAME)
        yield SequenceNet(encoder, mean="linear", training=training, **SAME)
    yield SequenceGP(LSTM(hidden=4, skip=True), readout=True, training=training, **SAME)
    yield SequenceGP(GRU(hidden=4), GP(inference="grid", grid_size=20), training=training, **SAME)


def not_for_torch(estimator):
    """joblib, with which options before and after fit are compared, hashes no copy of a tensor alike."""
    if isinstance(getattr(estimator, "gp", None), GP):
        return {"check_estimators_overwrite_params": "see test_fit_leaves_all_options_as_they_were"}
    return {}


@parametrize_with_checks(list(estimators()), expected_failed_checks=not_for_torch)
def test_scikit_learn_estimator_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("kind", [SequenceGP, SequenceNet])
def test_clones_have_equal_options_and_share_none(kind):
    one = kind(LSTM(hidden=8), training=Training(epochs=2), **SAME)
    two = clone(one)
    assert repr(two) == repr(one)
    ours, theirs = one.get_params(), two.get_params()
    assert ours.keys() == theirs.keys()
    assert ours["encoder"] is not theirs["encoder"]
    assert ours["training"] is not theirs["training"]
    two.set_params(encoder__hidden=16, training__epochs=5)
    assert (one.encoder.hidden, one.training.epochs) == (8, 2)
    X, y = waves()
    np.testing.assert_array_equal(one.fit(X, y).predict(X), clone(one).fit(X, y).predict(X))


def test_a_clone_of_a_gp_has_its_options_and_not_what_was_trained():
    kernel = gpytorch.kernels.RBFKernel(ard_num_dims=2)
    gp = GP(kernel, inference="exact", likelihood=Gaussian(noise=0.3), grid_size=9)
    with torch.no_grad():
        gp.likelihood.set_noise(0.7)
    again = clone(gp)
    assert again is not gp
    assert float(again.noise.detach()) == pytest.approx(0.3)
    own = again.get_params(deep=False)
    assert own["kernel"] is not kernel
    assert (own["inference"], own["latent_dim"], own["outputs"], own["grid_size"]) == (
        "exact",
        2,
        1,
        9,
    )
    assert own["likelihood"].get_params() == {"noise": 0.3, "outputs": 1}


@pytest.mark.parametrize("kind", [SequenceGP, SequenceNet])
def test_nested_names_where_shorthands_stand(kind):
    model = kind(**SAME)
    names = dict(training__lr=0.5, training__epochs=1, encoder__hidden=7, encoder__skip=True)
    if kind is SequenceGP:
        names |= dict(gp__latent_dim=3, gp__inference="exact")
    assert model.set_params(**names) is model
    found = model.get_params()
    assert {name: found[name] for name in names} == names
    assert isinstance(model.encoder, LSTM)
    assert isinstance(model.training, Training)
    X, y = waves(60)
    member = model.fit(X, y).fitted_.members[0]
    assert member.network.width == 7 + 10
    if kind is SequenceGP:
        assert model.gp.options["kernel"] == "rbf"
        assert member.network.head.linear.out_features == 3
        assert member.layer.inference == "exact"


def test_nested_names_where_objects_stand():
    model = SequenceGP(GRU(hidden=8), GP("matern32", likelihood=Gaussian(0.2)), training=Training())
    model.set_params(
        encoder__dropout=0.1,
        gp__grid_size=30,
        gp__likelihood__noise=0.4,
        training__schedule="cosine",
    )
    assert (model.encoder.hidden, model.encoder.dropout) == (8, 0.1)
    assert isinstance(model.encoder, GRU)
    assert (model.gp.options["kernel"], model.gp.grid_size) == ("matern32", 30)
    assert float(model.gp.noise.detach()) == pytest.approx(0.4)
    assert model.training.schedule == "cosine"


def test_a_whole_object_and_its_own_options_at_once():
    model = SequenceGP().set_params(encoder=NARX(), encoder__hidden=3, gp="matern52", members=2)
    assert isinstance(model.encoder, NARX)
    assert model.encoder.hidden == 3
    assert (model.gp, model.members) == ("matern52", 2)
    model = SequenceGP().set_params(
        encoder="gru", encoder__hidden=3, gp="periodic", gp__latent_dim=1
    )
    assert isinstance(model.encoder, GRU)
    assert model.encoder.hidden == 3
    assert (model.gp.options["kernel"], model.gp.latent_dim) == ("periodic", 1)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("encoder__units", "Invalid parameter 'units' for estimator LSTM"),
        ("training__rate", "Invalid parameter 'rate' for estimator Training"),
        ("gp__lengthscale", "GP has no option 'lengthscale': use one of kernel, inference"),
        ("hidden", "Invalid parameter 'hidden' for estimator SequenceGP"),
        ("network__hidden", "Invalid parameter 'network' for estimator SequenceGP"),
    ],
)
def test_unknown_names_are_refused(name, message):
    with pytest.raises(ValueError, match=message):
        SequenceGP().set_params(**{name: 1})


def test_grid_search_over_nested_names():
    X, y = waves()
    model = SequenceGP(LSTM(hidden=4), training=Training(epochs=1), **SAME)
    grid = {"encoder__hidden": [2, 4], "training__lr": [1e-3, 1e-2], "gp__latent_dim": [1, 2]}
    search = GridSearchCV(model, grid, cv=2).fit(X, y)
    assert {name: search.best_params_[name] in values for name, values in grid.items()} == (
        dict.fromkeys(grid, True)
    )
    best = search.best_estimator_
    assert best.fitted_.members[0].network.width == search.best_params_["encoder__hidden"]
    assert best.fitted_.members[0].layer.latent_dim == search.best_params_["gp__latent_dim"]
    assert model.get_params()["gp"] == "rbf"  # the model that was given is as it was
    assert (model.encoder.hidden, model.training.lr) == (4, 1e-3)


def test_grid_search_over_whole_options_and_cross_validation():
    X, y = waves()
    model = SequenceGP(training=Training(epochs=1), **SAME)
    grid = {"encoder": [LSTM(hidden=2), NARX(hidden=2)], "mean": ["zero", "linear"]}
    search = GridSearchCV(model, grid, cv=2).fit(X, y)
    assert isinstance(search.best_params_["encoder"], LSTM | NARX)
    assert cross_val_score(model, X.reshape(len(X), -1), y, cv=TimeSeriesSplit(2)).shape == (2,)


def test_in_a_pipeline():
    X, y = waves()
    net = SequenceNet(lag=10, training=Training(epochs=1), **SAME)
    pipeline = make_pipeline(StandardScaler(), net).set_params(sequencenet__encoder__hidden=3)
    flat = X[:, :, 0]
    assert pipeline.fit(flat, y).predict(flat).shape == (90,)
    assert pipeline[-1].fitted_.members[0].network.width == 3


@pytest.mark.parametrize("kind", [SequenceGP, SequenceNet, GP, Training, LSTM, GRU, RNN, NARX])
def test_defaults_are_not_shared(kind):
    """No default is an object that one estimator could change for another."""
    for parameter in inspect.signature(kind).parameters.values():
        assert parameter.default is None or isinstance(
            parameter.default, bool | int | float | str
        ), parameter.name
    one, two = kind(), kind()
    for name, value in one.get_params().items():
        if not (value is None or isinstance(value, bool | int | float | str)):
            assert value is not two.get_params()[name], name


def test_two_estimators_do_not_change_one_another():
    one, two = SequenceGP(**SAME), SequenceGP(**SAME)
    one.set_params(training__epochs=1, encoder__hidden=3, gp__latent_dim=1)
    assert two.get_params() == SequenceGP(**SAME).get_params()
    assert SequenceGP().training is None
    assert Training().epochs == 100
    assert LSTM().hidden == 64


def test_fit_leaves_all_options_as_they_were():
    X, y = waves()
    gp = GP("matern52", inference="exact", likelihood=Gaussian(noise=0.2))
    model = SequenceGP(LSTM(hidden=3), gp, training=Training(epochs=2), **SAME)
    state = {name: value.clone() for name, value in gp.state_dict().items()}
    before = {k: v for k, v in model.get_params().items() if not isinstance(v, nn.Module)}
    model.fit(X, y)
    after = {k: v for k, v in model.get_params().items() if not isinstance(v, nn.Module)}
    assert after == before
    assert all(torch.equal(gp.state_dict()[name], value) for name, value in state.items())
    assert model.fitted_.members[0].layer is not gp


class _Flat(nn.Module):
    def forward(self, x):
        return x.flatten(1)


def test_a_module_of_ones_own_is_an_encoder_with_a_clone():
    module = _Flat()
    model = SequenceGP(module, training=Training(epochs=1), **SAME)
    assert isinstance(clone(model).encoder, _Flat)
    X, y = waves()
    np.testing.assert_array_equal(model.fit(X, y).predict(X), clone(model).fit(X, y).predict(X))
    given = Given(module)
    assert isinstance(given, Encoder)
    assert isinstance(clone(given).module, _Flat)
