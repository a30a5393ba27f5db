from __future__ import annotations

import json
import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.polynomial import polynomial

from paper import datasets
from paper.datasets import car_h5, car_r3, comma2k19
from paper.datasets.car import read_drives
from paper.datasets.car_r3 import lane_points
from paper.datasets.recording import bin_means, ticks
from seqgp import WindowSet
from seqgp.demo import DatasetError

# One clock


@given(st.lists(st.integers(1, 400), min_size=1, max_size=40), st.integers(0, 3))
def test_bin_means(hundredths, hold):
    times = np.sort(np.array(hundredths)) / 100
    values = np.column_stack([times, np.cos(50 * times)])
    clock = ticks(0.0, 4.0, 0.5)
    np.testing.assert_allclose(clock, [0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4])
    got = bin_means(times, values, clock, 0.5, hold)
    last, age = np.full(2, np.nan), 0
    for tick, row in zip(clock, got, strict=True):
        inside = (np.array(hundredths) > 100 * tick - 50) & (np.array(hundredths) <= 100 * tick)
        inside = np.sort(np.array(hundredths)[inside]) / 100
        if len(inside):
            last, age = np.array([inside.mean(), np.cos(50 * inside).mean()]), 0
        else:
            age += 1
        np.testing.assert_allclose(row, last if age <= hold else np.full(2, np.nan))


def test_drives_are_averaged_and_holes_break_them(tmp_path):
    t = np.arange(1, 101) / 100
    table = np.column_stack([t, 10 * t, t**2])
    gap = np.delete(table, np.arange(20, 40), axis=0)  # nothing from 0.21 to 0.40 s
    unknown = table.copy()
    unknown[:, 2] = np.nan
    np.savez(tmp_path / "x.npz", cols=["t", "u", "y"], b=gap, a=table, c=unknown)
    rows = read_drives([tmp_path / "x.npz"], ("u",), "y")
    # From the first sample, 0.01 s, to the last there are nine whole steps; one of b's is empty.
    assert rows.series == ("a", "b", "b")
    assert rows.segments == ((0, 9), (9, 11), (11, 17))
    expected = [t[(t > 0.01 + k / 10 + 1e-9) & (t < 0.11 + k / 10 + 1e-9)] for k in range(9)]
    np.testing.assert_allclose(rows.inputs[:9, 0], [10 * part.mean() for part in expected])
    np.testing.assert_allclose(rows.targets[:9], [(part**2).mean() for part in expected])
    assert rows.times[:2].tolist() == [np.timedelta64(100, "ms"), np.timedelta64(200, "ms")]
    assert rows.holes == {"rows without inputs or y": 1 + 9}


# R3: the lane and the vehicle ahead


@pytest.fixture
def r3(tmp_path, rng):
    """Two drives of which one is on a public road; objects at random places."""
    ego_columns = ["scenario", "frame", "v", "ax", "ay", "omega"]
    ego_columns += [f"lane{k}_c{power}" for k in range(4) for power in range(4)]
    n = 30
    ego = rng.normal(size=(2 * n, len(ego_columns)))
    ego[:, 0], ego[:, 1] = np.repeat([0, 1], n), np.tile(np.arange(1, n + 1), 2)
    for lane, side in ((0, -1.7), (1, 1.7)):  # the camera's y is to the right
        first = ego_columns.index(f"lane{lane}_c0")
        ego[:, first : first + 4] *= [0.05, 0.01, 2e-4, 1e-6]
        ego[:, first] += side
    ego[n + 5, ego_columns.index("lane1_c0")] = 9.0  # no lane
    objects = []
    for frame in range(1, n + 1):
        if frame in (12, 13):
            continue
        for number in (7, 8, 9):
            objects.append([1, frame, number, rng.uniform(-20, 40), rng.normal(0, 1.5)])
    places = [
        json.dumps(dict(highway=False, urban=False, FMTC=True)),
        json.dumps(dict(highway=True, urban=False, FMTC=False)),
    ]
    np.savez(
        tmp_path / "r3.npz",
        ego=ego,
        objects=np.array(objects),
        ego_cols=ego_columns,
        obj_cols=["scenario", "frame", "id", "x", "y"],
        scenarios=[["expert", f"drive{k}", "30", "30", "2021", places[k]] for k in range(2)],
    )
    return tmp_path / "r3.npz", ego[n:], np.array(objects), ego_columns


