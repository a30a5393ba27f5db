"""What can go wrong beyond bad input (which is always a ``ValueError``)."""

from __future__ import annotations

__all__ = [
    "ArtifactError",
    "NotPositiveDefiniteError",
    "TrainingWarning",
    "UnknownNameError",
]


class ArtifactError(ValueError):
    """A model file cannot be read or made; the text says why in one sentence, and what to do."""


class UnknownNameError(ValueError):
    """Nothing is registered under a name; the text lists the names that are known."""


class NotPositiveDefiniteError(RuntimeError):
    """The kernel matrix could not be factorised even with the largest jitter."""


class TrainingWarning(UserWarning):
    """Training finished, but the model it found is suspicious; the text says why and what to do."""
