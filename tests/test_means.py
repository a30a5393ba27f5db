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


def test_equals_bayesian_ridge_of_scikit_learn():
    X, y, new = problem()
    mean, variance = fit_mean("linear", X, y).predict(new)
    for k in range(2):
        # flat hyper-priors; ours uses the intercept's variance too, theirs does not
        ridge = BayesianRidge(
            alpha_1=0, alpha_2=0, lambda_1=0, lambda_2=0, max_iter=3000, tol=1e-10
        ).fit(X.reshape(200, -1).numpy(), y[:, k].numpy())
        expected, std = ridge.predict(new.reshape(9, -1).numpy(), return_std=True)
        np.testing.assert_allclose(mean[:, k], expected, rtol=1e-4)
        epistemic = std**2 - 1 / ridge.alpha_ + 1 / ridge.alpha_ / 200
        np.testing.assert_allclose(variance[:, k], epistemic, rtol=0.01)


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
