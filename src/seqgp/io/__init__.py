"""Files: written whole or not at all, checked before they are believed."""

from seqgp.io.container import Arrays, read, write
from seqgp.io.shelf import Shelf

__all__ = ["Arrays", "Shelf", "read", "write"]
