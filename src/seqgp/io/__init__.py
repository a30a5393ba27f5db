"""Files: how they are written."""

from seqgp.io.atomic import atomic_write, check_writable

__all__ = ["atomic_write", "check_writable"]
