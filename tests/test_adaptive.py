"""Quantiles that follow drift: against a loop written by hand, their bound, and drift itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm, t

from seqgp import AdaptiveQuantiles, adaptive_quantiles

LEVELS = (0.025, 0.5, 0.975)


def by_hand(y, mean, std, level, start, rate, delay):
    """One level of one output, from the definition; before sorting."""
    given = []
    for now in range(len(y)):
        c = start
        for s in range(now - delay + 1):
            if not np.isnan(y[s]):
                c += rate * (level - ((y[s] - mean[s]) / std[s] <= given[s]))
        given.append(c)
    return mean + np.array(given) * std


@pytest.fixture
def stream(rng):
    mean, std = rng.standard_normal((80, 2)), np.exp(rng.standard_normal((80, 2)))
    y = mean + 2.0 * std * rng.standard_normal((80, 2))
    y[rng.random((80, 2)) < 0.1] = np.nan
    return y, mean, std


@pytest.mark.parametrize("delay", [1, 2, 7])
def test_it_is_the_loop_written_by_hand(stream, delay):
    y, mean, std = stream
    dof, rate = np.array([4.0, np.inf]), 0.2
    found = adaptive_quantiles(y, mean, std, LEVELS, dof, rate, delay)
    assert found.shape == (3, 80, 2)
    for j in range(2):
        starts = [
            t.ppf(q, 4) * np.sqrt(0.5) if np.isfinite(dof[j]) else norm.ppf(q) for q in LEVELS
        ]
        each = [
            by_hand(y[:, j], mean[:, j], std[:, j], level, start, rate, delay)
            for level, start in zip(LEVELS, starts, strict=True)
        ]
        np.testing.assert_allclose(found[..., j], np.sort(each, axis=0), rtol=1e-10, atol=1e-10)
        alone = adaptive_quantiles(y[:, j], mean[:, j], std[:, j], LEVELS, dof[j], rate, delay)
        np.testing.assert_allclose(alone, found[..., j], rtol=1e-12)


@pytest.mark.parametrize("delay", [1, 5])
def test_a_stream_is_the_whole_array(stream, delay):
    y, mean, std = stream
    whole = adaptive_quantiles(y, mean, std, LEVELS, [5.0, np.inf], delay=delay)
    one = AdaptiveQuantiles(LEVELS, [5.0, np.inf], delay=delay)
    for now in range(len(y)):
        if now >= delay:
            one.observe(y[now - delay], mean[now - delay], std[now - delay])
        np.testing.assert_allclose(one.quantiles(mean[now], std[now]), whole[:, now])
    several = AdaptiveQuantiles(LEVELS, [5.0, np.inf], delay=delay)
    several.observe(y[:-delay], mean[:-delay], std[:-delay])
    np.testing.assert_allclose(several.deviations, one.deviations)
    assert several.quantiles(mean, std).shape == (3, 80, 2)


def test_numbers_and_levels_in_any_order():
    stream = AdaptiveQuantiles(levels=(0.9, 0.1))
    high, low = stream.quantiles(1.0, 2.0)
    assert (high, low) == pytest.approx((1 + 2 * norm.ppf(0.9), 1 - 2 * norm.ppf(0.9)))
    assert stream.quantiles(np.zeros(4), 1.0).shape == (2, 4)
    stream.observe(np.nan, 1.0, 2.0)
    assert stream.quantiles(1.0, 2.0).tolist() == [high, low]
    stream.deviations[:] = 99.0  # a copy
    assert stream.quantiles(1.0, 2.0).tolist() == [high, low]
    stream.observe([5.0], [1.0], [2.0])
    assert (stream.quantiles(1.0, 2.0) > [high, low]).all()


@given(
    level=st.floats(0.01, 0.99),
    rate=st.floats(0.01, 3.0),
    delay=st.integers(1, 6),
    bound=st.floats(0.1, 5.0),
    errors=st.lists(st.floats(-1, 1), min_size=1, max_size=60),
)
def test_the_bound_holds_for_any_errors(level, rate, delay, bound, errors):
    u = bound * np.array(errors)
    check_bound(u, level, rate, delay, bound)


@given(
    level=st.floats(0.05, 0.95),
    rate=st.floats(0.05, 3.0),
    delay=st.integers(1, 6),
    up=st.integers(1, 40),
    down=st.integers(1, 40),
)
def test_the_bound_holds_against_an_adversary(level, rate, delay, up, down):
    """Who knows each quantile: just above it for a while, then at it or far below."""
    stream, bound, seen = AdaptiveQuantiles((level,), rate=rate, delay=delay), 2.0, []
    for now in range(150):
        if now >= delay:
            stream.observe(seen[now - delay], 0.0, 1.0)
        c = stream.deviations[0]
        above = now % (up + down) < up
        seen.append(float(np.clip(np.nextafter(c, np.inf) if above else c, -bound, bound)))
    check_bound(np.array(seen), level, rate, delay, bound)


def check_bound(u, level, rate, delay, bound):
    n = len(u)
    (quantile,) = adaptive_quantiles(u, np.zeros(n), np.ones(n), (level,), rate=rate, delay=delay)
    start = abs(norm.ppf(level))
    below = np.cumsum(u <= quantile)
    rows = np.arange(1, n + 1)
    most = (bound + start + delay * rate) / (rate * rows)
    assert (np.abs(below / rows - level) <= most + 1e-9).all()


@given(st.lists(st.floats(-3, 3), min_size=1, max_size=60), st.integers(1, 6))
def test_levels_cross_by_little_and_are_sorted(errors, delay):
    rate, levels, n = 1.5, (0.3, 0.5, 0.6), len(errors)
    stream = AdaptiveQuantiles(levels, rate=rate, delay=delay)
    for u in errors:
        stream.observe(u, 0.0, 1.0)
        c = stream.deviations
        assert (c[:-1] - c[1:] < delay * rate).all()
        assert (np.diff(stream.quantiles(0.0, 1.0)) >= 0).all()
    found = adaptive_quantiles(errors, np.zeros(n), np.ones(n), levels, rate=rate, delay=delay)
    assert (np.diff(found, axis=0) >= 0).all()


@pytest.mark.parametrize(
    "scale, shift",
    [(1.0, 0.0), (2.0, 0.0), (0.5, 0.0), (1.0, 1.0)],
    ids=["as predicted", "noise doubled", "noise halved", "bias"],
)
@pytest.mark.parametrize("delay", [1, 24])
def test_drift_is_followed(rng, scale, shift, delay):
    y = shift + scale * rng.standard_normal((2000, 20))
    low, high = adaptive_quantiles(y, np.zeros_like(y), np.ones_like(y), delay=delay)
    inside = (low <= y) & (y <= high)
    assert abs(inside.mean() - 0.95) < 0.02
    assert abs(inside[1500:].mean() - 0.95) < 0.01
    width = np.mean((high - low)[1500:]) / (2 * norm.ppf(0.975) * scale)
    assert 0.97 < width < (1.05 if scale >= 1 else 1.1)  # steps count for more in narrow intervals


@pytest.mark.parametrize("delay", [1, 3])
def test_no_truth_is_used_before_it_is_known(stream, delay):
    y, mean, std = stream
    changed = y.copy()
    changed[40] = mean[40] + 50 * std[40] * [1, -1]
    a, b = (adaptive_quantiles(each, mean, std, delay=delay) for each in (y, changed))
    np.testing.assert_array_equal(a[:, : 40 + delay], b[:, : 40 + delay])
    assert not np.allclose(a[:, 40 + delay], b[:, 40 + delay])
    same = y.copy()
    same[-delay:] = 1e9
    np.testing.assert_array_equal(a, adaptive_quantiles(same, mean, std, delay=delay))


def test_what_is_not_known_changes_nothing(stream):
    y, mean, std = stream
    none = adaptive_quantiles(np.full_like(y, np.nan), mean, std, LEVELS)
    for i, level in enumerate(LEVELS):
        np.testing.assert_allclose(none[i], mean + norm.ppf(level) * std, atol=1e-12)
    holes = mean.copy()
    holes[3:9, 0] = np.nan  # rows that were not predicted
    found = adaptive_quantiles(y, holes, std, LEVELS)
    assert np.isnan(found[:, 3:9, 0]).all()
    assert np.isfinite(found[:, 9:]).all()
    blind = y.copy()
    blind[3:9, 0] = np.nan
    expected = adaptive_quantiles(blind, mean, std, LEVELS)
    np.testing.assert_array_equal(found[:, 9:], expected[:, 9:])


@pytest.mark.parametrize(
    "options, words",
    [
        ({"levels": (0.5, 1.0)}, "between 0 and 1"),
        ({"levels": ()}, "between 0 and 1"),
        ({"rate": 0.0}, "positive number of deviations"),
        ({"rate": np.nan}, "positive number of deviations"),
        ({"delay": 0}, "at least 1"),
        ({"dof": 2.0}, "above 2"),
    ],
)
def test_bad_options_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        AdaptiveQuantiles(**options)


def test_bad_arrays_are_refused():
    stream = AdaptiveQuantiles()
    with pytest.raises(ValueError, match=r"shapes \(3, 2\).*give dof for each output"):
        stream.observe(np.zeros((3, 2)), np.zeros((3, 2)), np.ones((3, 2)))
    with pytest.raises(ValueError, match="expected all above 0"):
        stream.quantiles(0.0, 0.0)
    with pytest.raises(ValueError, match=r"shapes \(3,\), \(4,\)"):
        adaptive_quantiles(np.zeros(3), np.zeros(4), np.ones(3))
    with pytest.raises(ValueError, match=r"expected \(n,\) or \(n, outputs\)"):
        adaptive_quantiles(0.0, 0.0, 1.0)