def test_lane_points_of_r3(r3):
    path, ego, _, columns = r3
    rows = car_r3.read_lanes([path])
    assert set(rows.series) == {"drive1"}
    assert rows.segments == ((0, 5), (5, 29))
    assert rows.holes == {"frames without a lane": 1}
    kept = np.delete(ego, 5, axis=0)
    np.testing.assert_array_equal(rows.inputs, kept[:, 2:6])
    for lane in (0, 1):
        first = columns.index(f"lane{lane}_c0")
        for k, x in enumerate((0, 5, 10, 15, 20, 25, 30)):
            y = -polynomial.polyval(x, kept[:, first : first + 4].T)
            np.testing.assert_allclose(rows.targets[:, 7 * lane + k], y)
    assert (rows.targets[:, 0] > 0).all()  # the left border is on the left


def test_lead_of_r3_is_the_nearest_in_the_lane(r3):
    path, ego, objects, columns = r3
    rows = car_r3.read_lead([path])
    left, right = columns.index("lane0_c0"), columns.index("lane1_c0")
    expected, numbers = {}, {}
    for frame in range(30):
        if frame == 5:
            continue
        for _, _, number, x, y in objects[objects[:, 1] == frame + 1]:
            camera_y = -(y - 0.04 * x)
            low = polynomial.polyval(x, ego[frame, left : left + 4])
            high = polynomial.polyval(x, ego[frame, right : right + 4])
            nearer = frame not in expected or x < expected[frame][0]
            if x > 0 and low < camera_y < high and nearer:
                expected[frame], numbers[frame] = (x, y), number
    assert 5 < len(expected) < 28
    np.testing.assert_allclose(rows.targets, list(expected.values()))
    frames = list(expected)
    np.testing.assert_array_equal(rows.inputs, ego[frames][:, 2:6])
    starts = [0]
    for row, (a, b) in enumerate(pairwise(frames), 1):
        if b != a + 1 or numbers[a] != numbers[b]:
            starts.append(row)
    assert [start for start, _ in rows.segments] == starts
    assert rows.holes == {"frames without a vehicle ahead in the lane": 30 - len(expected)}


def test_lane_points_need_cubics():
    with pytest.raises(ValueError, match=r"shape \(2, 3\); expected \(N, 4\)"):
        lane_points(np.ones((2, 3)), [0.0])


# The real recordings


@pytest.mark.parametrize(
    ("name", "drives"), [("car-speed", 10), ("car-yaw", 43), ("car-lanes", 8), ("car-lead", 8)]
)
def test_real_drives(data_folder, name, drives):
    if not datasets.ENTRIES[name].status().present:
        pytest.skip(f"{name} is not at hand")
    data = datasets.load(name)
    assert len(set(data.series)) == drives
    assert np.isfinite(data.inputs).all()
    assert np.isfinite(data.targets).all()
    assert data.segments[-1][1] == len(data.targets)
    for start, stop in data.segments:  # a run has no gap
        assert (np.diff(data.times[start:stop]) == np.timedelta64(100, "ms")).all()
    assert len(WindowSet(*data.runs(12), lag=10)) > 2000


