"""The paper's own car recording, ``car_sensors.h5``, for those who have it: it is not public.

Fields have the names of the paper's code: ``times`` (s), ``gps_1_vel`` (3), ``fiber_accel`` (3),
``fiber_compass`` (3), ``fiber_gyro`` (3: roll, pitch, yaw), ``speed``, ``steering_angle``, ``left_lanes``
and ``right_lanes`` (8 each: a cubic for x, then one for y) and ``radar_leads`` (2: x, y). The file does
not say how a lane's cubics are to be read; here the lowest power is first and the parameter runs from
0 at the first point to 1 at the last.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paper.datasets.car_r3 import POINTS, lane_points
from paper.datasets.recording import Array, Dataset, Rows, join
from seqgp.demo import DatasetError

__all__ = ["TASKS", "load"]

_WIDTHS = {
    "times": 1,
    "gps_1_vel": 3,
    "fiber_accel": 3,
    "fiber_compass": 3,
    "fiber_gyro": 3,
    "speed": 1,
    "steering_angle": 1,
    "left_lanes": 8,
    "right_lanes": 8,
    "radar_leads": 2,
}
_SENSORS = ("gps_1_vel", "fiber_gyro", "fiber_compass", "steering_angle")
_YAW = "fiber_gyro_yaw"

TASKS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "speed": (("gps_1_vel", "fiber_gyro"), ("speed",)),
    "yaw": (("fiber_accel", "fiber_compass"), (_YAW,)),
    "lanes": (_SENSORS, ("left_lanes", "right_lanes")),
    "lead": (_SENSORS, ("radar_leads",)),
}
"""The paper's four tasks: fields for the inputs, fields for the targets.

Past lanes and leads, which the paper adds to the inputs, come with ``mode="autoregression"``.
"""

_NEW_TRIP = 60.0  # seconds without a row


def load(path: str | Path, task: str = "speed") -> Dataset:
    """The recording for one of ``TASKS``; its trips are the series ``trip1``, ``trip2``, ...

    Lanes become 7 points each, x and y: 28 targets. A row with a missing value is left out
    (the paper's code put a zero there), and a run ends where the times jump.

    Args:
        path: of the file.
        task: ``"speed"``, ``"yaw"``, ``"lanes"`` or ``"lead"``.
    """
    if task not in TASKS:
        raise ValueError(f"task is {task!r}; expected one of {', '.join(map(repr, TASKS))}")
    inputs, targets = TASKS[task]
    columns = _read(Path(path), dict.fromkeys(("times", *inputs, *targets)))
    times = columns["times"]["times"]
    steps = np.diff(times)
    step = float(np.median(steps))
    if not step > 0:
        raise ValueError(f"{path}: times do not increase (median step {step} s); expected seconds")

    x, x_names = _table(columns, inputs)
    y, y_names = _table(columns, targets)
    known = np.asarray(np.isfinite(x).all(axis=1) & np.isfinite(y).all(axis=1))
    if not known.any():
        raise ValueError(f"{path}: no row has all inputs and targets of {task!r}: use another task")
    trips = {}
    for number, (start, stop) in enumerate(_cut((steps <= 0) | (steps > _NEW_TRIP)), 1):
        if known[start:stop].any():
            trips[f"trip{number}"] = Rows(
                inputs=x[start:stop],
                targets=y[start:stop, 0] if y.shape[1] == 1 else y[start:stop],
                segments=_cut(steps[start : stop - 1] > 1.5 * step),
            ).where(known[start:stop])
    rows = {**vars(join(trips)), "holes": {"rows with a missing value": int((~known).sum())}}
    return Dataset(
        **rows,
        name=f"car-sensors-{task}",
        input_names=x_names,
        target_names=y_names,
        sample_time=step,
    )


def _read(path: Path, fields: Mapping[str, Any]) -> dict[str, dict[str, Array]]:
    """For each field its columns by name, ``(N,)`` each."""
    try:
        import h5py
    except ImportError as error:
        raise DatasetError(
            "h5py, which reads car_sensors.h5, is not installed: pip install 'seqgp[paper]'"
        ) from error
    out = {}
    try:
        with h5py.File(path, "r") as file:
            for name in fields:
                field = "fiber_gyro" if name == _YAW else name
                if field not in file:
                    raise ValueError(
                        f"{path} has no field {field!r}; it has {', '.join(sorted(file))}"
                    )
                out[name] = _columns(name, _checked(path, field, np.asarray(file[field])))
    except OSError as error:
        raise ValueError(f"{path} could not be read as an HDF5 file: {error}") from error
    lengths = {name: len(next(iter(columns.values()))) for name, columns in out.items()}
    if len(set(lengths.values())) != 1 or lengths["times"] < 2:
        raise ValueError(f"{path}: fields have {lengths} rows; expected one number, at least 2")
    return out


def _checked(path: Path, field: str, values: NDArray[Any]) -> Array:
    width = _WIDTHS[field]
    table = values[:, None] if values.ndim == 1 else values
    if table.ndim != 2 or table.shape[1] != width:
        raise ValueError(f"{path}: {field} has shape {values.shape}; expected (N, {width})")
    return table.astype(np.float64)


def _columns(name: str, table: Array) -> dict[str, Array]:
    if name == _YAW:
        return {_YAW: table[:, 2]}
    if name.endswith("_lanes"):
        along = np.linspace(0.0, 1.0, POINTS)
        side = name.removesuffix("_lanes")
        points = {"x": lane_points(table[:, :4], along), "y": lane_points(table[:, 4:], along)}
        return {f"{side}_{axis}{k}": points[axis][:, k] for k in range(POINTS) for axis in "xy"}
    if table.shape[1] == 1:
        return {name: table[:, 0]}
    return {f"{name}_{axis}": column for axis, column in zip("xyz", table.T, strict=False)}


def _table(
    columns: Mapping[str, Mapping[str, Array]], fields: tuple[str, ...]
) -> tuple[Array, tuple[str, ...]]:
    named = {name: values for field in fields for name, values in columns[field].items()}
    return np.column_stack(list(named.values())), tuple(named)


def _cut(breaks: NDArray[np.bool_]) -> tuple[tuple[int, int], ...]:
    """``(start, stop)`` of the runs of ``N`` rows; ``breaks (N - 1,)``: whether one ends there."""
    cuts = [0, *(np.flatnonzero(breaks) + 1).tolist(), len(breaks) + 1]
    return tuple(pairwise(cuts))
