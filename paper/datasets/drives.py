"""Coupled electric drives: belt speed from the motors' voltage."""

from paper.datasets.entry import Entry
from paper.datasets.files import File
from paper.datasets.matlab import mat_reader

__all__ = ["ENTRY"]

ENTRY = Entry(
    name="drives",
    rows=500,
    input_names=("u1",),
    target_names=("z1",),
    description=(
        "Two electric motors that drive one belt: a random binary voltage u1 to the speed z1, "
        "measured without its sign."
    ),
    source="Coupled electric drives, DATAPRBS; GitHub zhenwendai/RGP",
    licence="not stated for the recording; the repository is BSD 3-Clause",
    files=(
        File(
            path="sysid/drives.mat",
            sha256="47d0825678d854d8a1bbcfb0ad1188026b853f69beb2067ea00cfd88d13dc4ca",
            url="https://raw.githubusercontent.com/zhenwendai/RGP/"
            "e55e66d36692a5163f2091bae695a7c6f7d623e8/datasets/system_identification/drive.mat",
        ),
    ),
    read=mat_reader(inputs=("u1",), targets=("z1",)),
    sample_time=0.02,
)
