"""Model files: one file, numbers and a checked header, no pickle.

``container`` is the file, ``schema`` what its header may say, ``estimators`` and ``forecasters`` take
models apart, ``rebuild`` puts them together.
"""

from seqgp.artifact.files import info, load, save

__all__ = ["info", "load", "save"]
