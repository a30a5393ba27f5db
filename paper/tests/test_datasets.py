"""Data sets by name: what is listed is what is loaded; system identification; rows and their runs."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.io import loadmat, savemat

from paper import datasets
from paper.datasets import Rows, sysid
from paper.datasets.recording import join
from seqgp import WindowSet


@pytest.mark.parametrize(
    ("name", "x", "y", "rows"), [("actuator", "u", "p", 1024), ("drives", "u1", "z1", 500)]
)
def test_real_recordings(data_folder, name, x, y, rows):
    data = datasets.load(name)
    raw = loadmat(data_folder / "sysid" / f"{name}.mat")
    assert data.inputs.shape == (rows, 1)
    assert data.targets.shape == (rows,)
    assert data.inputs.dtype == data.targets.dtype == np.dtype("=f8")
    np.testing.assert_array_equal(data.inputs[:, 0], raw[x].ravel())
    np.testing.assert_array_equal(data.targets, raw[y].ravel())
    assert (data.input_names, data.target_names) == ((x,), (y,))


def test_a_mat_file(tmp_path):
    columns = {"u": np.arange(5, dtype="i2")[:, None], "p": 10 * np.arange(5.0, dtype=">f8")}
    savemat(tmp_path / "actuator.mat", columns)
    rows = sysid.ACTUATOR.read([tmp_path / "actuator.mat"])
    np.testing.assert_array_equal(rows.inputs, np.arange(5.0)[:, None])
    np.testing.assert_array_equal(rows.targets, 10 * np.arange(5.0))
    assert rows.inputs.dtype == rows.targets.dtype == np.dtype("=f8")


def test_entries_describe_what_is_loaded(data_folder):
    for entry in datasets.available():
        if not entry.status().present:
            continue
        data = datasets.load(entry.name)
        assert data.name == entry.name
        assert data.inputs.shape == (entry.rows, len(entry.input_names))
        assert data.targets.reshape(entry.rows, -1).shape == (entry.rows, len(entry.target_names))
        assert len(repr(data)) < 500


def test_homes_are_fixed_and_encrypted():
    homes = (
        "https://raw.githubusercontent.com/zhenwendai/RGP/e55e66d36692",
        "https://files.python",
    )
    for entry in datasets.available():
        for file in entry.files:
            assert len(bytes.fromhex(file.sha256)) == 32
            assert file.url is None or file.url.startswith(homes)


def test_unknown_name():
    with pytest.raises(ValueError, match="'actuators' is not known: use one of actuator, drives"):
        datasets.load("actuators")


def test_listing_imports_nothing_optional():
    script = (
        "import sys, paper.datasets.car_h5, paper.datasets.comma2k19;"
        "print(sorted({'h5py', 'pydantic', 'scoringrules'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


# Rows: runs, gaps, series


@st.composite
def broken(draw):
    """Rows cut into segments, some of them of the same series, and a mask that keeps some."""
    lengths = draw(st.lists(st.integers(1, 6), min_size=1, max_size=5))
    n = sum(lengths)
    mask = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    mask[draw(st.integers(0, n - 1))] = True
    cuts = np.cumsum([0, *lengths]).tolist()
    rows = Rows(
        inputs=np.arange(n, dtype=float)[:, None],
        targets=10.0 * np.arange(n),
        segments=tuple(pairwise(cuts)),
        series=tuple(draw(st.sampled_from("ab")) for _ in lengths),
        marks={"even": np.arange(n) % 2 == 0},
    )
    return rows, mask


@given(broken())
def test_where_keeps_rows_and_breaks_runs(drawn):
    rows, mask = drawn
    kept = rows.where(mask)
    np.testing.assert_array_equal(kept.targets, rows.targets[mask])
    np.testing.assert_array_equal(kept.marks["even"], rows.marks["even"][mask])
    # In a run the original row numbers go up by one and stay in one segment; across runs they do not.
    number = kept.inputs[:, 0].astype(int)
    segment = np.repeat(np.arange(len(rows.segments)), [b - a for a, b in rows.segments])[number]
    together = (np.diff(number) == 1) & (np.diff(segment) == 0)
    run = np.repeat(np.arange(len(kept.segments)), [b - a for a, b in kept.segments])
    np.testing.assert_array_equal(np.diff(run) == 0, together)
    for (start, _), name in zip(kept.segments, kept.series, strict=True):
        assert name == rows.series[segment[start]]


def test_series_are_joined():
    parts = {
        name: Rows(inputs=np.full((n, 1), k), targets=np.arange(n, dtype=float), holes={"lost": k})
        for k, (name, n) in enumerate([("a", 3), ("b", 2), ("c", 4)])
    }
    rows = join(parts)
    assert rows.segments == ((0, 3), (3, 5), (5, 9))
    assert (rows.series, rows.holes) == (("a", "b", "c"), {"lost": 3})
    np.testing.assert_array_equal(rows.inputs[:, 0], [0, 0, 0, 1, 1, 2, 2, 2, 2])


def test_runs_are_what_windows_take():
    rows = Rows(inputs=np.ones((9, 2)), targets=np.arange(9.0), segments=((0, 2), (2, 9)))
    windows = WindowSet(*rows.runs(least=4), lag=3)
    np.testing.assert_array_equal(windows.y, [5, 6, 7, 8])  # none from the run of two rows
    with pytest.raises(ValueError, match="no gap-free run has 8 rows; the longest has 7"):
        rows.runs(8)
    with pytest.raises(ValueError, match=r"mask is int64 of shape \(2,\); expected booleans"):
        rows.where(np.array([1, 2]))
    with pytest.raises(ValueError, match="keeps no row"):
        rows.where(np.zeros(9, dtype=bool))
