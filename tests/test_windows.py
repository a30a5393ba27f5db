"""Windows against a hand loop, their memory, and what they refuse."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqgp.data import TensorWindows, WindowSet


def hand_windows(inputs, targets, lag, horizon, mode, pad):
    """Windows, targets, target times and owners, one row of one series at a time."""
    windows, ys, times, owners = [], [], [], []
    for k, y in enumerate(targets):
        columns = [] if inputs is None else [inputs[k].reshape(len(y), -1)]
        if mode == "autoregression":
            columns.append(y.reshape(len(y), -1))
        for t in range(len(y) - horizon):
            rows = []
            for s in range(t - lag + 1, t + 1):
                width = sum(c.shape[1] for c in columns)
                inside = s >= 0
                rows.append(
                    np.concatenate([c[s] for c in columns]) if inside else np.full(width, pad)
                )
                if not inside and pad is None:
                    break
            else:
                windows.append(rows)
                ys.append(y[t + horizon])
                times.append(t + horizon)
                owners.append(k)
    return np.array(windows, dtype=float), np.array(ys), np.array(times), np.array(owners)


@st.composite
def cases(draw):
    mode = draw(st.sampled_from(["regression", "autoregression"]))
    lag = draw(st.integers(1, 6))
    horizon = draw(st.integers(int(mode == "autoregression"), 3))
    pad = draw(st.sampled_from([None, 0.0, -7.5]))
    need = horizon + (lag if pad is None else 1)
    lengths = draw(st.lists(st.integers(need, need + 9), min_size=1, max_size=3))
    p = draw(st.sampled_from([0, 1, 3] if mode == "autoregression" else [1, 3]))
    flat_input, flat_target = draw(st.booleans()), draw(st.booleans())
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    inputs = None
    if p:
        inputs = [rng.normal(size=n if p == 1 and flat_input else (n, p)) for n in lengths]
    targets = [rng.normal(size=n if flat_target else (n, 2)) for n in lengths]
    return inputs, targets, {"lag": lag, "horizon": horizon, "mode": mode, "pad": pad}


@settings(max_examples=150, deadline=None)
@given(cases(), st.data())
def test_matches_the_hand_loop(case, data):
    inputs, targets, options = case
    windows = WindowSet(inputs, targets, **options)
    expected, y, time, owner = hand_windows(inputs, targets, **options)

    assert windows.shape == expected.shape == windows[:].shape
    assert (windows.ndim, windows.lag, windows.features) == (3, *expected.shape[1:])
    np.testing.assert_array_equal(windows[:], expected)
    np.testing.assert_array_equal(windows.y, y)
    np.testing.assert_array_equal(windows.time, time)
    np.testing.assert_array_equal(windows.series_index, owner)

    n = len(windows)
    index = np.array(data.draw(st.lists(st.integers(-n, n - 1), max_size=8)), dtype=int)
    mask = np.arange(n) % 2 == 0
    tensor = windows.tensor(torch.float64)
    assert len(tensor) == n
    assert tuple(tensor.shape) == windows.shape
    for pick in (index, mask, slice(1, n, 2), slice(None, 3), -1):
        np.testing.assert_array_equal(windows[pick], expected[pick])
        np.testing.assert_array_equal(tensor[pick].numpy(), expected[pick])
    for pick in (torch.from_numpy(index), torch.from_numpy(mask)):
        np.testing.assert_array_equal(windows[pick], expected[pick.numpy()])
        np.testing.assert_array_equal(tensor[pick].numpy(), expected[pick.numpy()])

    part = windows.subset(index)
    np.testing.assert_array_equal(part[:], expected[index])
    np.testing.assert_array_equal(part.y, y[index])
    np.testing.assert_array_equal(part.time, time[index])
    np.testing.assert_array_equal(part.series_index, owner[index])
    np.testing.assert_array_equal(tensor.subset(index)[:].numpy(), expected[index])


def test_one_array_is_one_series():
    x, y = np.arange(20.0).reshape(10, 2), np.arange(10.0)
    one, listed = WindowSet(x, y, lag=3), WindowSet([x], [y], lag=3)
    np.testing.assert_array_equal(one[:], listed[:])
    assert one.y.shape == (7,)
    assert WindowSet(x, y[:, None], lag=3).y.shape == (7, 1)


def test_pandas_and_integers_are_accepted():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": range(8), "b": range(8, 16)})
    windows = WindowSet(frame, frame["a"], lag=2)
    np.testing.assert_array_equal(windows[0], [[0, 8], [1, 9]])
    assert windows.dtype == np.float64


def test_memory_is_that_of_the_series():
    series = np.random.default_rng(0).normal(size=(5000, 4))
    windows = WindowSet(series, series[:, 0], lag=500)
    assert np.shares_memory(windows.series, series)
    held = sum(a.nbytes for a in vars(windows).values() if isinstance(a, np.ndarray))
    assert held < 3 * series.nbytes
    assert np.prod(windows.shape) * 8 > 100 * held

    part = windows.subset(slice(10, 20))
    assert np.shares_memory(part.series, series)
    tensor = windows.tensor()
    assert tensor.subset(slice(3))._series.data_ptr() == tensor._series.data_ptr()
    assert tensor._view.untyped_storage().nbytes() == series.size * 4


def test_batches_are_copies_and_the_series_is_read_only():
    series = np.arange(10.0)
    windows = WindowSet(series, series, lag=3)
    for batch in (windows[:], windows[0], windows[[0]]):
        batch += 100
    tensor = windows.tensor()
    for batch in (tensor[:], tensor[0]):
        batch += 100
    np.testing.assert_array_equal(windows[0].ravel(), [0, 1, 2])
    assert tensor[0].flatten().tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="read-only"):
        windows.series[0] = 1
    series[0] = 5  # the caller's own array stays writeable


@pytest.mark.parametrize("mode", ["regression", "autoregression"])
@pytest.mark.parametrize("horizon", [1, 3])
def test_the_future_never_enters_a_window(mode, horizon):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    before = WindowSet(x, y, lag=4, horizon=horizon, mode=mode)
    for i in (0, 7, len(before) - 1):
        t = before.time[i]
        x2, y2 = x.copy(), y.copy()
        x2[t - horizon + 1 :] += 1.0
        y2[t - horizon + 1 :] += 1.0
        after = WindowSet(x2, y2, lag=4, horizon=horizon, mode=mode)
        np.testing.assert_array_equal(after[i], before[i])
        assert after.y[i] == before.y[i] + 1.0
        x2[t - horizon] += 1.0  # the window's last row: this one is seen
        assert not np.array_equal(
            WindowSet(x2, y2, lag=4, horizon=horizon, mode=mode)[i], before[i]
        )


def test_horizon_zero_sees_inputs_but_not_targets():
    x, y = np.arange(6.0), np.arange(6.0) * 10
    windows = WindowSet(x, y, lag=2, horizon=0)
    np.testing.assert_array_equal(windows[0].ravel(), [0, 1])
    np.testing.assert_array_equal(windows.y, [10, 20, 30, 40, 50])


def test_windows_do_not_cross_borders():
    x = [np.full(7, 0.0), np.full(9, 1.0), np.full(8, 2.0)]
    windows = WindowSet(x, x, lag=4, horizon=2)
    assert len(windows) == 2 + 4 + 3
    np.testing.assert_array_equal(np.ptp(windows[:], axis=1), 0.0)
    np.testing.assert_array_equal(windows[:][:, 0, 0], windows.y)


def test_map_features_keeps_everything_else():
    x = [np.arange(8.0), np.arange(9.0)]
    windows = WindowSet(x, x, lag=3, pad=4.0)
    doubled = windows.map_features(lambda s: 2 * s)
    np.testing.assert_array_equal(doubled[:], 2 * windows[:])
    assert doubled[0][0, 0] == 8.0  # padding is a row like any other
    np.testing.assert_array_equal(doubled.y, windows.y)
    wider = windows.map_features(lambda s: np.hstack([s, s, s]))
    assert wider.shape == (len(windows), 3, 3)
    same = windows.map_features(lambda s: s)
    assert not np.shares_memory(same.series, windows.series)
    with pytest.raises(ValueError, match=r"returned shape \(3, 1\).*expected \(21, q\)"):
        windows.map_features(lambda s: s[:3])
    with pytest.raises(ValueError, match="result of fn has 21 NaN"):
        windows.map_features(lambda s: s * np.nan)


def test_rows_are_those_the_windows_hold():
    x = [np.arange(10.0), 100 + np.arange(10.0)]
    windows = WindowSet(x, x, lag=3, pad=-1.0)
    np.testing.assert_array_equal(windows.rows().ravel(), [*range(9), *range(100, 109)])
    part = windows.subset([1, 1, 6])  # windows that end at rows 1 and 6 of the first series
    np.testing.assert_array_equal(part.rows().ravel(), [0, 1, 4, 5, 6])


def test_a_tensor_and_tensor_windows_are_interchangeable():
    x = np.random.default_rng(2).normal(size=(40, 3))
    lazy = WindowSet(x, x[:, 0], lag=5).tensor(torch.float32)
    plain = torch.tensor(WindowSet(x, x[:, 0], lag=5)[:], dtype=torch.float32)
    assert lazy.shape == plain.shape
    assert (len(lazy), lazy.ndim, lazy.dtype, lazy.device) == (
        len(plain),
        plain.ndim,
        plain.dtype,
        plain.device,
    )
    index = torch.randperm(len(plain))[:9]
    for pick in (index, slice(2, 8), 3, index.numpy()[::-1]):
        same = pick.copy() if isinstance(pick, np.ndarray) else pick
        assert torch.equal(lazy[pick], plain[same])
        assert lazy[pick].is_contiguous()


def test_dtype_is_kept_and_subset_of_one():
    x = np.arange(9.0)
    windows = WindowSet(x, x, lag=2, dtype=np.float32)
    assert windows[:].dtype == windows.y.dtype == np.float32
    assert windows.subset(4).shape == (1, 2, 1)
    assert "lag=2" in repr(windows)


X, Y = np.zeros((10, 2)), np.zeros(10)
HOLE = X.copy()
HOLE[4, 1] = HOLE[6, 0] = np.nan
HOLE[7, 0] = np.inf


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"mode": "free"}, r"mode is 'free'; expected one of 'regression', 'autoregression'"),
        ({"lag": 0}, r"lag is 0; expected an integer >= 1"),
        ({"lag": 2.5}, r"lag is 2.5; expected an integer >= 1"),
        ({"lag": True}, r"lag is True; expected an integer"),
        ({"horizon": -1}, r"horizon is -1; expected an integer >= 0"),
        ({"horizon": 0, "mode": "autoregression"}, r"contain its own target. Use horizon >= 1"),
        ({"inputs": None}, r"inputs is None in regression.*mode='autoregression'"),
        ({"pad": np.nan}, r"pad is nan; expected None or a finite number"),
        ({"dtype": int}, r"dtype is int64; expected a floating dtype"),
        ({"inputs": HOLE}, r"inputs has 2 NaN and 1 infinite values.*first at row 4, column 1;"),
        ({"targets": np.full(10, np.inf)}, r"targets has 0 NaN and 10 infinite.*at row 0;"),
        ({"inputs": X + 1e300, "dtype": np.float32}, r"20 infinite values as float32"),
        ({"inputs": X.astype(str)}, r"inputs has dtype <U\d+; expected numbers"),
        ({"inputs": np.array([["a"]] * 10, dtype=object)}, r"not numbers.*'a'"),
        ({"inputs": X + 1j}, r"inputs has dtype complex128; expected numbers"),
        ({"inputs": X[:8]}, r"series 0 has 8 input rows and 10 target rows"),
        ({"inputs": X[:, :, None]}, r"inputs has shape \(10, 2, 1\); expected \(N,\) or \(N, k\)"),
        ({"inputs": X[:, :0]}, r"inputs has shape \(10, 0\)"),
        ({"inputs": 3.0}, r"inputs has shape \(\)"),
        ({"inputs": [1.0, 2.0]}, r"inputs of series 0 has shape \(\).*A list means several series"),
        ({"inputs": []}, r"inputs is an empty list"),
        ({"inputs": [X, X]}, r"inputs has 2 series and targets has 1"),
        ({"inputs": [X, X[:, :1]], "targets": [Y, Y]}, r"series of different widths"),
        ({"inputs": [X, X[:2]], "targets": [Y, Y[:2]]}, r"series 1 has 2 rows.*need at least 4"),
        ({"lag": 10}, r"series 0 has 10 rows; lag=10 and horizon=1 need at least 11"),
        ({"horizon": 10, "pad": 0.0}, r"horizon=10 with padding need at least 11"),
    ],
)
def test_bad_input_is_refused(kwargs, message):
    options = {"inputs": X, "targets": Y, "lag": 3, **kwargs}
    with pytest.raises(ValueError, match=message):
        WindowSet(**options)


def test_shortest_series_are_accepted():
    assert len(WindowSet(X, Y, lag=9)) == 1
    assert len(WindowSet(X, Y, lag=50, horizon=9, pad=0.0)) == 1


def test_tensor_windows_refuse_starts_outside():
    with pytest.raises(ValueError, match="leave the series of 5 rows"):
        TensorWindows(torch.zeros(5, 1), torch.tensor([0, 3]), lag=3)
    with pytest.raises(ValueError, match="expected \\(N, p\\)"):
        TensorWindows(torch.zeros(5), torch.tensor([0]), lag=3)
    with pytest.raises(IndexError):
        WindowSet(X, Y, lag=3).tensor()[torch.tensor([7])]


def test_union_of_two_subsets():
    windows = WindowSet([np.arange(9.0), np.arange(8.0)], [np.arange(9.0), np.arange(8.0)], lag=3)
    first, last = windows.subset(slice(0, 4)), windows.subset([9, 10])
    both = first.union(last)
    np.testing.assert_array_equal(both[:], windows[[0, 1, 2, 3, 9, 10]])
    for name in ("y", "time", "series_index"):
        expected = getattr(windows, name)[[0, 1, 2, 3, 9, 10]]
        np.testing.assert_array_equal(getattr(both, name), expected)
    with pytest.raises(ValueError, match="different series"):
        first.union(WindowSet(np.arange(9.0), np.arange(9.0), lag=3))
