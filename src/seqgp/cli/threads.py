"""How many threads the commands train with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["one_thread"]


@contextmanager
def one_thread() -> Iterator[None]:
    """Within it torch has one thread.

    A small recurrent network gains nothing from a second one, and on a busy machine the two wait for each
    other: on two cores with two other trainings, ``seqgp fit`` on 2,700 hours (ten epochs and a report)
    took 287 s with two threads, and 11 s with one.
    """
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
