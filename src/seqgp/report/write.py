"""``write_report``: gather, put into words and pictures, write in one stroke."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import pandas as pd

from seqgp.forecasting import Forecaster
from seqgp.report.findings import gather
from seqgp.report.formats import listed
from seqgp.report.page import page
from seqgp.report.sections import sections

__all__ = ["write_report"]


def write_report(
    forecaster: Forecaster,
    df: pd.DataFrame,
    path: str | os.PathLike[str],
    title: str | None = None,
) -> None:
    """Write one self-contained HTML page on how well ``forecaster`` predicts the rows of ``df``.

    Rows that the model was trained on say little about new ones: where ``df`` goes on after them, only
    the rows after them are scored, and the page says so. Either the whole page is written, or a
    file that was there before stays as it was.

    Args:
        forecaster: fitted.
        df: rows with the columns it was fitted with, targets included.
        path: the file to write, such as ``report.html``.
        title: heading of the page; by default it names the targets.

    Raises:
        ValueError: the path cannot be a file, or the rows do not fit the forecaster or have nothing
            to score.
        OSError: the disk is full, or not ours to write to.
    """
    file = Path(path)
    if file.is_dir():
        raise ValueError(f"{file} is a folder: give the name of the file to write")
    if not file.parent.is_dir():
        raise ValueError(f"there is no folder {file.parent}: make it first, or write elsewhere")
    findings = gather(forecaster, df)
    heading = title or f"Forecast of {listed(findings.targets)}"
    text = page(heading, sections(findings))
    _write(file, text.encode("utf-8", "replace"))


def _write(path: Path, raw: bytes) -> None:
    temporary = path.with_name(f".{path.name[:200]}.{secrets.token_hex(4)}.tmp")
    try:
        temporary.write_bytes(raw)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)  # gone already, unless something failed