def test_real_speed_is_that_of_the_raw_samples(data_folder):
    data = datasets.load("car-speed")
    raw = np.load(data_folder / "car" / "wid_mru_100hz.npz")
    drive = raw["trial08"]
    runs = [
        slice(*run)
        for run, name in zip(data.segments, data.series, strict=True)
        if name == "trial08"
    ]
    speed = np.concatenate([data.targets[run] for run in runs])
    assert len(speed) == len(drive) // 10
    np.testing.assert_allclose(speed[40], drive[401:411, -1].mean())
    gps = np.hypot(drive[:, 4], drive[:, 5])[10::10]
    assert np.corrcoef(speed, gps[: len(speed)])[0, 1] > 0.99


# comma2k19


SIGNALS = {
    "CAN/speed": 1,
    "CAN/steering_angle": 1,
    "CAN/radar": 7,
    "IMU/accelerometer": 3,
    "IMU/gyro": 3,
    "IMU/magnetometer": 3,
    "GNSS/live_gnss_ublox": 6,
}


@pytest.fixture
def segment(tmp_path):
    """Two seconds at 10 m/s to the north-west, with three radar tracks every 0.05 s."""
    folder = tmp_path / "route" / "3"
    t = 1000 + np.arange(201) / 100
    zero = np.zeros(201)
    radar_t = np.repeat(1000 + np.arange(1, 41) / 20, 3)
    tracks = np.tile([[50.0, 0.5, 0, np.nan, np.nan, 1, 0]], (120, 1))
    tracks[1::3, :2], tracks[1::3, 5] = (20.0, 3.0), 2  # nearer, but in the next lane
    tracks[2::3, :2], tracks[2::3, 5] = (80.0, 0.0), 3
    late = radar_t > 1001.001
    tracks[late & (tracks[:, 5] == 1), 1] = 2.5  # leaves the lane after one second
    gnss_t = 1000 + np.arange(1, 21) / 10
    bearing = np.full(20, 315.0)
    signals = {
        "CAN/speed": (t, np.full((201, 1), 10.0)),
        "CAN/steering_angle": (t, t - 1000),
        "CAN/radar": (radar_t, tracks),
        "IMU/accelerometer": (t, np.column_stack([zero, zero, zero - 9.8])),
        "IMU/gyro": (t, np.column_stack([zero, zero, zero])),
        "IMU/magnetometer": (t[::10], np.ones((21, 3))),
        "GNSS/live_gnss_ublox": (
            gnss_t,
            np.column_stack([bearing, bearing, np.full(20, 10.0), bearing, bearing, bearing]),
        ),
    }
    for name, (times, values) in signals.items():
        write_signal(folder, name, times, values)
    return folder


def write_signal(folder, name, times, values):
    place = folder / "processed_log" / name
    place.mkdir(parents=True, exist_ok=True)
    for file, array in (("t", times), ("value", values)):
        with (place / file).open("wb") as stream:  # np.save would add .npy to the name
            np.save(stream, array)


def test_comma_segment(segment):
    table = comma2k19.load_segment(segment)
    assert table.shape == (20, 15)
    np.testing.assert_allclose(table["v_east"], -10 / np.sqrt(2))
    np.testing.assert_allclose(table["v_north"], 10 / np.sqrt(2))
    np.testing.assert_allclose(table["steering_angle"], np.arange(20) / 10 + 0.055)
    np.testing.assert_allclose(table["acc_down"], -9.8)
    np.testing.assert_allclose(table["lead_x"], [50.0] * 10 + [80.0] * 10)
    np.testing.assert_allclose(table["lead_y"], [0.5] * 10 + [0.0] * 10)
    assert table.index[0] == np.timedelta64(100, "ms")


def test_comma_lead_follows_the_curve(segment):
    t = 1000 + np.arange(201) / 100
    # A left turn of 0.05 rad/s at 10 m/s: the path is 1 m to the left at 20 m, 6.25 m at 50 m.
    turn = np.column_stack([np.zeros(201), np.zeros(201), np.full(201, -0.05)])
    write_signal(segment, "IMU/gyro", t, turn)
    table = comma2k19.load_segment(segment)
    assert table["lead_x"].isna().all()  # at 20 m it is 3 m to the left: 2 m beside the path
    write_signal(segment, "IMU/gyro", t, 1.2 * turn)
    np.testing.assert_allclose(comma2k19.load_segment(segment)["lead_x"], 20.0)


