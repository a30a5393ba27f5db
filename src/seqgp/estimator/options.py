"""Checks of the estimator's options, before any work is done."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import torch

from seqgp.inference import INFERENCES
from seqgp.means import MEANS
from seqgp.training import ALGORITHMS, SCHEDULES, SURROGATES

__all__ = ["check_options", "resolve_device"]

_CHOICES: dict[str, tuple[str, ...]] = {
    "algorithm": ALGORITHMS,
    "surrogate": tuple(SURROGATES),
    "schedule": SCHEDULES,
    "mean": MEANS,
    "inference": INFERENCES,
    "select": ("nlpd", "rmse"),
}
_AT_LEAST: dict[str, int] = {
    "latent_dim": 1,
    "epochs": 0,
    "batch_size": 1,
    "theta_steps": 0,
    "pretrain_epochs": 0,
    "restarts": 1,
}
_POSITIVE = ("lr", "theta_lr")


def check_options(options: dict[str, Any]) -> None:
    """Raise a ``ValueError`` for the first option, of those given, that is out of its range."""
    for name, choices in _CHOICES.items():
        if name in options and options[name] not in choices:
            raise ValueError(
                f"{name}={options[name]!r} is not known: use one of {', '.join(choices)}"
            )
    for name, least in _AT_LEAST.items():
        if name in options and not (_is_int(options[name]) and options[name] >= least):
            raise ValueError(f"{name}={options[name]!r} must be an integer of at least {least}")
    for name in _POSITIVE:
        if name in options and not (isinstance(options[name], Real) and options[name] > 0):
            raise ValueError(f"{name}={options[name]!r} must be a positive number")
    refresh = options.get("refresh", "epoch")
    if refresh != "epoch" and not (_is_int(refresh) and refresh >= 1):
        raise ValueError(
            f"refresh={refresh!r} must be a number of mini-batches of at least 1, or 'epoch'"
        )
    if not 0.0 <= options["validation_fraction"] < 1.0:
        raise ValueError(
            f"validation_fraction={options['validation_fraction']!r} must be in [0, 1)"
        )
    if options.get("readout") and (options["correlated"] or options["surrogate"] != "posterior"):
        raise ValueError(
            f"readout=True with correlated={options['correlated']!r} and "
            f"surrogate={options['surrogate']!r}: a readout needs independent outputs and "
            "surrogate='posterior'"
        )
    if options.get("correlated", False) not in (True, False, "auto"):
        raise ValueError(f"correlated={options['correlated']!r} must be True, False or 'auto'")
    rank = options.get("output_rank")
    if rank is not None and not (_is_int(rank) and rank >= 1):
        raise ValueError(
            f"output_rank={rank!r} must be an integer from 1 to the number of outputs, or None"
        )
    for name in ("patience", "grad_clip", "lag", "pretrain_lr"):
        value = options.get(name)
        if value is not None and not value > 0:
            raise ValueError(f"{name}={value!r} must be positive, or None")


def resolve_device(device: str | torch.device) -> torch.device:
    """The torch device meant; ``"auto"`` is CUDA where there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"device={device!r} is not known: use auto, cpu or cuda") from error
    if found.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device={device!r} was asked for, but torch sees no CUDA: use 'cpu'")
    return found


def _is_int(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)
