"""System identification: a hydraulic actuator and coupled electric drives, both of table 2."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from scipy.io import loadmat

from paper.datasets.recording import Entry, Rows
from seqgp.demo import DataFile

__all__ = ["ACTUATOR", "DRIVES"]

_HOME = (
    "https://raw.githubusercontent.com/zhenwendai/RGP/"
    "e55e66d36692a5163f2091bae695a7c6f7d623e8/datasets/system_identification/"
)
_LICENCE = "not stated for the recording; the repository is BSD 3-Clause"


def _read(paths: Sequence[Path], input_name: str, target_name: str) -> Rows:
    """One input and one target, two variables of a ``.mat`` file."""
    (path,) = paths
    variables = loadmat(path, variable_names=[input_name, target_name])
    # float64 of this machine: old files are big-endian, or store ±1 as integers.
    u, y = (np.ravel(variables[name]).astype(np.float64) for name in (input_name, target_name))
    return Rows(inputs=u[:, None], targets=y)


ACTUATOR = Entry(
    name="actuator",
    rows=1024,
    input_names=("u",),
    target_names=("p",),
    description="Hydraulic actuator of a crane: valve position u to oil pressure p.",
    source="DTU; GitHub zhenwendai/RGP",
    licence=_LICENCE,
    files=(
        DataFile(
            path="sysid/actuator.mat",
            sha256="35d1f95176afd856eb4fe0e2f87e3dff39657db8e6fcf7c531078c8f4eb571e4",
            url=_HOME + "actuator.mat",
        ),
    ),
    read=partial(_read, input_name="u", target_name="p"),
)

DRIVES = Entry(
    name="drives",
    rows=500,
    input_names=("u1",),
    target_names=("z1",),
    description=(
        "Two electric motors that drive one belt: a random binary voltage u1 to the speed z1, "
        "measured without its sign."
    ),
    source="Coupled electric drives, DATAPRBS; GitHub zhenwendai/RGP",
    licence=_LICENCE,
    files=(
        DataFile(
            path="sysid/drives.mat",
            sha256="47d0825678d854d8a1bbcfb0ad1188026b853f69beb2067ea00cfd88d13dc4ca",
            url=_HOME + "drive.mat",
        ),
    ),
    read=partial(_read, input_name="u1", target_name="z1"),
    sample_time=0.02,
)
