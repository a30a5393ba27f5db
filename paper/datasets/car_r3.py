"""Car: the lane ahead and the vehicle ahead, on highways and city roads (R3 Driving Dataset).

Both tasks use the eight expert drives on public roads, at 10 Hz; the drives on a closed track, whose
crossings have no lanes, are left out. Inputs are the car's own speed, accelerations and yaw rate; the
past of the targets, which the paper has among its inputs, comes with ``mode="autoregression"``.
Coordinates are the car's: x ahead and y to the left, in metres.

``car-lanes``: the borders of the car's own lane, y at 0, 5, ..., 30 m ahead, 7 points each, from the
camera's cubics (which have y to the right; the sign is changed here). A frame whose lane is not 2 to
5 m wide at the car or not 1 to 7 m wide at 30 m is left out: something else was seen as a border.

``car-lead``: x and y of the nearest object ahead in the car's own lane. In all lanes, objects stand to
the left of the lane's middle by 0.04 of their distance, as if the object sensor were turned by that
angle against the camera: this is undone to decide who is in the lane, not in the targets. A frame
without such an object, or without a lane, is left out; a new object begins a new run.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paper.datasets.recording import Array, Entry, Rows, join
from seqgp.demo import DataFile

__all__ = ["LANES", "LEAD", "POINTS", "lane_points", "read_lanes", "read_lead"]

POINTS = 7
"""Points on each border of a lane: the first, the last, and five between them at equal steps."""

_STEP = 0.1
_INPUTS = ("v", "ax", "ay", "omega")
_AHEAD = np.linspace(0.0, 30.0, POINTS)
_WIDTH_HERE, _WIDTH_AHEAD = (2.0, 5.0), (1.0, 7.0)
_TILT = 0.04  # radians; the median over objects at 8 to 40 m, where it is 0.03 to 0.05


@dataclass(frozen=True, eq=False)
class _Drive:
    """Frames ``(N,)`` of one drive, and the objects ``(k,)`` seen in them."""

    inputs: Array
    left: Array
    """``(N, 4)``: the cubic of the left border, y to the left, lowest power first."""
    right: Array
    frame: NDArray[np.int64]
    """``(k,)``: the row of the frame in which an object was seen."""
    number: NDArray[np.int64]
    x: Array
    y: Array

    @property
    def times(self) -> NDArray[np.timedelta64]:
        """``(N,)``: since the first frame."""
        return np.round(1000 * _STEP * np.arange(len(self.inputs))).astype("timedelta64[ms]")

    def borders(self) -> tuple[Array, NDArray[np.bool_]]:
        """Points ``(N, 14)``, left then right, and whether they bound a lane ``(N,)``."""
        left, right = lane_points(self.left, _AHEAD), lane_points(self.right, _AHEAD)
        width = left - right
        lane = _between(width[:, 0], _WIDTH_HERE) & _between(width[:, -1], _WIDTH_AHEAD)
        return np.hstack([left, right]), lane


def lane_points(coefficients: ArrayLike, at: ArrayLike) -> Array:
    """``(N, k)``: cubics ``(N, 4)``, lowest power first, at the positions ``at (k,)``.

    >>> lane_points([[1.0, 2.0, 0.0, 1.0]], [0.0, 1.0, 2.0])
    array([[ 1.,  4., 13.]])
    """
    cubics = np.asarray(coefficients, dtype=np.float64)
    if cubics.ndim != 2 or cubics.shape[1] != 4:
        raise ValueError(f"coefficients have shape {cubics.shape}; expected (N, 4): cubics")
    points: Array = cubics @ np.vander(np.asarray(at, dtype=np.float64), 4, increasing=True).T
    return points


def read_lanes(paths: Sequence[Path]) -> Rows:
    """Speed, accelerations and yaw rate to the borders of the lane."""
    parts = {}
    lost = 0
    for name, drive in _drives(paths).items():
        points, lane = drive.borders()
        lost += int((~lane).sum())
        rows = Rows(inputs=drive.inputs, targets=points, times=drive.times)
        parts[name] = rows.where(lane)
    return replace(join(parts), holes={"frames without a lane": lost})


def read_lead(paths: Sequence[Path]) -> Rows:
    """Speed, accelerations and yaw rate to the position of the vehicle ahead."""
    parts = {}
    lost = 0
    for name, drive in _drives(paths).items():
        _, lane = drive.borders()
        nearest = _nearest_in_lane(drive, lane)
        lost += int((nearest < 0).sum())
        found = nearest >= 0
        if not found.any():
            continue
        parts[name] = Rows(
            inputs=drive.inputs,
            targets=np.column_stack([drive.x, drive.y])[nearest],
            times=drive.times,
            segments=_cut(np.where(found, drive.number[nearest], -1)),
        ).where(found)
    return replace(join(parts), holes={"frames without a vehicle ahead in the lane": lost})


def _nearest_in_lane(drive: _Drive, lane: NDArray[np.bool_]) -> NDArray[np.int64]:
    """``(N,)``: for each frame the object, or -1."""
    powers = np.vander(drive.x, 4, increasing=True)
    left = (drive.left[drive.frame] * powers).sum(axis=1)
    right = (drive.right[drive.frame] * powers).sum(axis=1)
    sideways = drive.y - _TILT * drive.x
    ahead = (drive.x > 0) & (sideways < left) & (sideways > right) & lane[drive.frame]
    nearest = np.full(len(drive.inputs), -1)
    # Far ones first, so that the nearest is written last.
    order = np.flatnonzero(ahead)[np.argsort(-drive.x[ahead], kind="stable")]
    nearest[drive.frame[order]] = order
    return nearest


def _cut(labels: NDArray[np.int64]) -> tuple[tuple[int, int], ...]:
    """``(start, stop)`` of each stretch of equal labels ``(N,)``."""
    cuts = [0, *(np.flatnonzero(np.diff(labels)) + 1).tolist(), len(labels)]
    return tuple(pairwise(cuts))


def _between(values: Array, limits: tuple[float, float]) -> NDArray[np.bool_]:
    return (values > limits[0]) & (values < limits[1])


def _drives(paths: Sequence[Path]) -> dict[str, _Drive]:
    (path,) = paths
    with np.load(path) as archive:
        ego, objects = archive["ego"], archive["objects"]
        ego_columns, columns = archive["ego_cols"].tolist(), archive["obj_cols"].tolist()
        scenarios = archive["scenarios"]
    drives = {}
    for index, (kind, name, *_, places) in enumerate(scenarios.tolist()):
        place = json.loads(places)
        if kind != "expert" or not (place["highway"] or place["urban"]):
            continue
        frames = ego[ego[:, 0] == index]
        seen = objects[objects[:, 0] == index]

        def lane(border: int, frames: Array = frames) -> Array:
            at = ego_columns.index(f"lane{border}_c0")
            return -frames[:, at : at + 4]

        drives[name] = _Drive(
            inputs=frames[:, [ego_columns.index(name) for name in _INPUTS]],
            left=lane(0),
            right=lane(1),
            frame=np.searchsorted(frames[:, 1], seen[:, 1]),
            number=seen[:, columns.index("id")].astype(np.int64),
            x=seen[:, columns.index("x")],
            y=seen[:, columns.index("y")],
        )
    return drives


_FILES = (
    DataFile(
        path="car/r3_driving.npz",
        sha256="645da94bcaf987b3aa0bc7237a2ac4abd559ce5ff679a2bcd49b4dbb716909c6",
    ),
)
_SOURCE = "GitHub rllab-snu/R3-Driving-Dataset"

LANES = Entry(
    name="car-lanes",
    rows=23_721,
    input_names=_INPUTS,
    target_names=tuple(f"{side}_{int(x)}m" for side in ("left", "right") for x in _AHEAD),
    description=(
        "Borders of the car's lane (m to the left, at 7 distances from 0 to 30 m) with its speed, "
        "accelerations and yaw rate; 8 drives on highways and city roads, 10 Hz."
    ),
    source=_SOURCE,
    licence="not stated",
    files=_FILES,
    read=read_lanes,
    sample_time=_STEP,
)

LEAD = Entry(
    name="car-lead",
    rows=3_415,
    input_names=_INPUTS,
    target_names=("x", "y"),
    description=(
        "Position (m ahead, m to the left) of the nearest vehicle ahead in the car's lane, with "
        "the car's speed, accelerations and yaw rate; 8 drives, 10 Hz, a run for each vehicle."
    ),
    source=_SOURCE,
    licence="not stated",
    files=_FILES,
    read=read_lead,
    sample_time=_STEP,
)
