"""Files: written whole or not at all, checked before they are believed."""

from seqgp.io.atomic import atomic_write, check_writable
from seqgp.io.container import Arrays, read, write
from seqgp.io.header import arguments, as_json, from_json

__all__ = [
    "Arrays",
    "arguments",
    "as_json",
    "atomic_write",
    "check_writable",
    "from_json",
    "read",
    "write",
]
