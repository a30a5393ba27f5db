"""The paper's learning rates, as a plug-in."""

from __future__ import annotations

from seqgp.training import register_schedule

__all__ = ["theorem"]

_DELTA = 0.1  # the theorems allow any δ in (0, 1]; a small one decays slowest


@register_schedule("theorem")
def theorem(t: int, total: int, delay: int) -> float:
    """The rate under which the paper proves convergence: ``1 / t^{(1+δ)/2}`` over the delay.

    With a delay of 1 (the posterior is renewed at every step) it is that of theorem 1, else of theorem 2.

    Args:
        t: the step, from 1 on.
        total: number of steps.
        delay: mini-batches between two renewals of the posterior.

    References:
        Learning Scalable Deep Kernels with Recurrent Structure, Al-Shedivat et al. 2017,
        arXiv:1610.08936, theorems 1 and 2.

    >>> theorem(1, 100, 1), round(theorem(100, 100, 1), 3)
    (1.0, 0.079)
    """
    rate: float = 1.0 / (delay * t ** ((1.0 + _DELTA) / 2.0))
    return rate
