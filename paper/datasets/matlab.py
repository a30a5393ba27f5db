"""Readers of MATLAB files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from paper.datasets.rows import Array, Rows

__all__ = ["mat_reader"]


def mat_reader(inputs: Sequence[str], targets: Sequence[str]) -> Callable[[Sequence[Path]], Rows]:
    """A reader of one ``.mat`` file whose variables of these names are the columns."""

    def read(paths: Sequence[Path]) -> Rows:
        from scipy.io import loadmat

        (path,) = paths
        variables = loadmat(path, variable_names=[*inputs, *targets])

        def columns(names: Sequence[str]) -> Array:
            # float64 of this machine: old files are big-endian, or store ±1 as integers.
            return np.stack([np.ravel(variables[name]).astype(np.float64) for name in names], -1)

        y = columns(targets)
        return Rows(inputs=columns(inputs), targets=y[:, 0] if len(targets) == 1 else y)

    return read
