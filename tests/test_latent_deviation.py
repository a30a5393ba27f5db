"""The deviation of the latent function is never larger than that of an observation."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqgp import GP, GRU, LSTM, NARX, RNN, Calibration, SequenceGP, SequenceNet, Training
from seqgp.calibration import NoiseNet
from seqgp.distributions import Gaussian, mixture

WIDTH = 3


def finite(low, high):
    return st.floats(low, high, allow_nan=False, allow_subnormal=False)


def columns(outputs, values):
    return st.lists(values, min_size=outputs, max_size=outputs).map(np.array)


def gaussians(rng, n, outputs, members):
    """A latent function and its observation, of an ensemble; some latent variances are zero."""
    latent, observed = [], []
    for _ in range(members):
        mean = torch.as_tensor(rng.standard_normal((n, outputs)))
        variance = torch.as_tensor(10.0 ** rng.uniform(-12, 2, (n, outputs)))
        variance[rng.random((n, outputs)) < 0.2] = 0.0
        noise = torch.as_tensor(10.0 ** rng.uniform(-6, 2, outputs))
        latent.append(Gaussian(mean, variance))
        observed.append(Gaussian(mean, variance + noise))
    return mixture(latent), mixture(observed)


def random_net(seed, inputs, outputs, size):
    torch.manual_seed(seed)
    net = NoiseNet(inputs, outputs)
    with torch.no_grad():
        for value in net.parameters():
            value.add_(size * torch.randn(value.shape))
        net.unit.abs_().clamp_min_(1e-3)
    return net.requires_grad_(False)


def check(calibration, latent, observed, features):
    inner = calibration(latent, features, observed=False)
    outer = calibration(observed, features, observed=True)
    np.testing.assert_array_equal(inner.mean, outer.mean)
    assert np.isfinite(outer.std).all()
    assert (inner.std >= 0.0).all()
    assert (inner.std <= outer.std).all()
    # One factor is on both variances.
    some = latent.variance.numpy() > 0
    ratio = latent.variance.numpy() / observed.variance.numpy()
    np.testing.assert_allclose((inner.std**2 / outer.std**2)[some], ratio[some], rtol=1e-9)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_of_any_calibration(data):
    outputs = data.draw(st.integers(1, 3))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    noise = None
    if data.draw(st.booleans()):
        seed, size = data.draw(st.integers(0, 1000)), data.draw(finite(0.0, 3.0))
        noise = random_net(seed, WIDTH + outputs, outputs, size)
    calibration = Calibration(
        shift=data.draw(columns(outputs, finite(-5.0, 5.0))),
        scale=data.draw(columns(outputs, finite(1e-4, 1e4))),
        trust=data.draw(columns(outputs, finite(0.0, 1.5))),
        dof=data.draw(columns(outputs, st.one_of(finite(2.1, 1e6), st.just(np.inf)))),
        noise=noise,
        steps=0 if noise is None else 25,
    )
    n = data.draw(st.integers(1, 20))
    latent, observed = gaussians(rng, n, outputs, data.draw(st.integers(1, 3)))
    check(calibration, latent, observed, torch.as_tensor(rng.standard_normal((n, WIDTH))))


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    outputs=st.integers(1, 2),
    n=st.integers(10, 600),
    heteroscedastic=st.booleans(),
    tails=st.sampled_from([2.5, 5.0, 1e6]),
    moved=finite(-2.0, 2.0),
)
def test_of_calibrations_fitted_to_residuals(seed, outputs, n, heteroscedastic, tails, moved):
    rng = np.random.default_rng(seed)

    def labelled():
        latent, observed = gaussians(rng, n, outputs, 1)
        features = torch.as_tensor(rng.standard_normal((n, WIDTH)))
        size = torch.exp(features[:, :1]) if heteroscedastic else torch.ones(n, 1)
        draws = torch.as_tensor(rng.standard_t(tails, (n, outputs)))
        y = observed.mean + observed.variance.sqrt() * size * draws + moved
        return latent, observed, features, y

    (_, train, seen, targets), (latent, observed, features, y) = labelled(), labelled()
    fitted = Calibration.fit(observed, y, features, train=(train, targets, seen))
    check(fitted, latent, observed, features)
    again = fitted.carried(train, observed, y, features)
    check(again, latent, observed, features)
    constant = Calibration.constant(observed, y, torch.full((outputs,), 3.0, dtype=torch.float64))
    check(constant, latent, observed, features)
    check(Calibration.none(outputs), latent, observed, features)


@st.composite
def models(draw):
    encoder = draw(st.sampled_from([LSTM, GRU, RNN, NARX]))(
        hidden=3, skip=draw(st.booleans()), dropout=draw(st.sampled_from([0.0, 0.3]))
    )
    training = Training(
        epochs=draw(st.integers(0, 2)), lr=0.02, pretrain_epochs=draw(st.integers(0, 1))
    )
    shared = dict(
        mean=draw(st.sampled_from(["zero", "linear"])),
        calibrate=draw(st.booleans()),
        validation_fraction=draw(st.sampled_from([0.0, 0.3])),
        members=draw(st.integers(1, 2)),
        random_state=draw(st.integers(0, 1000)),
        progress=False,
    )
    if draw(st.integers(0, 3)) == 0:
        return SequenceNet(encoder, training=training, **shared)
    kernel = draw(st.sampled_from(["rbf", "matern12", "matern52", "spectral-mixture"]))
    inference = draw(st.sampled_from(["exact", "grid"]))
    gp = GP(kernel, inference, latent_dim=draw(st.integers(1, 2)), grid_size=16)
    return SequenceGP(encoder, gp, readout=draw(st.booleans()), training=training, **shared)


@settings(max_examples=12, deadline=None)
@given(model=models(), outputs=st.integers(1, 2), seed=st.integers(0, 2**32), far=finite(0.0, 30.0))
def test_of_tiny_fits(model, outputs, seed, far):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((120, 5, 2))
    y = np.tanh(X[:, -1, :outputs]) + 0.2 * np.exp(X[:, -2, :1]) * rng.standard_normal(
        (120, outputs)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X[:80], y[:80])
        fits = [model.fitted_]
        if isinstance(model, SequenceGP):
            fits.append(model.fitted_.updated(X[80:100], y[80:100]))
        fits.append(model.refit(X[:100], y[:100]).fitted_)
    windows = np.concatenate([X, far + X[:20]])
    for fitted in fits:
        latent, observed = (fitted.predict(windows, kind) for kind in (False, True))
        np.testing.assert_array_equal(latent.mean, observed.mean)
        assert np.isfinite(observed.std).all()
        assert (observed.std > 0.0).all()
        assert (latent.std >= 0.0).all()
        assert (latent.std <= observed.std).all()
