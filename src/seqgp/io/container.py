"""The file itself: a safetensors container with one JSON header, checked as a whole, never executed.

The layout is that of safetensors: eight bytes of length, a JSON index, the numbers. The index holds
the header as text under the single metadata key ``seqgp``. Its field ``digest`` is the sha256 of
the whole file with zeros in the digest's place, so that no byte can change unnoticed.
"""

from __future__ import annotations

import hashlib
import json
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from seqgp.exceptions import ArtifactError
from seqgp.io.atomic import atomic_write, check_writable

__all__ = ["FORMAT", "Arrays", "read", "what_it_is", "write"]

Arrays = dict[str, NDArray[Any]]

FORMAT = 1
"""The file format written, and the newest that can be read."""
_KEY = "seqgp"
_OPENING = b'{"__metadata__":{"seqgp":"'  # how the index of a model file begins
_LENGTH = 8  # bytes that hold the length of the index
_LONGEST_INDEX = 16 * 2**20
_ZEROS = "0" * 64
_DTYPES = ("F32", "F64", "I64", "U8", "BOOL")  # the last two in checkpoints only


def write(path: Path, header: Mapping[str, Any], arrays: Arrays) -> None:
    """Write a model file in one stroke: either all of it is there afterwards, or nothing changed.

    Raises:
        ArtifactError: there is no such folder, or the path is a folder.
        OSError: the disk is full, or not ours to write to.
    """
    try:
        check_writable(path)
    except ValueError as error:
        raise ArtifactError(str(error)) from None
    raw = _packed(header, arrays)
    with atomic_write(path) as temporary:
        temporary.write_bytes(raw)


def read(path: Path) -> tuple[str, Arrays]:
    """The header's text and the arrays of a model file, unchanged since it was written.

    Raises:
        ArtifactError: there is no such file, or it is not a whole, unchanged model file of a format
            known here.
    """
    raw = _raw(path)
    end = _LENGTH + int.from_bytes(raw[:_LENGTH], "little")
    text = _header_text(path, raw[_LENGTH:end])
    _check_format(path, text)
    _check_digest(path, raw, end, text)
    try:
        return text, safetensors.numpy.load(raw)
    except (safetensors.SafetensorError, ValueError, TypeError, LookupError) as error:
        raise ArtifactError(f"{path} is not a valid model file: {_line(error)}") from error


def _packed(header: Mapping[str, Any], arrays: Arrays) -> bytes:
    # The digest comes first, where nothing else can be taken for it.
    text = json.dumps({"format": FORMAT, "digest": _ZEROS} | dict(header), allow_nan=False)
    # In C order: safetensors writes the memory of an array as it lies, whatever its strides.
    dense = {name: np.array(value, order="C") for name, value in arrays.items()}
    raw: bytes = safetensors.numpy.save(dense, metadata={_KEY: text})
    at = raw.index(_ZEROS.encode())
    digest = hashlib.sha256(raw).hexdigest().encode()
    return raw[:at] + digest + raw[at + len(digest) :]


