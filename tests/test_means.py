from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import BayesianRidge

from seqgp import means
from seqgp.means import fit_mean


def problem(n=200, seed=0, noise=0.3):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 6, 2))
    weight = rng.standard_normal((12, 2))
    y = X.reshape(n, 12) @ weight + noise * rng.standard_normal((n, 2)) + [1.0, -2.0]
    return torch.tensor(X), torch.tensor(y), torch.tensor(rng.standard_normal((9, 6, 2)))


def line(X, y, asked, plain=False):
    """Mean and variance of the linear part at windows ``asked``."""
    found = fit_mean("linear", X, y, plain=plain).predict(asked)
    return found.mean, found.variance


def scikit_learn(seen, y, asked):
    """Means and variances of the line by BayesianRidge with flat hyper-priors."""
    ridge = BayesianRidge(
        alpha_1=0, alpha_2=0, lambda_1=0, lambda_2=0, max_iter=3000, tol=1e-10
    ).fit(seen, y)
    mean, std = ridge.predict(asked, return_std=True)
    # ours uses the intercept's variance too, theirs does not
    return mean, std**2 - 1 / ridge.alpha_ + 1 / ridge.alpha_ / len(y)


def test_plain_equals_bayesian_ridge_of_scikit_learn():
    X, y, new = problem()
    mean, variance = line(X, y, new, plain=True)
    for k in range(2):
        seen, asked = X.reshape(200, -1).numpy(), new.reshape(9, -1).numpy()
        expected = scikit_learn(seen, y[:, k].numpy(), asked)
        np.testing.assert_allclose(mean[:, k], expected[0], rtol=1e-4)
        np.testing.assert_allclose(variance[:, k], expected[1], rtol=0.01)


def prior_of(X, y):
    """The evidence as ``fit_mean`` sees it, and its maximum."""
    x = X.reshape(len(X), -1)
    x, y = x - x.mean(0), y - y.mean()
    prior = means._Prior(x.T @ x, x.T @ y, float(y @ y), len(y), X.shape[2])
    return prior, prior.search(1.0)


def test_the_prior_found_is_scikit_learns_too():
    """A coefficient of prior deviation u is u times one of deviation 1: scaled inputs say the same."""
    X, y, _ = problem()
    y = y + 3.0 * X[:, -1, :1] - X[:, 0, 1:]
    mean, variance = line(X, y, X)
    for k in range(2):
        prior, p = prior_of(X, y[:, k])
        seen = (X.reshape(200, -1) * prior.deviations(p)).numpy()
        expected = scikit_learn(seen, y[:, k].numpy(), seen)
        np.testing.assert_allclose(mean[:, k], expected[0], rtol=1e-3, atol=1e-3)
        # What two axes have in common is left out, which is nothing on average over these very rows.
        assert float(variance[:, k].mean()) == pytest.approx(expected[1].mean(), rel=0.01)
        np.testing.assert_allclose(variance[:, k], expected[1], rtol=0.5)


@pytest.mark.parametrize("p", [[0.3, 0.5, -1.0, 1.2], [-2.0, 0.0, 0.0, 0.0]])
def test_evidence_is_that_of_dense_algebra(p):
    X, y, _ = problem(n=40)
    x, t = X.reshape(40, -1) - X.reshape(40, -1).mean(0), y[:, 0] - y[:, 0].mean()
    prior = means._Prior(x.T @ x, x.T @ t, float(t @ t), 40, 2)
    unit = prior.deviations(np.array(p))
    assert float(unit[-1]) == pytest.approx(np.exp(p[0] + p[2]))
    assert float(unit[0]) == pytest.approx(np.exp(p[0] + p[1]) * 6.0 ** -p[3])
    covariance = torch.eye(40, dtype=torch.float64) + x @ torch.diag(unit.square()) @ x.T
    # At the noise of highest likelihood the quadratic form is n.
    noise = float(t @ torch.linalg.solve(covariance, t)) / 40
    dense = 20 * np.log(noise * 40) + 0.5 * float(torch.logdet(covariance))
    penalty = 0.5 * (p[1] ** 2 + p[2] ** 2) / 4
    assert prior.value(np.array(p))[0] == pytest.approx(dense + penalty, rel=1e-9)


def test_slope_of_the_evidence_is_that_of_finite_differences(monkeypatch):
    monkeypatch.setattr(means, "_ROUNDING", 1e-4)  # enough to be felt
    X, y, _ = problem(n=40)
    prior, _ = prior_of(X, y[:, 0])
    p = np.array([0.3, 0.5, -1.0, 1.2])
    for k, slope in enumerate(prior.value(p)[1]):
        step = 1e-5 * np.eye(4)[k]
        difference = (prior.value(p + step)[0] - prior.value(p - step)[0]) / 2e-5
        assert slope == pytest.approx(difference, rel=1e-5)


