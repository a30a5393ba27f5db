"""Checkpoints: all of a fit's state in one file after every epoch, to go on from bit for bit."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from seqgp.exceptions import ArtifactError
from seqgp.io import read, write
from seqgp.training.state import State, nested, section

__all__ = ["Checkpoint", "Saved"]

_AFRESH = "delete it, or give another name, to train from the start"


@dataclass(frozen=True)
class Saved:
    """One training: as it ended, or after its last whole epoch."""

    state: State
    over: bool = False
    diverged: str | None = None


class Checkpoint:
    """The file of one fit, which is a fixed sequence of trainings (pre-training, members).

    A fit that finds its file goes through the same sequence again: trainings that were over give
    at once what they left, the last goes on where it was, and those after it are new.

    Args:
        path: where the file is, or will be.
        identity: what must be the same for the numbers to be the same: options, data, versions.
        seed: the fit's; where there is a file, the one in it takes its place.

    Raises:
        ValueError: there is a file, but it is damaged, no checkpoint, or one of another fit; or
            there is no folder for it.
    """

    def __init__(self, path: Path, identity: dict[str, str], seed: int) -> None:
        self.path, self.identity, self.seed = path, identity, seed
        self._trainings: list[Saved] = []
        self._current = -1
        if path.exists():
            self._read()
        elif not path.parent.is_dir():
            raise ValueError(
                f"checkpoint={str(path)!r} cannot be written, there is no folder {path.parent}: make "
                "it first, or write elsewhere"
            )

    def begin(self) -> Saved | None:
        """Move on to the next training of the sequence; what is known of it, if anything."""
        self._current += 1
        return self._trainings[self._current] if self._current < len(self._trainings) else None

    def save(self, state: State) -> None:
        """Write the file with the present training at the end of an epoch."""
        self._trainings[self._current :] = [Saved(state)]
        self._write()

    def finish(self, state: State, diverged: str | None) -> None:
        """The present training is over; the next one's first epoch writes that."""
        self._trainings[self._current :] = [Saved(state, True, diverged)]

    def remove(self) -> None:
        """The fit is over: what remains of it is the model."""
        self.path.unlink(missing_ok=True)

    def _write(self) -> None:
        fit = {
            "identity": self.identity,
            "seed": self.seed,
            "trainings": [{"over": t.over, "diverged": t.diverged} for t in self._trainings],
        }
        arrays = {
            name: value.detach().cpu().numpy()
            for k, training in enumerate(self._trainings)
            for name, value in nested(str(k), training.state).items()
        }
        write(self.path, {"checkpoint": fit}, arrays)

    def _read(self) -> None:
        try:
            text, arrays = read(self.path)
        except ArtifactError as error:
            raise ValueError(
                f"checkpoint={str(self.path)!r} is damaged or no checkpoint ({error}): {_AFRESH}"
            ) from error
        fit: dict[str, Any] | None = json.loads(text).get("checkpoint")
        if fit is None:
            raise ValueError(
                f"checkpoint={str(self.path)!r} is a model file, expected a checkpoint: give another "
                "name"
            )
        differences = _differences(fit["identity"], self.identity)
        if differences:
            raise ValueError(
                f"checkpoint={str(self.path)!r} is of another fit ({differences}): fit as then to go "
                f"on, or {_AFRESH}"
            )
        # In memory of torch's own: aligned as it was, so that sums round alike.
        state = {name: torch.tensor(value) for name, value in arrays.items()}
        self.seed = fit["seed"]
        self._trainings = [
            Saved(section(str(k), state), **about) for k, about in enumerate(fit["trainings"])
        ]


def _differences(then: dict[str, str], now: dict[str, str]) -> str:
    """Every entry in which the two differ, with both values.

    >>> _differences({"lr": "0.1", "hidden": "8"}, {"lr": "0.2", "hidden": "8"})
    'lr was 0.1 and is 0.2'
    """
    return ", ".join(
        f"{name} was {then.get(name, 'not there')} and is {now.get(name, 'not there')}"
        for name in {**then, **now}
        if then.get(name) != now.get(name)
    )