def test_comma_does_not_look_ahead(segment):
    before = comma2k19.load_segment(segment)
    for name, width in SIGNALS.items():
        place = segment / "processed_log" / name
        times, values = np.load(place / "t"), np.load(place / "value")
        values = values.reshape(len(times), width).copy()
        values[times > 1001.0001] += 1.0
        write_signal(segment, name, times, values)
    after = comma2k19.load_segment(segment)
    np.testing.assert_array_equal(before[:10], after[:10])
    assert (before["speed"][10:] != after["speed"][10:]).all()


def test_comma_folder_of_segments(segment, tmp_path):
    data = comma2k19.load(tmp_path, task="lead")
    assert data.series == ("route/3",)
    assert data.inputs.shape == (20, 9)
    assert data.targets.shape == (20, 2)
    assert comma2k19.load(segment).targets.tolist() == [10.0] * 20
    table = np.load(segment / "processed_log" / "CAN" / "radar" / "value")
    table[30:60, 0] = -5.0  # nobody ahead for half a second
    times = np.load(segment / "processed_log" / "CAN" / "radar" / "t")
    write_signal(segment, "CAN/radar", times, table)
    data = comma2k19.load(tmp_path, task="lead")
    assert data.holes == {"rows with a missing value": 5}
    assert data.segments == ((0, 5), (5, 15))


def test_comma_says_what_is_wrong(segment, tmp_path):
    with pytest.raises(ValueError, match="task is 'lanes'; expected one of 'speed', 'yaw', 'lead'"):
        comma2k19.load(tmp_path, task="lanes")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="has no folder processed_log"):
        comma2k19.load(tmp_path / "empty")
    with pytest.raises(ValueError, match="step is 0; expected seconds above 0"):
        comma2k19.load_segment(segment, step=0)
    write_signal(segment, "IMU/gyro", np.arange(3.0), np.ones((3, 2)))
    with pytest.raises(ValueError, match=r"\(3, 2\) values; expected \(n,\) and \(n, 3\)"):
        comma2k19.load_segment(segment)
    (segment / "processed_log" / "CAN" / "speed" / "t").write_bytes(b"text")
    with pytest.raises(ValueError, match="is not a signal of comma2k19"):
        comma2k19.load_segment(segment)


def test_comma_example(data_folder):
    folder = data_folder / "car" / "comma2k19_example"
    if not folder.is_dir():
        pytest.skip("the example of comma2k19 is not at hand")
    table = comma2k19.load_segment(folder)
    assert len(table) == 599
    assert table.drop(columns=["lead_x", "lead_y"]).notna().all(axis=None)
    assert np.abs(np.hypot(table["v_east"], table["v_north"]) - table["speed"]).max() < 1.0
    # The pose of the same drive, made by others from all sensors, agrees.
    velocity = np.load(folder / "global_pose" / "frame_velocities")
    times = np.load(folder / "global_pose" / "frame_times")
    start = np.load(folder / "processed_log" / "CAN" / "speed" / "t")[0]
    at = start + table.index.total_seconds()
    posed = np.interp(at, times, np.linalg.norm(velocity, axis=1))
    assert np.abs(posed - table["speed"]).mean() < 0.3
    assert comma2k19.load(folder, "lead").targets.shape == (598, 2)


# car_sensors.h5


