"""Standardisation and splits in time order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqgp.data import Standardizer, WindowSet, split_in_time


def test_standardizer_matches_its_definition_and_inverts():
    values = np.random.default_rng(0).normal(3.0, [1.0, 50.0, 1e-3], size=(200, 3))
    z = Standardizer.fit(values)
    np.testing.assert_allclose(z.shift, values.mean(0))
    np.testing.assert_allclose(z.scale, values.std(0))
    out = z.transform(values)
    np.testing.assert_allclose(out.mean(0), 0, atol=1e-11)
    np.testing.assert_allclose(out.std(0), 1)
    np.testing.assert_allclose(z.inverse(out), values)
    np.testing.assert_allclose(z.inverse_std(np.ones(3)), values.std(0))


def test_standardizer_takes_any_leading_shape():
    values = np.random.default_rng(1).normal(size=(30, 2))
    z = Standardizer.fit(values)
    windows = values.reshape(3, 10, 2)
    np.testing.assert_array_equal(z.transform(windows), z.transform(values).reshape(3, 10, 2))
    np.testing.assert_array_equal(z.transform(values[0]), z.transform(values)[0])


def test_standardizer_of_a_flat_target():
    y = np.random.default_rng(2).normal(5, 2, size=100)
    z = Standardizer.fit(y)
    assert z.shift.shape == z.scale.shape == ()
    assert z.transform(y).std() == pytest.approx(1)
    np.testing.assert_allclose(z.inverse(z.transform(y)), y)
    np.testing.assert_allclose(z.inverse_std(np.full(4, 0.5)), y.std() / 2)


def test_constant_columns_get_scale_one():
    n = 100
    noise = np.random.default_rng(3).normal(size=n)
    values = np.stack([np.full(n, 0.1), 1e8 + 1e-8 * noise, np.zeros(n), noise], axis=1)
    z = Standardizer.fit(values)
    np.testing.assert_array_equal(z.scale[:3], 1.0)
    assert z.scale[3] != 1.0
    assert np.abs(z.transform(values)[:, :3]).max() < 1e-6
    assert Standardizer.fit(values[:1]).scale.tolist() == [1.0] * 4


def test_standardizer_is_frozen():
    z = Standardizer.fit(np.arange(6.0).reshape(3, 2))
    with pytest.raises(AttributeError):
        z.scale = np.ones(2)
    with pytest.raises(ValueError, match="read-only"):
        z.scale[0] = 2.0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros((2, 3, 4)), r"shape \(2, 3, 4\); expected \(n, k\) or \(n,\)"),
        (np.zeros((0, 3)), r"at least one row"),
        (np.array([[1.0], [np.nan]]), r"1 NaN or infinite"),
    ],
)
def test_standardizer_refuses(values, message):
    with pytest.raises(ValueError, match=message):
        Standardizer.fit(values)


def test_standardizer_refuses_other_columns_and_scales():
    z = Standardizer.fit(np.arange(6.0).reshape(3, 2))
    for method in (z.transform, z.inverse, z.inverse_std):
        with pytest.raises(ValueError, match=r"shape \(4, 3\); expected a last axis of 2"):
            method(np.zeros((4, 3)))
    with pytest.raises(ValueError, match="scale > 0"):
        Standardizer(np.zeros(2), np.zeros(2))
    with pytest.raises(ValueError, match="expected both"):
        Standardizer(np.zeros(2), np.ones(3))


@given(st.integers(1, 2000), st.lists(st.integers(1, 20), min_size=1, max_size=5))
def test_split_uses_every_row_once_in_order(n, weights):
    fractions = np.array(weights) / sum(weights)
    if (fractions * n < 1).any():
        return
    parts = split_in_time(n, fractions)
    np.testing.assert_array_equal(np.concatenate(parts), np.arange(n))
    for part, fraction in zip(parts, fractions, strict=True):
        assert abs(len(part) - fraction * n) <= 1


def test_split_default_is_the_papers():
    train, test, validation = split_in_time(1024)
    assert (train[0], train[-1], test[0], test[-1]) == (0, 460, 461, 921)
    assert (validation[0], validation[-1]) == (922, 1023)
    named = split_in_time(1024, {"train": 0.45, "test": 0.45, "validation": 0.1})
    assert list(named) == ["train", "test", "validation"]
    np.testing.assert_array_equal(named["test"], test)


@pytest.mark.parametrize(("lag", "horizon"), [(1, 1), (5, 1), (4, 3)])
def test_gap_separates_windows_from_the_targets_before(lag, horizon):
    series = np.arange(80.0)
    windows = WindowSet(series, series, lag=lag, horizon=horizon, mode="autoregression")

    def overlap(gap):
        before, after = split_in_time(windows, (0.5, 0.5), gap=gap)
        return windows[after][:, :, 0].min() <= windows.y[before].max()

    gap = lag + horizon - 1
    assert not overlap(gap)
    assert overlap(gap - 1)  # the documented gap is the smallest
    before, after = split_in_time(windows, (0.5, 0.5), gap=gap)
    assert len(before) + len(after) + gap == len(windows)


def test_several_series_are_split_one_by_one():
    x = [np.zeros(14), np.zeros(24)]
    windows = WindowSet(x, x, lag=3, horizon=2)  # 10 and 20 windows
    train, test = split_in_time(windows, (0.7, 0.3))
    np.testing.assert_array_equal(train, [*range(7), *range(10, 24)])
    np.testing.assert_array_equal(test, [*range(7, 10), *range(24, 30)])


def test_a_shuffled_subset_is_still_split_by_time():
    x = np.arange(30.0)
    shuffled = WindowSet(x, x, lag=3).subset(np.random.default_rng(0).permutation(27))
    train, test = split_in_time(shuffled, (0.6, 0.4))
    assert shuffled.time[train].max() < shuffled.time[test].min()
    assert (np.diff(shuffled.time[train]) > 0).all()
    assert sorted([*train, *test]) == list(range(27))


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((10, (0.5, 0.4)), "expected positive numbers that sum to 1"),
        ((10, (1.5, -0.5)), "expected positive numbers"),
        ((10, (np.nan, 0.5)), "expected positive numbers"),
        ((10, ()), "expected positive numbers"),
        ((0,), "rows is 0; expected a positive integer"),
        ((2.5,), "rows is 2.5; expected a positive integer"),
        ((10, (0.5, 0.5), -1), "gap is -1; expected an integer >= 0"),
        ((10, (0.5, 0.5), 5), "part 1 of the split is empty.*gap 5"),
        ((3, {"train": 0.9, "test": 0.1}), "part test of the split is empty"),
    ],
)
def test_split_refuses(args, message):
    with pytest.raises(ValueError, match=message):
        split_in_time(*args)


def test_split_refuses_an_empty_window_set():
    empty = WindowSet(np.zeros(9), np.zeros(9), lag=2).subset([])
    with pytest.raises(ValueError, match="the WindowSet is empty"):
        split_in_time(empty)
