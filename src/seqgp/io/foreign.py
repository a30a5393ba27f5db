"""What a file that is no model seems to be, so that the refusal can say what went wrong."""

from __future__ import annotations

from typing import BinaryIO

__all__ = ["what_it_is"]

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
