"""Car, from motion sensors: speed on ten drives, and yaw rate on the drives of KITTI.

Both recordings are at 100 Hz; a row is the mean over 0.1 s.

``car-speed``: the target is the speed of a wheel, which was aligned with the GPS speed of the same
drive by cross-correlation, so its delay against the other sensors is only as exact as that alignment.
GPS velocity, which the paper has among its inputs, is left out: its length is the target. Two more
drives have no wheel speed and are left out.

``car-yaw``: in a curve the sideways acceleration is speed times yaw rate, and the speed is not given:
a model has to infer it from the window. Samples are missing, and a run ends where 0.1 s has none. The
paper's task also has a compass, which these drives lack.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from paper.datasets.recording import Entry, Rows, bin_means, elapsed, join, ticks
from seqgp.demo import DataFile

__all__ = ["SPEED", "YAW", "read_drives"]

_STEP = 0.1
_ACCELERATIONS = ("acc_x", "acc_y", "acc_z")
_SENSORS = (*_ACCELERATIONS, "gyro_x", "gyro_y", "gyro_z")


def read_drives(paths: Sequence[Path], inputs: Sequence[str], target: str) -> Rows:
    """One ``.npz`` file with a table for each drive, and ``cols`` with the names of their columns.

    A row is the mean over 0.1 s of the column ``t``, named by their end. Rows in which a value is
    missing are left out.

    Args:
        paths: of the one file.
        inputs: columns that are inputs.
        target: the column that is the target.
    """
    (path,) = paths
    drives = {}
    missing = 0
    with np.load(path) as archive:
        columns = archive["cols"].tolist()
        wanted = [columns.index(name) for name in (*inputs, target)]
        for drive in sorted(set(archive.files) - {"cols"}):
            samples = archive[drive].astype(np.float64)
            times = samples[:, columns.index("t")]
            clock = ticks(times[0], times[-1], _STEP)
            rows = bin_means(times, samples[:, wanted], clock, _STEP)
            known = np.isfinite(rows).all(axis=1)
            missing += int((~known).sum())
            if known.any():
                drives[drive] = Rows(
                    inputs=rows[:, :-1], targets=rows[:, -1], times=elapsed(clock, times[0])
                ).where(known)
    return replace(join(drives), holes={f"rows without inputs or {target}": missing})


SPEED = Entry(
    name="car-speed",
    rows=13_495,
    input_names=_SENSORS,
    target_names=("wheel_speed",),
    description=(
        "Speed of a car (m/s, of a wheel) from accelerations (g) and turn rates (°/s), ten "
        "drives, means over 0.1 s. The wheel speed was aligned with GPS by cross-correlation."
    ),
    source="GitHub ansfl/WID",
    licence="not stated",
    files=(
        DataFile(
            path="car/wid_mru_100hz.npz",
            sha256="e99ecde6947e0278069cc3af473138aa0451e8163133e7a8d21d5f0239ec1a95",
        ),
    ),
    read=partial(read_drives, inputs=_SENSORS, target="wheel_speed"),
    sample_time=_STEP,
)

YAW = Entry(
    name="car-yaw",
    rows=41_031,
    input_names=_ACCELERATIONS,
    target_names=("yaw_rate",),
    description=(
        "Yaw rate of a car (rad/s, left is positive) from accelerations (m/s²: forward, left, "
        "up), 43 drives in and around Karlsruhe, means over 0.1 s."
    ),
    source="KITTI raw; GitHub mkutay/nn-dead-reckoning",
    licence="CC BY-NC-SA 3.0",
    files=(
        DataFile(
            path="car/kitti_raw_100hz.npz",
            sha256="df5c4ddc64cf7997a271dfeeccae0ff3177b3ce88432c95bc7ec0941e4e4d02c",
        ),
    ),
    read=partial(read_drives, inputs=_ACCELERATIONS, target="gyro_z"),
    sample_time=_STEP,
)
