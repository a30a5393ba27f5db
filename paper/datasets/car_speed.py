"""Car: speed from the accelerations and turn rates, on ten drives.

The recordings are at 100 Hz; a row is the mean over 0.1 s. The target is the speed of a wheel, which
was aligned with the GPS speed of the same drive by cross-correlation: its delay against the other
sensors is only as good as that. GPS velocity, which the paper has among its inputs, is left out: its
length is the target. Two more drives have no wheel speed, and all their rows are holes.
"""

from paper.datasets.entry import Entry
from paper.datasets.files import File
from paper.datasets.npz import npz_reader

__all__ = ["ENTRY"]

_STEP = 0.1
_INPUTS = ("acc_x", "acc_y", "acc_z", "gyro_x", "gyro_y", "gyro_z")
_TARGET = "wheel_speed"

ENTRY = Entry(
    name="car-speed",
    rows=13_495,
    input_names=_INPUTS,
    target_names=(_TARGET,),
    description=(
        "Speed of a car (m/s, of a wheel) from accelerations (g) and turn rates (°/s), ten "
        "drives, means over 0.1 s. The wheel speed was aligned with GPS by cross-correlation."
    ),
    source="GitHub ansfl/WID",
    licence="not stated",
    files=(
        File(
            path="car/wid_mru_100hz.npz",
            sha256="e99ecde6947e0278069cc3af473138aa0451e8163133e7a8d21d5f0239ec1a95",
        ),
    ),
    read=npz_reader(_INPUTS, _TARGET, _STEP),
    sample_time=_STEP,
)
