"""Checkpoints: all of a fit's state in one file after every epoch, to go on from bit for bit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seqgp.exceptions import ArtifactError
from seqgp.io import read, write

__all__ = [
    "Checkpoint",
    "Saved",
    "State",
    "load_optimiser",
    "load_random",
    "nested",
    "optimiser_state",
    "random_state",
    "section",
]

State = dict[str, Tensor]


def nested(name: str, state: Mapping[str, Tensor]) -> State:
    """The same tensors under ``name.…``; :func:`section` is the way back.

    >>> section("a", nested("a", {"b": torch.tensor(1)}) | {"c": torch.tensor(2)})
    {'b': tensor(1)}
    """
    return {f"{name}.{key}": value for key, value in state.items()}


def section(name: str, state: Mapping[str, Tensor]) -> State:
    """What stands under ``name.…``, without that."""
    return {
        key.removeprefix(f"{name}."): value
        for key, value in state.items()
        if key.startswith(f"{name}.")
    }


def optimiser_state(optimiser: torch.optim.Optimizer) -> State:
    """An optimiser's moments and counts; its options are those it is built with."""
    return {
        f"{index}.{name}": value
        for index, each in optimiser.state_dict()["state"].items()
        for name, value in each.items()
    }


def load_optimiser(optimiser: torch.optim.Optimizer, state: Mapping[str, Tensor]) -> None:
    """Let an optimiser over the same parameters go on from :func:`optimiser_state`."""
    moments: dict[int, State] = {}
    for key, value in state.items():
        index, name = key.split(".")
        moments.setdefault(int(index), {})[name] = value
    groups = optimiser.state_dict()["param_groups"]
    optimiser.load_state_dict({"state": moments, "param_groups": groups})


def random_state(generator: torch.Generator | None, device: torch.device) -> State:
    """Where torch's own generators (dropout) and the run's (order of rows) stand."""
    state = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    if generator is not None:
        state["generator"] = generator.get_state()
    return state


def load_random(
    state: Mapping[str, Tensor], generator: torch.Generator | None, device: torch.device
) -> None:
    """Set the generators to where :func:`random_state` found them."""
    torch.set_rng_state(state["cpu"])
    if device.type == "cuda":
        torch.cuda.set_rng_state(state["cuda"], device)
    if generator is not None:
        generator.set_state(state["generator"])


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
