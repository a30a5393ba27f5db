"""What can go wrong beyond bad input (which is always a ``ValueError``)."""

from __future__ import annotations

__all__ = ["NotPositiveDefiniteError", "TrainingWarning"]


class NotPositiveDefiniteError(RuntimeError):
    """The kernel matrix could not be factorised even with the largest jitter."""


class TrainingWarning(UserWarning):
    """Training finished, but the model it found is suspicious; the text says why and what to do."""
