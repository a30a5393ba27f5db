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


@pytest.mark.parametrize("decay", [0.0, 1.5])
def test_equals_bayesian_ridge_of_scikit_learn(decay):
    X, y, new = problem()
    mean, variance = fit_mean("linear", X, y, decays=(decay,)).predict(new)
    # A coefficient of prior deviation u is u times one of deviation 1: scaled inputs say the same.
    unit = torch.arange(6, 0, -1.0, dtype=torch.float64)[:, None] ** -decay
    seen, asked = (X * unit).reshape(200, -1).numpy(), (new * unit).reshape(9, -1).numpy()
    for k in range(2):
        # flat hyper-priors; ours uses the intercept's variance too, theirs does not
        ridge = BayesianRidge(
            alpha_1=0, alpha_2=0, lambda_1=0, lambda_2=0, max_iter=3000, tol=1e-10
        ).fit(seen, y[:, k].numpy())
        expected, std = ridge.predict(asked, return_std=True)
        np.testing.assert_allclose(mean[:, k], expected, rtol=1e-4)
        epistemic = std**2 - 1 / ridge.alpha_ + 1 / ridge.alpha_ / 200
        np.testing.assert_allclose(variance[:, k], epistemic, rtol=0.01)


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
        float((fit_mean("linear", X, y, decays).predict(new)[0] - truth).square().mean())
        for decays in ((0.0,), means.DECAYS)
    )
    assert ours < 0.95 * plain
    assert ours == pytest.approx(0.01, rel=0.1)


def test_nothing_is_taken_from_steps_long_ago_that_count():
    rng = np.random.default_rng(0)
    X = torch.tensor(rng.standard_normal((300, 24, 1)))
    y = X[:, 0] + X[:, 12] + 0.1 * torch.tensor(rng.standard_normal((300, 1)))
    whole, plain = fit_mean("linear", X, y), fit_mean("linear", X, y, decays=(0.0,))
    torch.testing.assert_close(whole.weight, plain.weight)


def test_streaming_changes_nothing(monkeypatch):
    X, y, new = problem()
    whole = fit_mean("linear", X, y).predict(new)
    monkeypatch.setattr(means, "_CHUNK_VALUES", 100)
    parts = fit_mean("linear", X, y).predict(new)
    for a, b in zip(whole, parts, strict=True):
        torch.testing.assert_close(a, b)


def test_variance_covers_the_truth_where_data_is_short():
    """With fewer rows than coefficients the linear part must know that it does not know."""
    X, y, new = problem(n=8)
    few = fit_mean("linear", X, y).predict(new)[1]
    X, y, _ = problem(n=2000)
    many = fit_mean("linear", X, y).predict(new)[1]
    assert bool((few > 10 * many).all())


def test_noise_alone_gives_a_flat_line():
    X, y, new = problem()
    mean, _ = fit_mean("linear", X, torch.randn(200, 2, dtype=torch.float64)).predict(new)
    assert float(mean.abs().max()) < 0.5


def test_an_exactly_linear_target_is_recovered():
    X, y, new = problem(noise=0.0)
    mean, _ = fit_mean("linear", X, y).predict(X)
    torch.testing.assert_close(mean, y, rtol=1e-4, atol=1e-4)


def test_zero_and_unknown():
    X, y, new = problem()
    mean, variance = fit_mean("zero", X, y).predict(new)
    assert mean.shape == (9, 2)
    assert not mean.any()
    assert not variance.any()
    with pytest.raises(ValueError, match="mean='cubic' is not known"):
        fit_mean("cubic", X, y)
