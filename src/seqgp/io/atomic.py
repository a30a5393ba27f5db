"""Atomic writes: a file is replaced as a whole or left as it was."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["atomic_write", "check_writable"]

_NAME = 60  # characters of the name that the temporary file repeats: at most 240 of 255 bytes


def check_writable(path: Path) -> None:
    """Refuse a path that cannot become a file; to be called before any long work.

    Raises:
        ValueError: the path is a folder, or its folder does not exist.
    """
    if path.is_dir():
        raise ValueError(f"{path} is a folder: give the name of the file to write")
    if not path.parent.is_dir():
        raise ValueError(f"there is no folder {path.parent}: make it first, or write elsewhere")


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """A temporary file name beside ``path``, which replaces ``path`` when the block ends.

    The block must create the temporary file. It is flushed to disk before it is renamed, so that
    a crash cannot leave a part of a file under the final name. If the block raises, an existing file
    stays unchanged and the temporary one is removed.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.txt"
    >>> with atomic_write(path) as temporary:
    ...     _ = temporary.write_text("all of it")
    >>> path.read_text()
    'all of it'

    Raises:
        ValueError: see :func:`check_writable`.
        OSError: the disk is full, or the folder is not writable.
    """
    check_writable(path)
    temporary = path.with_name(f".{path.name[:_NAME]}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)  # exists only if something failed
