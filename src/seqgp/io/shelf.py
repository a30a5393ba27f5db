"""The arrays of a model file while a model is made of them: each taken once, none left over."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqgp.exceptions import ArtifactError
from seqgp.io.container import Arrays

__all__ = ["Shelf"]

_DTYPES = {
    torch.float32: np.dtype(np.float32),
    torch.float64: np.dtype(np.float64),
    torch.int64: np.dtype(np.int64),
    torch.bool: np.dtype(np.bool_),
}


class Shelf:
    """Arrays by name, of which every one must be wanted, with the shape and type wanted.

    >>> shelf = Shelf({"a": np.zeros((2, 3))})
    >>> shelf.take("a", (None, 3)).shape
    (2, 3)
    >>> shelf.close()
    """

    def __init__(self, arrays: Arrays, prefix: str = "") -> None:
        self._left = dict(arrays)
        self._prefix = prefix  # of the names that messages have

    def __len__(self) -> int:
        return len(self._left)

    @property
    def numbers(self) -> int:
        """How many, in all arrays."""
        return sum(array.size for array in self._left.values())

    def under(self, prefix: str) -> Shelf:
        """A shelf of the arrays whose names begin so, without that beginning; this one has them no more."""
        names = [name for name in self._left if name.startswith(prefix)]
        taken = {name.removeprefix(prefix): self._left.pop(name) for name in names}
        return Shelf(taken, prefix)

    def shape(self, name: str) -> tuple[int, ...]:
        """Of the array ``name``, which stays."""
        if name not in self._left:
            raise ArtifactError(f"the array {self._prefix + name} is missing")
        return self._left[name].shape

    def take(
        self,
        name: str,
        shape: tuple[int | None, ...],
        dtype: torch.dtype = torch.float64,
        finite: bool = True,
    ) -> NDArray[Any]:
        """The array ``name``; None in ``shape`` stands for any length."""
        full = self._prefix + name
        try:
            array = self._left.pop(name)
        except KeyError:
            raise ArtifactError(f"the array {full} is missing") from None
        fits = len(array.shape) == len(shape) and all(
            wanted in (None, got) for got, wanted in zip(array.shape, shape, strict=True)
        )
        if not fits or array.dtype != _DTYPES[dtype]:
            wanted = ", ".join("any" if size is None else str(size) for size in shape)
            raise ArtifactError(
                f"the array {full} is {array.dtype} {array.shape}, expected {_DTYPES[dtype]} ({wanted})"
            )
        if finite and not np.isfinite(array).all():
            raise ArtifactError(f"the array {full} has values that are NaN or infinite")
        return array

    def tensor(
        self,
        name: str,
        shape: tuple[int | None, ...],
        device: torch.device,
        dtype: torch.dtype = torch.float64,
    ) -> Tensor:
        """The same as a tensor of its own memory: aligned as torch's, so that sums round alike."""
        return torch.tensor(self.take(name, shape, dtype), dtype=dtype, device=device)

    def close(self) -> None:
        """Refuse what nobody wanted."""
        if self._left:
            name = self._prefix + min(self._left)
            raise ArtifactError(f"there is an array {name!r:.100} that nothing asks for")
