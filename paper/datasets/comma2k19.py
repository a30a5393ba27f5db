"""Drives in the layout of comma2k19: one-minute segments, each signal a folder with ``t`` and ``value``.

Signals have different rates; here each is put on one clock by the mean over each step, without using
later samples. GNSS speed and bearing become a velocity, east and north; radar tracks become the
nearest vehicle ahead in the car's path.

References:
    Schafer, Santana, Haden, Biasini: A Commute in Data: The comma2k19 Dataset, 2018,
    arXiv:1812.05752.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from paper.datasets.recording import Array, Dataset, Rows, bin_means, elapsed, join, ticks

__all__ = ["TASKS", "load", "load_segment"]

_AXES = ("forward", "right", "down")
_ACC, _GYRO, _MAG = (tuple(f"{name}_{axis}" for axis in _AXES) for name in ("acc", "gyro", "mag"))
_VELOCITY = ("v_east", "v_north")
_LEAD = ("lead_x", "lead_y")

TASKS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "speed": ((*_VELOCITY, *_GYRO), ("speed",)),
    "yaw": ((*_ACC, *_MAG), ("gyro_down",)),
    "lead": ((*_VELOCITY, *_GYRO, *_MAG, "steering_angle"), _LEAD),
}
"""Inputs and targets of the paper's tasks that these signals allow: columns of ``load_segment``."""

_SIGNALS = {
    "CAN/speed": ("speed",),
    "CAN/steering_angle": ("steering_angle",),
    "IMU/accelerometer": _ACC,
    "IMU/gyro": _GYRO,
    "IMU/magnetometer": _MAG,
}
_GNSS, _RADAR = "GNSS/live_gnss_ublox", "CAN/radar"
_GNSS_SPEED, _GNSS_BEARING = 2, 5
_AHEAD, _LEFT, _TRACK = 0, 1, 5
_HALF_PATH = 1.8  # metres: half of a highway lane
_SLOWEST = 2.0  # m/s: below it, yaw rate over speed says nothing about the path
_HOLD = (
    3  # steps for which the last value is kept: GNSS and compass have hardly more than one a step
)


def load(folder: str | Path, task: str = "speed", step: float = 0.1) -> Dataset:
    """All segments in ``folder`` or below it, for one of ``TASKS``; a segment is a series.

    Rows in which an input or a target is missing (no vehicle ahead, say) are left out.

    Args:
        folder: of a segment, a route or a chunk.
        task: one of ``TASKS``.
        step: seconds between two rows.
    """
    if task not in TASKS:
        raise ValueError(f"task is {task!r}; expected one of {', '.join(map(repr, TASKS))}")
    folder = Path(folder)
    found = sorted(path.parent for path in folder.rglob("processed_log") if path.is_dir())
    if not found:
        raise ValueError(
            f"{folder} has no folder processed_log in it or below it: give the folder of a "
            "segment, a route or a chunk of comma2k19"
        )
    inputs, targets = TASKS[task]
    parts: dict[str, Rows] = {}
    missing = 0
    for segment in found:
        table = load_segment(segment, step)
        known = table[[*inputs, *targets]].notna().all(axis=1).to_numpy()
        missing += int((~known).sum())
        if known.any():
            y = table[list(targets)].to_numpy()
            name = segment.relative_to(folder).as_posix()
            parts[name if name != "." else segment.resolve().name] = Rows(
                inputs=table[list(inputs)].to_numpy(),
                targets=y[:, 0] if len(targets) == 1 else y,
                times=table.index.to_numpy(),
            ).where(known)
    if not parts:
        raise ValueError(
            f"no row in {folder} has all of {', '.join((*inputs, *targets))}: use another task"
        )
    rows = {**vars(join(parts)), "holes": {"rows with a missing value": missing}}
    return Dataset(
        **rows,
        name=f"comma2k19-{task}",
        input_names=inputs,
        target_names=targets,
        sample_time=step,
    )


def load_segment(folder: str | Path, step: float = 0.1) -> pd.DataFrame:
    """All signals of one segment, ``(N, 15)``, every ``step`` seconds; NaN where one is missing.

    Columns: ``speed`` (m/s), ``steering_angle`` (°), ``acc_*`` (m/s²), ``gyro_*`` (rad/s), ``mag_*``,
    each forward, right and down; ``v_east``, ``v_north`` (m/s); ``lead_x``, ``lead_y`` (m ahead and to
    the left). The index is the time since the first sample of the speed.

    Args:
        folder: of the segment.
        step: seconds between two rows.
    """
    if not step > 0:
        raise ValueError(f"step is {step}; expected seconds above 0")
    log = Path(folder) / "processed_log"
    signals = {name: _signal(log / name, len(columns)) for name, columns in _SIGNALS.items()}
    times = signals["CAN/speed"][0]
    start = float(times.min())
    clock = ticks(start, float(times.max()), step)
    if not len(clock):
        raise ValueError(f"{log / 'CAN/speed'} is shorter than one step of {step} s")
    table = pd.DataFrame(index=pd.Index(elapsed(clock, start), name="time"))
    for name, columns in _SIGNALS.items():
        table[list(columns)] = bin_means(*signals[name], clock, step, _HOLD)

    times, gnss = _signal(log / _GNSS, 6)
    bearing = np.radians(gnss[:, _GNSS_BEARING])
    # As a velocity before averaging: 359° and 1° have no mean as angles.
    velocity = gnss[:, [_GNSS_SPEED]] * np.column_stack([np.sin(bearing), np.cos(bearing)])
    table[list(_VELOCITY)] = bin_means(times, velocity, clock, step, _HOLD)

    with np.errstate(divide="ignore", invalid="ignore"):
        right_turn = (table["gyro_down"] / table["speed"]).to_numpy()
    curvature = np.where(table["speed"].to_numpy() > _SLOWEST, -right_turn, 0.0)
    times, tracks = _signal(log / _RADAR, 7)
    table[list(_LEAD)] = _nearest(times, tracks, clock, step, curvature)
    return table


def _nearest(
    times: Array, tracks: Array, clock: Array, step: float, curvature: Array
) -> NDArray[np.float64]:
    """``(N, 2)``: where the nearest track ahead in the path is at each tick, NaN without one.

    The path is an arc of ``curvature`` (1/m, to the left); a track's last sample in a step counts.
    """
    lead = np.full((len(clock), 2), np.nan)
    bins = np.ceil((times - clock[0]) / step - 1e-6).astype(np.int64)
    for tick in range(len(clock)):
        last = {row[_TRACK]: row for row in tracks[bins == tick]}  # later samples replace earlier
        for row in last.values():
            x, y = row[_AHEAD], row[_LEFT]
            aside = abs(y - curvature[tick] * x**2 / 2)
            if x > 0 and aside < _HALF_PATH and not x >= lead[tick, 0]:
                lead[tick] = x, y
    return lead


def _signal(folder: Path, width: int) -> tuple[Array, Array]:
    """Times ``(n,)`` and values ``(n, width)`` of one signal."""
    try:
        times, values = (np.load(folder / name, allow_pickle=False) for name in ("t", "value"))
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{folder} is not a signal of comma2k19 ({error}): expected the files t and value in "
            "NumPy's format"
        ) from error
    values = values[:, None] if values.ndim == 1 else values
    if values.shape != (len(times), width) or not len(times):
        raise ValueError(
            f"{folder} has {times.shape} times and {values.shape} values; expected (n,) and "
            f"(n, {width}) with n > 0"
        )
    return times.astype(np.float64), values.astype(np.float64)