@pytest.fixture
def car_file(tmp_path, rng):
    """Two trips, 30 and 20 rows at 100 Hz, the second with a pause, and some values missing."""
    n = 50
    first, second = np.arange(30) / 100, 500 + np.arange(20) / 100
    second[12:] += 0.5
    fields = {
        "times": np.concatenate([first, second]),
        "speed": rng.normal(size=n),
        "steering_angle": rng.normal(size=(n, 1)),
        "radar_leads": rng.normal(size=(n, 2)),
        "left_lanes": rng.normal(size=(n, 8)),
        "right_lanes": rng.normal(size=(n, 8)),
    }
    for name in ("gps_1_vel", "fiber_accel", "fiber_compass", "fiber_gyro"):
        fields[name] = rng.normal(size=(n, 3))
    fields["speed"][3] = np.nan
    path = tmp_path / "car_sensors.h5"
    write_h5(path, fields)
    return path, fields


def write_h5(path, fields):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        for name, values in fields.items():
            file[name] = values


def test_h5_speed(car_file):
    path, fields = car_file
    data = car_h5.load(path)
    keep = np.arange(50) != 3
    np.testing.assert_array_equal(
        data.inputs, np.hstack([fields["gps_1_vel"], fields["fiber_gyro"]])[keep]
    )
    np.testing.assert_array_equal(data.targets, fields["speed"][keep])
    assert data.series == ("trip1", "trip1", "trip2", "trip2")
    assert data.segments == ((0, 3), (3, 29), (29, 41), (41, 49))
    assert data.holes == {"rows with a missing value": 1}
    assert data.sample_time == pytest.approx(0.01)
    assert data.input_names[:3] == ("gps_1_vel_x", "gps_1_vel_y", "gps_1_vel_z")


def test_h5_other_tasks(car_file):
    path, fields = car_file
    yaw = car_h5.load(path, "yaw")
    assert yaw.inputs.shape == (50, 6)
    np.testing.assert_array_equal(yaw.targets, fields["fiber_gyro"][:, 2])
    lead = car_h5.load(str(path), "lead")
    assert lead.inputs.shape == (50, 10)
    np.testing.assert_array_equal(lead.targets, fields["radar_leads"])
    lanes = car_h5.load(path, "lanes")
    assert lanes.targets.shape == (50, 28)
    for side in ("left", "right"):
        for k, s in enumerate(np.linspace(0, 1, 7)):
            for axis, first in (("x", 0), ("y", 4)):
                column = lanes.targets[:, lanes.target_names.index(f"{side}_{axis}{k}")]
                cubic = fields[f"{side}_lanes"][:, first : first + 4]
                np.testing.assert_allclose(column, polynomial.polyval(s, cubic.T))


def test_h5_says_what_is_wrong(car_file, tmp_path, monkeypatch):
    path, fields = car_file
    with pytest.raises(ValueError, match="task is 'steer'; expected one of 'speed'"):
        car_h5.load(path, "steer")
    text = tmp_path / "text.h5"
    text.write_text("text")
    with pytest.raises(ValueError, match="could not be read as an HDF5 file"):
        car_h5.load(text)
    with pytest.raises(ValueError, match="could not be read as an HDF5 file"):
        car_h5.load(tmp_path / "none.h5")
    other = tmp_path / "other.h5"
    write_h5(other, {name: fields[name] for name in ("times", "speed")})
    with pytest.raises(ValueError, match="has no field 'gps_1_vel'; it has speed, times"):
        car_h5.load(other)
    write_h5(other, {**fields, "gps_1_vel": np.ones((50, 2))})
    with pytest.raises(ValueError, match=r"gps_1_vel has shape \(50, 2\); expected \(N, 3\)"):
        car_h5.load(other)
    write_h5(other, {**fields, "speed": np.ones(9)})
    with pytest.raises(ValueError, match="'speed': 9} rows; expected one number"):
        car_h5.load(other)
    write_h5(other, {**fields, "speed": np.full(50, np.nan)})
    with pytest.raises(ValueError, match="no row has all inputs and targets of 'speed'"):
        car_h5.load(other)
    write_h5(other, {**fields, "times": np.zeros(50)})
    with pytest.raises(ValueError, match="times do not increase"):
        car_h5.load(other)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(DatasetError, match=r"pip install 'seqgp\[paper\]'"):
        car_h5.load(path)
