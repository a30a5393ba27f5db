"""Scores, against scikit-learn, scoringrules and simulation."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sk

from seqgp import metrics

_KEYS = [
    *("n", "rmse", "rmse_z", "mae", "nrmse", "r2", "nlpd", "crps"),
    *("cov50", "cov80", "cov95", "width50", "width80", "width95"),
]
_reasonable = st.floats(-1e3, 1e3)


@pytest.fixture
def predictions(rng):
    mean, std = rng.standard_normal(400), np.exp(rng.standard_normal(400))
    return mean + 1.3 * std * rng.standard_normal(400), mean, std


def test_errors_of_the_mean_are_those_of_scikit_learn(predictions):
    y, mean, _ = predictions
    assert metrics.mae(y, mean) == pytest.approx(sk.mean_absolute_error(y, mean), rel=1e-12)
    assert metrics.rmse(y, mean) == pytest.approx(sk.root_mean_squared_error(y, mean), rel=1e-12)
    assert metrics.r2(y, mean) == pytest.approx(sk.r2_score(y, mean), rel=1e-12)
    assert metrics.nrmse(y, mean) == pytest.approx(metrics.rmse(y, mean) / (max(y) - min(y)))


def test_outputs_are_normalised_one_by_one(rng):
    y, mean = rng.standard_normal((2, 50, 2)) * [1.0, 1000.0]
    assert metrics.r2(y, mean) == pytest.approx(sk.r2_score(y, mean), rel=1e-12)
    each = [metrics.nrmse(y[:, j], mean[:, j]) for j in range(2)]
    assert metrics.nrmse(y, mean) == pytest.approx(np.mean(each), rel=1e-12)


@given(y=_reasonable, mean=_reasonable, std=st.floats(1e-3, 1e3))
def test_crps_is_that_of_scoringrules(y, mean, std):
    scoringrules = pytest.importorskip("scoringrules")
    reference = float(scoringrules.crps_normal(y, mean, std))
    # The closed form subtracts terms of the size of the error; the reference does the same.
    assert metrics.crps([y], [mean], [std]) == pytest.approx(reference, rel=1e-9, abs=1e-9)


def test_crps_is_the_integral_of_pinball_losses():
    levels = (np.arange(4000) + 0.5) / 4000
    y, mean, std = 1.7, 0.4, 0.8
    losses = [metrics.pinball([y], [mean + std * _quantile(level)], level) for level in levels]
    assert metrics.crps([y], [mean], [std]) == pytest.approx(2 * np.mean(losses), rel=1e-4)


@given(y=_reasonable, q=_reasonable, level=st.floats(0.01, 0.99))
def test_pinball_is_that_of_scikit_learn(y, q, level):
    reference = sk.mean_pinball_loss([y], [q], alpha=level)
    assert metrics.pinball([y], [q], level) == pytest.approx(reference, rel=1e-12, abs=1e-15)


def test_width_and_coverage_agree_with_the_interval_of_scipy(predictions):
    y, mean, std = predictions
    for level in (0.5, 0.8, 0.95):
        low, high = (mean + std * _quantile(0.5 + side * level / 2) for side in (-1, 1))
        assert metrics.width(std, level) == pytest.approx(np.mean(high - low), rel=1e-12)
        inside = np.mean((low <= y) & (y <= high))
        assert metrics.coverage(y, mean, std, level) == pytest.approx(inside)


def test_coverage_error_is_the_spread_of_simulated_coverages(rng):
    n, level = 50, 0.8
    simulated = [
        metrics.coverage(rng.standard_normal(n), np.zeros(n), np.ones(n), level)
        for _ in range(2000)
    ]
    assert metrics.coverage_error(n, level) == pytest.approx(np.std(simulated), rel=0.08)


def test_sampling_error_of_autocorrelated_rows():
    rng = np.random.default_rng(0)
    shares, errors = [], []
    for _ in range(200):
        z = np.zeros(1600)
        noise = rng.standard_normal(1600)
        for t in range(1, 1600):
            z[t] = 0.8 * z[t - 1] + 0.6 * noise[t]
        share, error = metrics.observed_coverage(metrics.pit(z, 0 * z, 1.0), 0.8)
        shares.append(share)
        errors.append(error)
    assert np.mean(errors) == pytest.approx(np.std(shares), rel=0.25)
    assert metrics.coverage_error(1600, 0.8) < 0.7 * np.std(shares)


def test_pit_is_flat_when_calibrated_and_heaped_when_not(rng):
    y, zero, one = rng.standard_normal(20000), np.zeros(20000), np.ones(20000)
    edges, flat = metrics.pit_histogram(metrics.pit(y, zero, one))
    assert edges.shape == (21,)
    assert flat.shape == (20,)
    assert np.sum(flat * np.diff(edges)) == pytest.approx(1.0)
    np.testing.assert_allclose(flat, 1.0, atol=0.15)
    _, narrow = metrics.pit_histogram(metrics.pit(y, zero, one / 2))
    _, wide = metrics.pit_histogram(metrics.pit(y, zero, 2 * one))
    assert narrow[0] > 2 > 1 > narrow[9]
    assert wide[9] > 1.5 > 1 > wide[0]


def test_scores_have_all_keys_and_agree_with_the_single_functions(predictions):
    y, mean, std = predictions
    found = metrics.scores(y, mean, std, scale=2.5)
    assert list(found) == _KEYS
    assert found["n"] == 400
    assert found["rmse_z"] == pytest.approx(metrics.rmse(y, mean) / 2.5)
    assert found["nlpd"] == metrics.nlpd(y, mean, std)
    assert found["crps"] == metrics.crps(y, mean, std)
    assert found["cov80"] == metrics.coverage(y, mean, std, 0.8)
    assert found["width50"] == metrics.width(std, 0.5)


def test_a_constant_target_has_no_range_and_no_variance():
    found = metrics.scores([2.0, 2.0], [1.0, 2.0], [1.0, 1.0])
    assert math.isnan(found["nrmse"])
    assert math.isnan(found["r2"])
    assert found["rmse"] == pytest.approx(math.sqrt(0.5))


@pytest.mark.parametrize(
    "arguments, message",
    [
        (([1.0, 2.0], [1.0], [1.0]), "one shape"),
        (([], [], []), "at least one value"),
        (([np.nan, 1.0], [0.0, 0.0], [1.0, 1.0]), "y has 1 of 2 values that are NaN"),
        (([1.0], [np.inf], [1.0]), "mean has 1 of 1"),
        (([1.0], [0.0], [0.0]), "std has values down to 0"),
        (([1.0], [0.0], [1.0], 0.0), "scale=0.0"),
    ],
)
def test_scores_refuse_what_cannot_be_scored(arguments, message):
    with pytest.raises(ValueError, match=message):
        metrics.scores(*arguments)


@pytest.mark.parametrize(
    "call",
    [
        lambda: metrics.pinball([1.0], [1.0], 95),
        lambda: metrics.width([1.0], 1.0),
        lambda: metrics.coverage_error(10, 0.0),
        lambda: metrics.coverage_error(0, 0.5),
    ],
)
def test_levels_and_counts_are_checked(call):
    with pytest.raises(ValueError, match=r"must be between 0 and 1|at least one row"):
        call()


def _quantile(level):
    return NormalDist().inv_cdf(level)
