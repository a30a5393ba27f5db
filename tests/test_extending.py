"""Encoders, kernels, likelihoods and inferences from outside the package: trained, saved, loaded."""

from __future__ import annotations

from dataclasses import dataclass

import gpytorch
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from seqgp import (
    GP,
    GRU,
    LSTM,
    ArtifactError,
    Encoder,
    SequenceGP,
    SequenceNet,
    Training,
    encoders,
    inference,
    info,
    kernels,
    likelihoods,
    load,
    save,
)
from seqgp.encoders import ENCODERS
from seqgp.gp import GPS
from seqgp.inference import INFERENCES, Exact, ExactPosterior
from seqgp.kernels import KERNELS
from seqgp.likelihoods import LIKELIHOODS, Gaussian, Likelihood

SAME = dict(random_state=0, progress=False)


@encoders.register("moving-average")
@dataclass(repr=False)
class MovingAverage(Encoder):
    """Averages over the last steps, through a layer of units."""

    units: int = 5
    steps: int | None = None
    rate: float = 0.0
    activation: str = "tanh"

    def build(self, features: int, lag: int) -> nn.Module:
        return _Average(features, self)


class _Average(nn.Module):
    def __init__(self, features: int, options: MovingAverage) -> None:
        super().__init__()
        self.steps = options.steps
        self.linear = nn.Linear(features, options.units)
        self.activation = {"tanh": nn.Tanh(), "relu": nn.ReLU()}[options.activation]
        self.dropout = nn.Dropout(options.rate)

    def forward(self, x: Tensor) -> Tensor:
        recent = x if self.steps is None else x[:, -self.steps :]
        return self.dropout(self.activation(self.linear(recent)).mean(1))


@kernels.register("test-rational-quadratic")
def rational_quadratic(dim: int, batch: torch.Size) -> gpytorch.kernels.Kernel:
    """For exact inference: no product over dimensions."""
    base = gpytorch.kernels.RQKernel(ard_num_dims=dim, batch_shape=batch)
    return gpytorch.kernels.ScaleKernel(base, batch_shape=batch)


@kernels.register("two-scales")
def two_scales(dim: int, batch: torch.Size) -> gpytorch.kernels.Kernel:
    """For a grid too: a sum of products."""
    both = []
    for lengthscale in (1.0, 0.2):
        base = gpytorch.kernels.RBFKernel(ard_num_dims=dim, batch_shape=batch)
        base.lengthscale = lengthscale
        both.append(gpytorch.kernels.ScaleKernel(base, batch_shape=batch))
    return both[0] + both[1]


@likelihoods.register("known-noise")
class KnownNoise(Likelihood):
    """Gaussian noise of a variance that is known, on the scale of standardised targets."""

    def __init__(self, variance: float = 0.05, outputs: int = 1) -> None:
        super().__init__(outputs=outputs, variance=variance)
        self.register_buffer("known", torch.full((outputs,), variance, dtype=torch.float64))

    @property
    def noise(self) -> Tensor:
        return self.known


@likelihoods.register("shared-noise")
class SharedNoise(Likelihood):
    """Gaussian noise of one variance for all outputs."""

    def __init__(self, outputs: int = 1) -> None:
        super().__init__(outputs=outputs)
        self.log_noise = nn.Parameter(torch.zeros((), dtype=torch.float64))

    @property
    def noise(self) -> Tensor:
        return (1e-6 + self.log_noise.exp()).expand(self.outputs)

    def initialise(self, y: Tensor) -> None:
        with torch.no_grad():
            self.log_noise.copy_(y.var(0).mean().log())


@inference.register("ordered")
class Ordered(Exact):
    """Exact inference on rows in the order of their first coordinate."""

    def statistics(self, H: Tensor, y: Tensor) -> inference.Rows:
        order = H[:, 0].argsort()
        return super().statistics(H[order], y[order])


def data(n=120, outputs=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 6, 2))
    y = np.tanh(X[:, -3:].mean(1)) + 0.2 * rng.standard_normal((n, 2))
    return X, y[:, 0] if outputs == 1 else y


def model(encoder=None, gp="rbf", kind=SequenceGP, **options):
    options |= dict(training=Training(epochs=3, lr=0.01)) | SAME
    if kind is SequenceGP:
        options["gp"] = gp
    return kind(MovingAverage() if encoder is None else encoder, **options)


def assert_same(one, other, X):
    for observed in (True, False):
        ours, theirs = (m.predict(X, return_std=True, observed=observed) for m in (one, other))
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(one.interval(X, 0.8), other.interval(X, 0.8))


