"""A linear readout of the encoder's features beside the GP."""

import numpy as np
import pytest
import torch
from seqgp.artifact import save

import seqgp
from seqgp import SequenceGP
from seqgp.encoders import ReadoutHead
from seqgp.gp import GP, OffsetGP

OPTIONS = dict(encoder="narx", hidden=16, mean="zero", lr=0.01, random_state=0, progress=False)


def rows(n=80, outputs=2, seed=0):
    draw = torch.Generator().manual_seed(seed)
    h = torch.rand(n, 2, generator=draw, dtype=torch.float64) * 1.8 - 0.9
    offset = torch.randn(n, outputs, generator=draw, dtype=torch.float64)
    y = offset + torch.sin(3 * h[:, :1]) + 0.1 * torch.randn(n, outputs, generator=draw)
    return h, offset, y.double()


@pytest.mark.parametrize("inference", ["exact", "grid"])
def test_it_is_a_gp_of_what_the_predictions_leave(inference):
    h, offset, y = rows()
    plain, about = (
        kind(inference=inference, latent_dim=2, outputs=2, grid_size=30) for kind in (GP, OffsetGP)
    )
    inner = plain.condition(h, y - offset)
    post = about.condition(torch.cat([h, offset], 1), y)
    assert float(post.nlml.detach()) == pytest.approx(float(inner.nlml.detach()), rel=1e-12)
    new, shift, targets = rows(20, seed=1)
    both = torch.cat([new, shift], 1)
    for observed in (True, False):
        mean, variance = post.predict(both, observed)
        expected, same = inner.predict(new, observed)
        torch.testing.assert_close(mean, expected + shift)
        torch.testing.assert_close(variance, same)
    torch.testing.assert_close(post.loss(both, targets), inner.loss(new, targets - shift))
    torch.testing.assert_close(post.covariance(both), inner.covariance(new))
    torch.testing.assert_close(post.output_covariance(both), inner.output_covariance(new))


def test_the_loss_trains_the_predictions_too():
    h, offset, y = rows()
    post = OffsetGP(inference="grid", latent_dim=2, outputs=2).condition(
        torch.cat([h, offset], 1), y
    )
    points = torch.cat([h, offset], 1)[:10].clone().requires_grad_(True)
    post.loss(points, y[:10]).sum().backward()
    mean, _ = post.predict(points.detach())
    slope = (mean - y[:10]) / post.noise.detach()
    torch.testing.assert_close(points.grad[:, 2:], slope)
    assert float(points.grad[:, :2].abs().max()) > 0


def test_an_untrained_readout_says_nothing():
    head = ReadoutHead(6, 2, 3)
    out = head(torch.randn(5, 6))
    assert out.shape == (5, 5)
    assert float(out[:, 2:].detach().abs().max()) == 0.0


def many(n=700, outputs=6, seed=0):
    """Outputs that depend on as many directions of the window: two latent numbers cannot hold them."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 6, 1))
    mix = np.linalg.qr(rng.standard_normal((6, 6)))[0][:, :outputs]
    return X, np.tanh(X[:, :, 0] @ mix) + 0.05 * rng.standard_normal((n, outputs))


@pytest.mark.parametrize("pretrain_epochs", [0, 15])
def test_it_helps_where_outputs_do_not_fit_through_the_latent_space(pretrain_epochs):
    X, y = many()
    options = OPTIONS | dict(epochs=20, hidden=32, pretrain_epochs=pretrain_epochs)
    narrow, wide = (
        SequenceGP(**options, readout=readout).fit(X[:500], y[:500]).score(X[500:], y[500:])
        for readout in (False, True)
    )
    assert wide > narrow + 0.1
    assert wide > 0.8


def test_it_is_saved_and_updated(tmp_path):
    X, y = many(200, outputs=2)
    model = SequenceGP(**OPTIONS, epochs=3, readout=True).fit(X[:150], y[:150])
    model.update(X[150:], y[150:])
    assert model.n_rows_ == 200
    save(model, tmp_path / "m.seqgp")
    twin = seqgp.load(tmp_path / "m.seqgp")
    for one, other in zip(
        twin.predict(X, return_std=True), model.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    assert twin.nlml_ == model.nlml_
    np.testing.assert_array_equal(twin.refit(X, y).predict(X), model.refit(X, y).predict(X))


@pytest.mark.parametrize("options", [dict(correlated=True), dict(surrogate="gradient")])
def test_what_it_cannot_be_combined_with(options):
    X, y = many(40, outputs=2)
    with pytest.raises(ValueError, match="a readout needs independent outputs"):
        SequenceGP(**OPTIONS, readout=True, **options).fit(X, y)