def test_columns_that_say_nothing_count_less():
    rng = np.random.default_rng(0)
    X = torch.tensor(rng.standard_normal((1060, 4, 10)))
    y = X[:, -1, :1] + 0.5 * X[:, -3, :1] + 0.3 * torch.tensor(rng.standard_normal((1060, 1)))
    plain, ours = (line(X[:60], y[:60], X[60:], plain)[0] for plain in (True, False))
    assert float((ours - y[60:]).std()) < 0.8 * float((plain - y[60:]).std())
    assert float((ours - y[60:]).std()) < 0.33


def test_each_output_has_a_prior_of_its_own():
    """Each of ten series is its own past: what one column says of its own output it says of no other."""
    rng = np.random.default_rng(1)
    X = torch.tensor(rng.standard_normal((1060, 4, 10)))
    y = X[:, -1] + 0.3 * torch.tensor(rng.standard_normal((1060, 10)))
    found, _ = line(X[:60], y[:60], X[60:])
    assert float((found - y[60:]).std()) < 0.34


def test_columns_that_repeat_one_another_do_no_harm():
    X, y, new = problem()
    X, new = (torch.cat([each, each.sum(2, keepdim=True), each], 2) for each in (X, new))
    plain, ours = (line(X, y, new, plain) for plain in (True, False))
    torch.testing.assert_close(ours[0], plain[0], rtol=0.05, atol=0.05)
    assert bool((ours[1] > 0).all())
    assert bool((ours[1] < 0.1).all())


def autoregressive(n, noise, seed=0, lag=24):
    """Windows of a series that only its last two values say something of."""
    rng = np.random.default_rng(seed)
    series = np.zeros(n + lag + 1)
    for t in range(2, len(series)):
        series[t] = 1.5 * series[t - 1] - 0.7 * series[t - 2] + noise * rng.standard_normal()
    X = np.stack([series[i : i + lag] for i in range(n)])[:, :, None]
    return torch.tensor(X), torch.tensor(series[lag : lag + n, None])


def test_steps_long_ago_count_less_where_the_evidence_says_so():
    X, y = autoregressive(150, 0.1)
    new, truth = autoregressive(1000, 0.1, seed=1)
    plain, ours = (
        float((line(X, y, new, plain)[0] - truth).square().mean()) for plain in (True, False)
    )
    assert ours < 0.95 * plain
    assert ours == pytest.approx(0.01, rel=0.1)


def test_nothing_is_taken_from_steps_long_ago_that_count():
    rng = np.random.default_rng(0)
    X = torch.tensor(rng.standard_normal((300, 24, 1)))
    y = X[:, 0] + X[:, 12] + 0.1 * torch.tensor(rng.standard_normal((300, 1)))
    whole, plain = fit_mean("linear", X, y), fit_mean("linear", X, y, plain=True)
    torch.testing.assert_close(whole.weight, plain.weight, rtol=1e-4, atol=1e-4)


def test_streaming_changes_nothing(monkeypatch):
    X, y, new = problem()
    whole = line(X, y, new)
    monkeypatch.setattr(means, "_CHUNK_VALUES", 100)
    parts = line(X, y, new)
    for a, b in zip(whole, parts, strict=True):
        torch.testing.assert_close(a, b)


def test_variance_covers_the_truth_where_data_is_short():
    """With fewer rows than coefficients the linear part must know that it does not know."""
    X, y, new = problem(n=8)
    few = line(X, y, new)[1]
    X, y, _ = problem(n=2000)
    many = line(X, y, new)[1]
    assert bool((few > 10 * many).all())


def test_noise_alone_gives_a_flat_line():
    X, y, new = problem()
    mean, _ = line(X, torch.randn(200, 2, dtype=torch.float64), new)
    assert float(mean.abs().max()) < 0.5


def test_an_exactly_linear_target_is_recovered():
    X, y, new = problem(noise=0.0)
    mean, _ = line(X, y, X)
    torch.testing.assert_close(mean, y, rtol=1e-4, atol=1e-4)


def test_zero_and_unknown():
    X, y, new = problem()
    found = fit_mean("zero", X, y).predict(new)
    assert found.mean.shape == found.variance.shape == (9, 2)
    assert not found.mean.any()
    assert not found.variance.any()
    with pytest.raises(ValueError, match="mean='cubic' is not known"):
        fit_mean("cubic", X, y)
