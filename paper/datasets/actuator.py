"""A hydraulic actuator: oil pressure from the valve's position."""

from paper.datasets.entry import Entry
from paper.datasets.files import File
from paper.datasets.matlab import mat_reader

__all__ = ["ENTRY"]

ENTRY = Entry(
    name="actuator",
    rows=1024,
    input_names=("u",),
    target_names=("p",),
    description="Hydraulic actuator of a crane: valve position u to oil pressure p.",
    source="DTU; GitHub zhenwendai/RGP",
    licence="not stated for the recording; the repository is BSD 3-Clause",
    files=(
        File(
            path="sysid/actuator.mat",
            sha256="35d1f95176afd856eb4fe0e2f87e3dff39657db8e6fcf7c531078c8f4eb571e4",
            url="https://raw.githubusercontent.com/zhenwendai/RGP/"
            "e55e66d36692a5163f2091bae695a7c6f7d623e8/datasets/system_identification/actuator.mat",
        ),
    ),
    read=mat_reader(inputs=("u",), targets=("p",)),
)
