"""Rival error bars: their scores against numerical integration, their losses against the definition."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.integrate import quad

from paper.density import Density, DensityNetwork, VariationalHead
from paper.models import build, predictive_of
from paper.predictive import Empirical, Student, pit_error
from paper.rivals import (
    Ensemble,
    HeteroscedasticNet,
    MCDropout,
    SplitConformal,
    VariationalLastLayer,
)
from seqgp import Training, WindowSet, metrics
from seqgp.encoders import encode
from seqgp.training import Part, train

RECIPE = dict(encoder="gru", hidden=8, epochs=4, lr=1e-2)


@pytest.fixture(scope="module")
def parts():
    """Training, validation and test windows of a noisy wave; the targets ``(n,)``."""
    rng = np.random.default_rng(0)
    series = np.sin(np.arange(700) / 6) + 0.2 * rng.standard_normal(700)
    windows = WindowSet(series, series, lag=6)
    return [windows.subset(slice(*each)) for each in ((0, 300), (300, 450), (450, 690))]


def _crps_by_integration(law, y):
    below, _ = quad(lambda x: law.cdf(x) ** 2, -np.inf, y)
    above, _ = quad(lambda x: law.sf(x) ** 2, y, np.inf)
    return below + above


@pytest.mark.parametrize("dof", [2.5, 4.0, 30.0, 1e7, np.inf])
@pytest.mark.parametrize("y", [-3.0, 0.4, 1.7])
def test_scores_of_a_t_are_those_of_scipy(dof, y):
    mean, std = 0.4, 0.8
    one = Student(np.array([mean]), np.array([std]), dof)
    shrink = 1.0 if np.isinf(dof) else np.sqrt((dof - 2) / dof)
    law = stats.norm(mean, std) if np.isinf(dof) else stats.t(dof, mean, std * shrink)
    assert law.std() == pytest.approx(std)
    assert one.nlpd([y]) == pytest.approx(-law.logpdf(y), rel=1e-9)
    assert one.crps([y]) == pytest.approx(_crps_by_integration(law, y), rel=1e-6)
    assert one.pit([y])[0] == pytest.approx(law.cdf(y))
    assert np.ravel(one.interval(0.8)) == pytest.approx(law.ppf([0.1, 0.9]))
    assert one.nlpd([y], scale=2.0) == pytest.approx(one.nlpd([y]) - np.log(2.0))
    assert one.crps([y], scale=2.0) == pytest.approx(one.crps([y]) / 2.0)


def test_without_tails_a_t_is_exactly_the_gaussian_of_the_metrics(rng):
    y, mean = rng.standard_normal((2, 50, 2))
    std = np.exp(rng.standard_normal((50, 2)))
    one = Student(mean, std)
    assert one.nlpd(y) == metrics.nlpd(y, mean, std)
    assert one.crps(y) == metrics.crps(y, mean, std)
    np.testing.assert_array_equal(one.pit(y), metrics.pit(y, mean, std))
    mixed = Student(mean, std, np.array([np.inf, 5.0]))
    alone = [Student(mean[:, k], std[:, k], dof) for k, dof in enumerate((np.inf, 5.0))]
    each = [alone[k].crps(y[:, k]) for k in range(2)]
    assert mixed.crps(y) == pytest.approx(np.mean(each))
    with pytest.raises(ValueError, match="above 2"):
        Student(mean, std, 2.0)


def test_scores_of_an_empirical_distribution_by_brute_force(rng):
    mean, y = rng.standard_normal((2, 30, 2))
    residuals = np.round(rng.standard_normal((40, 2)), 1)  # with ties
    one = Empirical(mean, residuals)
    scale = np.array([1.0, 3.0])
    near = np.abs(residuals[None] - (y - mean)[:, None]).mean(1)
    apart = np.abs(residuals[:, None] - residuals[None]).mean((0, 1))
    assert one.crps(y, scale) == pytest.approx(np.mean((near - 0.5 * apart) / scale))
    below = (residuals[None] < (y - mean)[:, None]).sum(1)
    np.testing.assert_allclose(one.pit(y), (below + 0.5) / 41)
    low, high = one.interval(0.8)  # ⌈41 · 0.8⌉ = 33
    np.testing.assert_allclose(high - mean, np.tile(np.sort(np.abs(residuals), 0)[32], (30, 1)))
    np.testing.assert_allclose(mean - low, high - mean)
    assert np.isinf(one.interval(0.99)).all()
    assert np.isnan(one.nlpd(y))


def test_split_conformal_covers_what_it_promises_however_few_the_rows(rng):
    inside = []
    for _ in range(3000):
        draws = rng.standard_cauchy(20)  # exchangeable, and nothing more
        low, high = Empirical(np.zeros(1), draws[:19]).interval(0.9)
        inside.append(low[0] <= draws[19] <= high[0])
    assert np.mean(inside) == pytest.approx(0.9, abs=0.017)  # three standard errors


def test_split_conformal_of_a_network(parts):
    train, validation, test = parts
    fitted = SplitConformal(RECIPE, device="cpu").fit(train, validation)
    found = predictive_of(fitted, test)
    low, high = found.interval(0.9)
    assert np.mean((low <= test.y) & (test.y <= high)) == pytest.approx(0.9, abs=0.08)
    assert found.crps(test.y) < np.mean(np.abs(test.y - found.mean))


def test_a_heteroscedastic_network_finds_where_the_noise_is(rng):
    u = rng.uniform(-1, 1, 1202)
    deviation = np.where(u > 0, 1.0, 0.1)
    y = np.concatenate([[0.0, 0.0], u[:-2]]) + deviation * rng.standard_normal(1202)
    windows = WindowSet(u, y, lag=3, horizon=0)
    train, held, test = (
        windows.subset(slice(*rows)) for rows in ((0, 800), (800, 1000), (1000, None))
    )
    net = HeteroscedasticNet({**RECIPE, "epochs": 25}, device="cpu").fit(train, held)
    found = net.predictive(test)
    loud = deviation[test.time] > 0.5
    assert np.median(found.std[loud]) == pytest.approx(1.0, rel=0.25)
    assert np.median(found.std[~loud]) == pytest.approx(0.1, rel=0.5)
    constant = metrics.nlpd(test.y, found.mean, np.full(len(test), np.std(test.y - found.mean)))
    assert found.nlpd(test.y) < constant - 0.3


def test_a_rival_is_trained_as_the_estimator_is(parts):
    """The best of several restarts, the linear mean and the skip connection included."""
    training, validation, test = parts
    recipe = RECIPE | {"mean": "linear", "skip": True, "restarts": 2, "dropout": 0.1}
    ours = MCDropout(recipe | {"passes": 2}, 3, "cpu").fit(training, validation)
    theirs = build("gru", recipe, 3, "cpu").fit(training, validation=validation)
    inputs = ours._inputs(test)
    mean = ours.mean.predict(inputs).mean + encode(ours.network, inputs).offset
    found = ours.y_scaler.inverse(mean.numpy()[:, 0])
    np.testing.assert_allclose(found, theirs.predict(test), rtol=1e-12)


def _random_head(outputs=2, width=3):
    head = VariationalHead(width, outputs)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return head


@torch.no_grad()
def test_the_variational_loss_is_the_elbo():
    torch.manual_seed(0)
    head = _random_head()
    features, y = torch.randn(7, 3).double(), torch.randn(7, 2).double()
    mean, h = head(features)
    posterior = Density().posterior((h, y - mean))
    phi = torch.cat([features, torch.ones(7, 1)], dim=1)
    elbo = torch.zeros(())
    for k in range(2):
        S = head.factor()[k] @ head.factor()[k].T
        q = torch.distributions.MultivariateNormal(head.mean[k], S)
        prior = torch.distributions.MultivariateNormal(
            torch.zeros(4).double(), torch.eye(4).double()
        )
        sigma2 = (head.pace * head.log_noise[k]).exp()
        # E_q log N(y; wᵀφ, σ²) by samples that have q's mean and covariance exactly: it is quadratic.
        roots = 2.0 * head.factor()[k].T
        w = torch.cat([head.mean[k] + roots, head.mean[k] - roots])  # (8, 4), weights 1/8 each
        density = torch.distributions.Normal(phi @ w.T, sigma2.sqrt()).log_prob(y[:, k : k + 1])
        elbo = elbo + density.mean(1).sum() - torch.distributions.kl_divergence(q, prior)
    assert float(posterior.loss(h, y - mean).sum()) == pytest.approx(-float(elbo), rel=1e-9)
    assert float(posterior.nlml) == pytest.approx(-float(elbo), rel=1e-9)


def test_a_variational_layer_on_fixed_features_is_bayesian_linear_regression():
    torch.manual_seed(0)
    features = torch.randn(60, 2).double()
    y = features @ torch.tensor([[1.0], [-0.5]]).double() + 0.3 * torch.randn(60, 1).double()
    head, layer = _random_head(outputs=1, width=2), Density()
    optimiser = torch.optim.LBFGS(head.parameters(), max_iter=500, line_search_fn="strong_wolfe")

    def closure():
        optimiser.zero_grad()
        mean, h = head(features)
        loss = layer.posterior((h, y - mean)).nlml
        loss.backward()
        return loss

    optimiser.step(closure)
    phi = torch.cat([features, torch.ones(60, 1)], dim=1)
    sigma2 = (head.pace * head.log_noise).exp()
    covariance = torch.linalg.inv(torch.eye(3).double() + phi.T @ phi / sigma2)
    exact = phi @ (covariance @ phi.T @ y / sigma2)
    with torch.no_grad():
        mean, h = head(features)
        zero, variance = layer.posterior((h, y - mean)).predict(h)
    assert not zero.any()
    torch.testing.assert_close(mean, exact, atol=1e-4, rtol=0)
    torch.testing.assert_close(variance[:, 0], (phi @ covariance * phi).sum(1), atol=0, rtol=1e-2)
    assert float(sigma2.detach()) == pytest.approx(0.09, rel=0.4)


def test_weight_decay_leaves_variational_parameters_alone():
    torch.manual_seed(0)
    head = VariationalHead(3, 1)
    encoder = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3, 3))
    network = DensityNetwork(encoder, head)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    rows = Part(torch.zeros(20, 3, 1), torch.randn(20, 1).double())
    # One step, which moves a parameter by about 0.001, and with weight decay by a tenth besides. Inputs
    # are zero, so the weights of the linear layer have no gradient.
    train(network, Density(), rows, Training(epochs=1, batch_size=20, weight_decay=100.0, lr=1e-3))
    torch.testing.assert_close(
        encoder[1].weight, 0.9 * before["encoder.1.weight"], atol=1e-6, rtol=0
    )
    torch.testing.assert_close(head.mean, before["density.mean"], atol=2e-3, rtol=0)
    assert before["density.mean"].abs().max() > 0.1


def test_a_variational_last_layer_learns(parts):
    train, validation, test = parts
    net = VariationalLastLayer({**RECIPE, "epochs": 15}, device="cpu").fit(train, validation)
    found = predictive_of(net, test)
    assert metrics.r2(test.y, found.mean) > 0.8
    assert 0.1 < float(np.median(found.std)) < 0.5
    assert net.predictive(test, observed=False).std.max() < found.std.min()


def test_dropout_has_a_spread_which_a_seed_repeats(parts):
    train, validation, test = parts
    one, two = (
        MCDropout({**RECIPE, "passes": 10, "dropout": 0.2}, 3, "cpu").fit(train, validation)
        for _ in range(2)
    )
    found, again = predictive_of(one, test), predictive_of(two, test)
    np.testing.assert_array_equal(found.std, again.std)
    np.testing.assert_array_equal(found.mean, one.predictive(test).mean)
    assert one.noise > 0
    assert (found.std**2 > one.noise).all()
    assert np.std(found.std) > 0
    held = one.predictive(validation)
    assert np.mean(held.std**2) == pytest.approx(np.mean((validation.y - held.mean) ** 2))


def test_an_ensemble_is_one_gaussian_of_its_members_moments(parts):
    train, validation, test = parts
    one = Ensemble({**RECIPE, "members": 2}, 3, "cpu").fit(train, validation)
    assert [net.seed for net in one.nets] == [6, 7]
    found = predictive_of(one, test)
    a, b = (net.predictive(test) for net in one.nets)
    np.testing.assert_allclose(found.mean, (a.mean + b.mean) / 2)
    second = (a.std**2 + a.mean**2 + b.std**2 + b.mean**2) / 2
    np.testing.assert_allclose(found.std, np.sqrt(second - found.mean**2))
    assert not np.allclose(a.mean, b.mean)


def test_several_outputs_have_their_own_error_bars(parts, rng):
    wave = parts[0].y
    both = np.stack([wave, 100.0 * wave + 5.0], axis=1)
    windows = WindowSet(wave, both, lag=6)
    train, held = windows.subset(slice(0, 200)), windows.subset(slice(200, len(windows)))
    for kind in (HeteroscedasticNet, VariationalLastLayer, MCDropout, Ensemble, SplitConformal):
        more = {Ensemble: {"members": 2}, MCDropout: {"passes": 50, "dropout": 0.1}}.get(kind, {})
        found = kind({**RECIPE, "epochs": 2, **more}, device="cpu").fit(train, held)
        low, high = found.predictive(held).interval(0.8)
        assert low.shape == held.y.shape
        ratio = np.mean(high - low, axis=0)
        assert ratio[1] / ratio[0] == pytest.approx(100.0, rel=0.6)


def test_the_error_of_a_pit(rng):
    assert pit_error(rng.random(100_000)) < 0.005
    assert pit_error(np.zeros(10)) == pytest.approx(0.5)
    wide = stats.norm.cdf(0.5 * rng.standard_normal(10_000))
    assert 0.05 < pit_error(wide) < 0.25
