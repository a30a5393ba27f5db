"""What the encoders share: checks of options and of windows ``(n, T, p)``, and dropout masks."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = [
    "check_rates",
    "check_sizes",
    "check_windows",
    "drop_mask",
    "drop_steps",
    "orthogonal_gates",
    "xavier_gates",
]


def check_sizes(**sizes: int) -> None:
    """Refuse anything but positive integers."""
    for name, value in sizes.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} is {value!r}; expected an integer >= 1.")


def check_rates(**rates: float) -> None:
    """Refuse dropout probabilities outside [0, 1)."""
    for name, value in rates.items():
        if not 0 <= value < 1:  # NaN fails this too
            raise ValueError(
                f"{name} is {value!r}; expected a probability in [0, 1), the share that is dropped."
            )


def check_windows(x: Tensor, input_size: int, lag: int | None = None) -> None:
    """Refuse windows that are not ``(n, T, input_size)``, or not of ``lag`` steps where given."""
    fits = x.ndim == 3 and x.shape[1] >= 1 and x.shape[2] == input_size
    if not fits or (lag is not None and x.shape[1] != lag):
        raise ValueError(
            f"windows have shape {tuple(x.shape)}; expected (n, {'T' if lag is None else lag}, "
            f"{input_size}). Cut the windows as they were cut when the encoder was built."
        )


def drop_mask(like: Tensor, size: int, rate: float) -> Tensor:
    """``(n, size)``: one dropout mask per sequence for ``like`` ``(n, ...)``, its mean 1."""
    keep = 1.0 - rate
    return like.new_empty(like.shape[0], size).bernoulli_(keep).div_(keep)


def drop_steps(x: Tensor, rate: float, training: bool) -> Tensor:
    """``(n, T, p) → (n, T, p)``: variational dropout, the same mask at all steps of a sequence.

    References:
        Gal and Ghahramani, A Theoretically Grounded Application of Dropout in Recurrent Neural
        Networks, 2016, arXiv:1512.05287.
    """
    if not training or rate == 0:
        return x
    return x * drop_mask(x, x.shape[2], rate).unsqueeze(1)


def orthogonal_gates(weight: Tensor) -> None:
    """Fill ``(gates * H, H)`` with one orthogonal matrix per gate."""
    for gate in torch.split(weight, weight.shape[1]):
        torch.nn.init.orthogonal_(gate)


def xavier_gates(weight: Tensor, hidden: int) -> None:
    """Fill ``(gates * hidden, p)`` with one Xavier matrix per gate: the gates' number is no fan."""
    for gate in torch.split(weight, hidden):
        torch.nn.init.xavier_uniform_(gate)
