"""The state of training as one flat table of tensors, which a file can hold and a run go on from."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

__all__ = [
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
