"""Learning-rate schedules, as factors on the base rate."""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = ["SCHEDULES", "make_schedule"]

SCHEDULES = ("constant", "cosine", "theorem")
_DELTA = 0.1  # the theorems allow any δ in (0, 1]; a small one decays slowest


def make_schedule(name: str, total: int, delay: int = 1) -> Callable[[int], float]:
    """A function from the step ``t = 1, 2, …, total`` to the factor on the learning rate.

    ``theorem`` is the rate under which the paper proves convergence: ``1 / t^{(1+δ)/2}`` when the
    posterior is refreshed at every step (its theorem 1), divided by the delay when it is refreshed
    every ``delay`` steps (its theorem 2).

    References:
        Learning Scalable Deep Kernels with Recurrent Structure, Al-Shedivat et al. 2017,
        arXiv:1610.08936, theorems 1 and 2.

    >>> rate = make_schedule("theorem", total=100)
    >>> rate(1), round(rate(100), 3)
    (1.0, 0.079)
    """
    if name == "constant":
        return lambda t: 1.0
    if name == "cosine":
        return lambda t: 0.5 * (1.0 + math.cos(math.pi * min(t - 1, total) / max(total, 1)))
    if name == "theorem":
        return lambda t: 1.0 / (delay * t ** ((1.0 + _DELTA) / 2.0))
    raise ValueError(f"schedule={name!r} is not known: use one of {', '.join(SCHEDULES)}")
