"""A linear readout of the encoder's features beside the GP."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from seqgp import GP, NARX, SequenceGP, Training, load, save
from seqgp.blueprint import Blueprint
from seqgp.encoders import Encoded, Network, ScaledLinear
from seqgp.fitted import Member, Record
from seqgp.training.surrogates import SURROGATES, FrozenPosterior


def make(epochs=3, hidden=16, training=None, **options):
    options = {
        "mean": "zero",
        "training": Training(epochs=epochs, lr=0.01, **(training or {})),
        "random_state": 0,
        "progress": False,
    } | options
    return SequenceGP(NARX(hidden=hidden), **options)


def rows(n=80, outputs=2, seed=0):
    draw = torch.Generator().manual_seed(seed)
    h = torch.rand(n, 2, generator=draw, dtype=torch.float64) * 1.8 - 0.9
    offset = torch.randn(n, outputs, generator=draw, dtype=torch.float64)
    y = offset + torch.sin(3 * h[:, :1]) + 0.1 * torch.randn(n, outputs, generator=draw)
    return Encoded(h, offset), y.double()


@pytest.mark.parametrize("inference", ["exact", "grid"])
def test_the_gp_is_about_the_residual_of_the_readout(inference):
    encoded, y = rows()
    gp, twin = (GP(inference=inference, outputs=2, grid_size=30) for _ in range(2))
    network = Network(nn.Flatten(), None, ScaledLinear(2, 2), 2)
    member = Member.conditioned(network, gp, encoded, y, Record(None, 0, 0, 0))
    alone = twin.condition(encoded.latent, y - encoded.offset)
    assert float(member.posterior.nlml) == pytest.approx(float(alone.nlml.detach()), rel=1e-12)
    new, _ = rows(20, seed=1)
    for observed in (True, False):
        found = member.predict(new, observed)
        mean, variance = alone.predict(new.latent, observed)
        torch.testing.assert_close(found.mean, mean + new.offset)
        torch.testing.assert_close(found.variance, variance)


def test_the_loss_trains_readout_and_latent_points():
    encoded, y = rows()
    left = y - encoded.offset
    posterior = GP(inference="grid", outputs=2).condition(encoded.latent, left)
    surrogate = FrozenPosterior(posterior, encoded.latent, left)
    h = encoded.latent[:10].clone().requires_grad_(True)
    offset = encoded.offset[:10].clone().requires_grad_(True)
    surrogate.loss(h, y[:10] - offset, torch.arange(10)).backward()
    slope = (posterior.mean(h.detach()) + offset.detach() - y[:10]) / posterior.noise.detach()
    torch.testing.assert_close(offset.grad, slope / 10)
    assert float(h.grad.abs().max()) > 0


def test_an_untrained_readout_adds_nothing():
    blueprint = Blueprint(NARX(), GP(), True, "zero", Training(), 1, True)
    network = blueprint.network(nn.Flatten(), 6, 3)
    latent, offset = network(torch.randn(5, 3, 2))
    assert latent.shape == (5, 2)
    assert offset.shape == (5, 3)
    assert float(offset.detach().abs().max()) == 0.0


def test_without_a_readout_the_offset_is_zero_and_nothing_is_trained_for_it():
    blueprint = Blueprint(NARX(), GP(), False, "zero", Training(), 1, True)
    network = blueprint.network(nn.Flatten(), 6, 3)
    assert network.readout is None
    assert network(torch.randn(5, 3, 2))[1].tolist() == [[0.0] * 3] * 5
    plain = Blueprint(NARX(), None, False, "zero", Training(), 1, True).network(nn.Flatten(), 6, 3)
    latent, offset = plain(torch.randn(5, 3, 2))
    assert latent.shape == (5, 0)
    assert float(offset.detach().abs().max()) > 0.0


def test_a_readout_computes_in_units_of_its_targets():
    readout = ScaledLinear(4, 2)
    y = torch.randn(50, 2, dtype=torch.float64) * torch.tensor([3.0, 1e-9])
    x = torch.randn(5, 4)
    plain = readout(x)
    readout.measure(y)
    unit = [float(y[:, 0].std(correction=0)), 1e-6]
    torch.testing.assert_close(readout(x), plain * torch.tensor(unit).double())


def many(n=700, outputs=6, seed=0):
    """Outputs that depend on as many directions of the window: two latent numbers cannot hold them."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 6, 1))
    mix = np.linalg.qr(rng.standard_normal((6, 6)))[0][:, :outputs]
    return X, np.tanh(X[:, :, 0] @ mix) + 0.05 * rng.standard_normal((n, outputs))


@pytest.mark.parametrize("pretrain_epochs", [0, 15])
def test_it_helps_where_outputs_do_not_fit_through_the_latent_space(pretrain_epochs):
    X, y = many()
    settings = {"pretrain_epochs": pretrain_epochs}
    narrow, wide = (
        make(20, 32, settings, readout=readout).fit(X[:500], y[:500]).score(X[500:], y[500:])
        for readout in (False, True)
    )
    assert wide > narrow + 0.1
    assert wide > 0.8


def test_it_is_saved_and_updated(tmp_path):
    X, y = many(200, outputs=2)
    model = make(readout=True).fit(X[:150], y[:150])
    model.update(X[150:], y[150:])
    assert model.fitted_.rows == 200
    save(model, tmp_path / "m.seqgp")
    twin = load(tmp_path / "m.seqgp")
    pairs = zip(twin.predict(X, return_std=True), model.predict(X, return_std=True), strict=True)
    for one, other in pairs:
        np.testing.assert_array_equal(one, other)
    nlml = [float(each.fitted_.members[0].posterior.nlml) for each in (twin, model)]
    assert nlml[0] == nlml[1]
    np.testing.assert_array_equal(twin.refit(X, y).predict(X), model.refit(X, y).predict(X))


def test_it_needs_the_loss_of_the_posterior(monkeypatch):
    X, y = many(40, outputs=2)
    monkeypatch.setitem(SURROGATES._items, "of a test", FrozenPosterior)
    with pytest.raises(ValueError, match="needs surrogate='posterior'"):
        make(readout=True, training={"surrogate": "of a test"}).fit(X, y)
    make(1, training={"surrogate": "of a test"}).fit(X, y)
