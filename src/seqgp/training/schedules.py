"""Learning-rate schedules, as factors on the base rate."""

from __future__ import annotations

import math
from collections.abc import Callable

from seqgp.options import Registry

__all__ = ["SCHEDULES", "Schedule", "register_schedule"]

Schedule = Callable[[int, int, int], float]
"""From the step ``t = 1, 2, …``, their total and the mini-batches between renewals to the factor."""

SCHEDULES: Registry[Schedule] = Registry("schedule")
register_schedule = SCHEDULES.register


@register_schedule("constant")
def _constant(t: int, total: int, delay: int) -> float:
    return 1.0


@register_schedule("cosine")
def _cosine(t: int, total: int, delay: int) -> float:
    return 0.5 * (1.0 + math.cos(math.pi * min(t - 1, total) / max(total, 1)))
