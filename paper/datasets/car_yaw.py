"""Car: yaw rate from the three accelerations, on the drives of KITTI.

In a curve the sideways acceleration is speed times yaw rate, and the speed is not given: a model
has to infer it from the window. The recordings are at 100 Hz with samples missing; a row is the
mean over 0.1 s, and a run ends where 0.1 s has no sample. The paper's task also has a compass,
which these drives lack.
"""

from paper.datasets.entry import Entry
from paper.datasets.files import File
from paper.datasets.npz import npz_reader

__all__ = ["ENTRY"]

_STEP = 0.1
_INPUTS = ("acc_x", "acc_y", "acc_z")
_TARGET = "gyro_z"

ENTRY = Entry(
    name="car-yaw",
    rows=41_031,
    input_names=_INPUTS,
    target_names=("yaw_rate",),
    description=(
        "Yaw rate of a car (rad/s, left is positive) from accelerations (m/s²: forward, left, "
        "up), 43 drives in and around Karlsruhe, means over 0.1 s."
    ),
    source="KITTI raw; GitHub mkutay/nn-dead-reckoning",
    licence="CC BY-NC-SA 3.0",
    files=(
        File(
            path="car/kitti_raw_100hz.npz",
            sha256="df5c4ddc64cf7997a271dfeeccae0ff3177b3ce88432c95bc7ec0941e4e4d02c",
        ),
    ),
    read=npz_reader(_INPUTS, _TARGET, _STEP),
    sample_time=_STEP,
)