def _raw(path: Path) -> bytes:
    """All bytes, once the first ones and the size say that they can be a model file's."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise ArtifactError(f"{path} is a folder: give the model file inside it")
        if not stat.S_ISREG(mode):  # opening a pipe would wait for ever
            raise ArtifactError(f"{path} is not a regular file: give the file that save wrote")
        with path.open("rb") as file:
            start = file.read(_LENGTH + len(_OPENING))
            index = int.from_bytes(start[:_LENGTH], "little")
            if _LENGTH < len(start) < _LENGTH + len(_OPENING) and start.endswith(
                _OPENING[: len(start) - _LENGTH]
            ):
                raise ArtifactError(_cut(path, len(start)))
            if start[_LENGTH:] != _OPENING:
                raise ArtifactError(f"{path} is not a seqgp model: {what_it_is(start, file)}")
            if index > _LONGEST_INDEX:
                raise ArtifactError(
                    f"{path} is not a valid model file: it claims a header of {index:,} bytes"
                )
            raw = start + file.read()
    except FileNotFoundError:
        raise ArtifactError(f"there is no file {path}: check the name and the folder") from None
    except ArtifactError:
        raise
    except (OSError, ValueError) as error:  # a name with a null character is a ValueError
        raise ArtifactError(f"{path} cannot be read: {_line(error)}") from error
    if len(raw) < _LENGTH + index:
        raise ArtifactError(_cut(path, len(raw)))
    return raw


def _header_text(path: Path, index: bytes) -> str:
    """The header in the index, whose claims about the arrays are checked against nothing yet."""
    try:
        parsed = json.loads(index)
        metadata = parsed.pop("__metadata__")
        kinds = {entry["dtype"] for entry in parsed.values()}
        text = metadata[_KEY]
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise ArtifactError(f"{path} is not a valid model file: its header is garbled") from error
    if list(metadata) != [_KEY] or not isinstance(text, str) or not kinds.issubset(_DTYPES):
        raise ArtifactError(f"{path} is not a valid model file: its header is not one of seqgp")
    return text


def _check_format(path: Path, text: str) -> None:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{path} is not a valid model file: its header is garbled") from error
    number = parsed.get("format") if isinstance(parsed, dict) else None
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise ArtifactError(f"{path} is not a valid model file: its header names no format")
    if number > FORMAT:
        raise ArtifactError(
            f"{path} was made by a newer seqgp (file format {number}, this one reads {FORMAT}): "
            "upgrade seqgp to read it"
        )


def _check_digest(path: Path, raw: bytes, end: int, text: str) -> None:
    digest = json.loads(text).get("digest")
    known = isinstance(digest, str) and len(digest) == len(_ZEROS) and digest.isascii()
    at = raw.find(digest.encode(), 0, end) if known else -1
    found = hashlib.sha256(raw[: max(at, 0)])
    found.update(_ZEROS.encode())
    found.update(memoryview(raw)[max(at, 0) + len(_ZEROS) :])
    if at < 0 or found.hexdigest() != digest:
        if _claimed(raw, end) > len(raw):
            raise ArtifactError(_cut(path, len(raw)))
        raise ArtifactError(
            f"{path} has changed since it was written (its checksum does not match): take the "
            "original file, or save the model again"
        )


def _claimed(raw: bytes, end: int) -> int:
    """The size that the file should have by its own index; 0 when the index does not say."""
    try:
        index = json.loads(raw[_LENGTH:end])
        return end + max(int(e["data_offsets"][1]) for n, e in index.items() if n[:2] != "__")
    except (ValueError, TypeError, LookupError, OverflowError):
        return 0


def _cut(path: Path, size: int) -> str:
    return f"{path} is only a part of a model file (it ends after {size:,} bytes): copy or save it again"


def _line(error: Exception) -> str:
    """The message on one line."""
    return " ".join(str(error).split())


_MAGIC = {
    b"PAR1": "a Parquet data file",
    b"\x1f\x8b": "a gzip file",
    b"\x89HDF": "an HDF5 file",
    b"PK\x03\x04": "a zip archive, or what torch.save writes, which seqgp never loads: it can run code",
    b"%PDF": "a PDF document",
    b"\x89PNG": "a picture",
}
_ADVICE = "give the file that save wrote"
_LOOK = 4096  # bytes, to tell text from the rest


def what_it_is(start: bytes, file: BinaryIO) -> str:
    """A clause that says what the file is, from its first bytes and, where needed, a few more."""
    if not start:
        return f"it is empty; {_ADVICE}"
    for magic, name in _MAGIC.items():
        if start.startswith(magic):
            return f"it is {name}; {_ADVICE}"
    if start[0] == 0x80 and start[1:2] and start[1] <= 5:
        return f"it is a pickle, which seqgp never loads: it can run code; {_ADVICE}"
    more = start + file.read(_LOOK)
    if _is_safetensors(more):
        return f"it is a safetensors file of another program; {_ADVICE}"
    if _is_text(more):
        return f"it is a text file, such as a CSV; {_ADVICE}, and the data separately"
    return f"it begins with other bytes than a model file does; {_ADVICE}"


def _is_safetensors(start: bytes) -> bool:
    return start[8:9] == b"{" and int.from_bytes(start[:8], "little") < 2**27


def _is_text(start: bytes) -> bool:
    # The last bytes may be half a character: those of a whole text decode but for the last three.
    for left in range(min(4, len(start))):
        try:
            text = start[: len(start) - left].decode("utf-8-sig")
        except UnicodeDecodeError:
            continue
        return all(c.isprintable() or c in "\r\n\t\f" for c in text)
    return False
