"""Standardisation of the last axis, fitted on the training part and inverted on output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.preprocessing import StandardScaler

__all__ = ["Standardizer"]

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Standardizer:
    """``(..., k) → (..., k)``: ``(values - shift) / scale``, with ``shift`` and ``scale`` ``(k,)``.

    Fitted on a one-dimensional array, ``shift`` and ``scale`` are scalars ``()`` and apply to an
    array of any shape.

    Example:
        >>> z = Standardizer.fit(np.array([[1.0, 5.0], [3.0, 5.0]]))
        >>> z.transform([[2.0, 5.0]]), z.inverse_std([[0.5, 0.5]])
        (array([[0., 0.]]), array([[0.5, 0.5]]))
    """

    shift: Array
    scale: Array

    def __post_init__(self) -> None:
        shift = np.array(self.shift, dtype=np.float64)
        scale = np.array(self.scale, dtype=np.float64)
        if shift.shape != scale.shape or shift.ndim > 1:
            raise ValueError(
                f"shift has shape {shift.shape} and scale {scale.shape}; expected both (k,) or ()."
            )
        if not (np.isfinite(shift).all() and np.isfinite(scale).all() and (scale > 0).all()):
            raise ValueError(
                f"shift is {shift} and scale {scale}; expected finite values and scale > 0."
            )
        shift.flags.writeable = scale.flags.writeable = False
        object.__setattr__(self, "shift", shift)
        object.__setattr__(self, "scale", scale)

    @classmethod
    def fit(cls, values: ArrayLike) -> Standardizer:
        """Mean and standard deviation of the columns of ``values``, ``(n, k)`` or ``(n,)``.

        A column that is constant, or constant up to rounding, gets scale 1: it becomes zero
        instead of amplified rounding noise.
        """
        array = np.asarray(values, dtype=np.float64)
        if array.ndim not in (1, 2) or array.size == 0:
            raise ValueError(
                f"values has shape {array.shape}; expected (n, k) or (n,) with at least one row. "
                "For windows (n, T, p), fit on the rows: values.reshape(-1, p)."
            )
        if not np.isfinite(array).all():
            raise ValueError(
                f"values has {int((~np.isfinite(array)).sum())} NaN or infinite entries; expected "
                "finite numbers. Fill or drop them first."
            )
        scaler = StandardScaler().fit(array[:, None] if array.ndim == 1 else array)
        shift, scale = np.asarray(scaler.mean_), np.asarray(scaler.scale_)
        return cls(shift[0], scale[0]) if array.ndim == 1 else cls(shift, scale)

    def transform(self, values: ArrayLike) -> Array:
        """``(..., k) → (..., k)`` on the standardised scale."""
        out: Array = (self._checked(values) - self.shift) / self.scale
        return out

    def inverse(self, values: ArrayLike) -> Array:
        """``(..., k) → (..., k)`` back on the original scale."""
        out: Array = self._checked(values) * self.scale + self.shift
        return out

    def inverse_std(self, std: ArrayLike) -> Array:
        """``(..., k) → (..., k)``: standard deviations back on the original scale, not shifted."""
        out: Array = self._checked(std) * self.scale
        return out

    def _checked(self, values: ArrayLike) -> Array:
        array = np.asarray(values)
        if self.scale.ndim and array.shape[-1:] != self.scale.shape:
            raise ValueError(
                f"values has shape {array.shape}; expected a last axis of {len(self.scale)}, "
                "the number of columns this was fitted on."
            )
        return array