ENCODER = MovingAverage(units=4, steps=3, rate=0.1, activation="relu")
MODELS = {
    "encoder": (model(ENCODER), 1),
    "encoder by name": (model("moving-average"), 2),
    "encoder of a plain network": (model(ENCODER, kind=SequenceNet), 1),
    "kernel": (model(GRU(hidden=4), "test-rational-quadratic"), 1),
    "kernel of two outputs": (model(gp=GP("test-rational-quadratic", inference="exact")), 2),
    "kernel on a grid": (model(gp=GP("two-scales", inference="grid", grid_size=20)), 2),
    "likelihood": (model(gp=GP(likelihood=KnownNoise(variance=0.3))), 2),
    "likelihood by name": (model(gp=GP(likelihood="known-noise")), 1),
    "likelihood on a grid": (
        model(gp=GP(inference="grid", grid_size=20, likelihood=SharedNoise())),
        2,
    ),
    "likelihood with a readout": (model(gp=GP(likelihood="shared-noise"), readout=True), 2),
    "inference": (model(gp=GP(inference="ordered")), 1),
    "all": (
        model(
            ENCODER, GP("two-scales", "grid", 1, grid_size=20, likelihood=SharedNoise()), members=2
        ),
        2,
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_it_trains_and_comes_back_from_a_file_bit_for_bit(name, tmp_path):
    estimator, outputs = MODELS[name]
    X, y = data(outputs=outputs)
    estimator.fit(X[:100], y[:100])
    if isinstance(estimator, SequenceGP):
        history = estimator.history_
        assert history.nlml.iloc[-1] < history.nlml.iloc[0]
    path = tmp_path / "m.seqgp"
    save(estimator, path)
    twin = load(path)
    assert repr(twin) == repr(estimator)
    assert_same(twin, estimator, X)
    for ours, theirs in zip(estimator.fitted_.members, twin.fitted_.members, strict=True):
        assert type(ours.layer) is type(theirs.layer)
        assert type(ours.network.encoder) is type(theirs.network.encoder)
    if isinstance(estimator, SequenceGP):
        for one in (estimator, twin):
            one.update(X[100:], y[100:])
        assert_same(twin, estimator, X)
    for one in (estimator, twin):
        one.refit(X, y)
    assert_same(twin, estimator, X)


def test_options_of_an_encoder_reach_the_network():
    X, y = data()
    network = model(ENCODER).fit(X, y).fitted_.members[0].network
    assert network.width == 4
    assert (network.encoder.steps, network.encoder.dropout.p) == (3, 0.1)
    searched = model("moving-average").set_params(encoder__units=7).fit(X, y)
    assert searched.fitted_.members[0].network.width == 7


def test_known_noise_is_kept_and_predicted():
    X, y = data(outputs=2)
    estimator = model(gp=GP(likelihood=KnownNoise(variance=0.3)), calibrate=False).fit(X, y)
    member = estimator.fitted_.members[0]
    assert member.layer.noise.tolist() == member.posterior.noise.tolist() == [0.3, 0.3]
    assert (estimator.history_.noise == 0.3).all()
    _, observed = estimator.predict(X, return_std=True)
    _, latent = estimator.predict(X, return_std=True, observed=False)
    noise = 0.3 * estimator.fitted_.y_scaler.scale**2
    np.testing.assert_allclose(observed**2 - latent**2, np.broadcast_to(noise, y.shape), rtol=1e-9)


def test_noise_of_all_outputs_is_learnt_together():
    X, y = data(outputs=2)
    shared, apart = (
        model(gp=GP(likelihood=name)).fit(X, y).fitted_.members[0].layer
        for name in ("shared-noise", "gaussian")
    )
    assert shared.noise[0] == shared.noise[1]
    assert apart.noise[0] != apart.noise[1]
    assert float(shared.noise.detach()[0]) != 1.0


@pytest.mark.parametrize("inference_name", ["exact", "grid"])
def test_a_likelihood_is_conditioned_with_as_the_package_s_own_of_equal_noise(inference_name):
    rng = np.random.default_rng(0)
    H, y = rng.uniform(-0.9, 0.9, (40, 2)), rng.standard_normal((40, 2))
    known = GP(inference=inference_name, outputs=2, likelihood=KnownNoise(0.2)).condition(H, y)
    own = GP(inference=inference_name, outputs=2, likelihood=Gaussian(0.2)).condition(H, y)
    h = torch.as_tensor(rng.uniform(-0.9, 0.9, (7, 2)))
    assert float(known.nlml.detach()) == pytest.approx(float(own.nlml.detach()), rel=1e-12)
    for ours, theirs in zip(known.predict(h, True), own.predict(h, True), strict=True):
        torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(
        known.loss(h, torch.as_tensor(y[:7])), own.loss(h, torch.as_tensor(y[:7]))
    )


def test_gradient_of_shared_noise_is_that_of_finite_differences():
    rng = np.random.default_rng(0)
    H, y = rng.uniform(-0.9, 0.9, (30, 2)), rng.standard_normal((30, 2))
    for name in ("exact", "grid"):
        gp = GP(inference=name, outputs=2, likelihood="shared-noise")
        gp.condition(H, y).nlml.backward()
        values = []
        for step in (1e-5, -1e-5):
            with torch.no_grad():
                gp.likelihood.log_noise.fill_(step)
                values.append(float(gp.condition(H, y).nlml))
        slope = (values[0] - values[1]) / 2e-5
        assert float(gp.likelihood.log_noise.grad) == pytest.approx(slope, rel=1e-5)


def test_an_inference_is_asked_for_statistics_and_posterior():
    X, y = data()
    ordered, exact = (model(gp=GP(inference=name)).fit(X, y) for name in ("ordered", "exact"))
    posterior = ordered.fitted_.members[0].posterior
    assert isinstance(posterior, ExactPosterior)
    assert bool((posterior.H[:, 0].diff() >= 0).all())
    # Rounding differs, and a few steps of training carry that on.
    np.testing.assert_allclose(ordered.predict(X), exact.predict(X), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("registry", "kind", "name", "estimator"),
    [
        (ENCODERS, "encoder", "moving-average", "encoder"),
        (ENCODERS, "encoder", "moving-average", "encoder by name"),
        (ENCODERS, "encoder", "moving-average", "encoder of a plain network"),
        (KERNELS, "kernel", "test-rational-quadratic", "kernel"),
        (KERNELS, "kernel", "two-scales", "kernel on a grid"),
        (LIKELIHOODS, "likelihood", "known-noise", "likelihood"),
        (LIKELIHOODS, "likelihood", "known-noise", "likelihood by name"),
        (INFERENCES, "inference", "ordered", "inference"),
    ],
)
def test_a_name_that_is_not_registered_is_refused(
    registry, kind, name, estimator, tmp_path, monkeypatch
):
    given, outputs = MODELS[estimator]
    path = tmp_path / "m.seqgp"
    X, y = data(60, outputs)
    save(given.fit(X, y), path)
    monkeypatch.delitem(registry._items, name)
    with pytest.raises(ArtifactError) as caught:
        load(path)
    said = str(caught.value)
    assert f"{kind}={name!r} is not known: use one of " in said
    assert "known once the module that registers it has been imported" in said
    assert "\n" not in said
    assert info(path)["kind"] == type(given).__name__  # which builds nothing


class Nameless(Encoder):
    def build(self, features: int, lag: int) -> nn.Module:
        return nn.Flatten()


class NamelessLikelihood(Gaussian):
    pass


class NamelessGP(GP):
    pass


@pytest.mark.parametrize(
    ("name", "estimator"),
    [
        ("encoder", model(Nameless())),
        ("encoder", model(nn.Flatten())),
        ("gp", model(gp=NamelessGP())),
        ("likelihood", model(gp=GP(likelihood=NamelessLikelihood()))),
        ("kernel", model(gp=GP(gpytorch.kernels.RBFKernel(), "exact"))),
    ],
)
def test_what_has_no_name_is_used_but_not_saved(name, estimator, tmp_path):
    X, y = data(60)
    estimator.fit(X, y)
    assert np.isfinite(estimator.predict(X)).all()
    with pytest.raises(
        ArtifactError, match=rf"^{name} is a \w+ object that has no registered name.*reg"
    ):
        save(estimator, tmp_path / "m.seqgp")
    assert list(tmp_path.iterdir()) == []


def test_a_name_is_taken_once():
    for registry, name in (
        (ENCODERS, "lstm"),
        (KERNELS, "rbf"),
        (LIKELIHOODS, "gaussian"),
        (GPS, "gp"),
    ):
        before = registry[name]
        with pytest.raises(
            ValueError, match=f"{registry.kind} '{name}' is registered already, by seqgp"
        ):
            registry.register(name)(Nameless)
        assert registry[name] is before
    assert ENCODERS.register("moving-average")(MovingAverage) is MovingAverage  # a cell run again
    assert ENCODERS["lstm"] is LSTM
