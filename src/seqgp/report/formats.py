"""Numbers, names and spans of time as people write them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd
from pandas.tseries.frequencies import to_offset

__all__ = ["duration", "listed", "number", "percent"]

_UNITS = (("day", 86400.0), ("hour", 3600.0), ("minute", 60.0), ("second", 1.0))


def number(value: float) -> str:
    """A number for people: three digits, thousands apart.

    >>> number(1234567.0), number(0.012345), number(float("nan"))
    ('1,234,567', '0.0123', '–')
    """
    if not math.isfinite(value):
        return "–"
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.3g}"


def percent(share: float) -> str:
    """A share as percents with one decimal, none where there is nothing behind it.

    >>> percent(0.95), percent(0.8713)
    ('95%', '87.1%')
    """
    return f"{100 * share:.1f}".removesuffix(".0") + "%"


def listed(names: Sequence[str], most: int = 12) -> str:
    """Names in a row, as one says them.

    >>> listed(["a", "b", "c"]), listed(["a", "b", "c"], most=2)
    ('a, b and c', 'a, b and 1 more')
    """
    shown = list(names[:most])
    if len(names) > most:
        return f"{', '.join(shown)} and {len(names) - most} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)


def duration(steps: int, step: str | int) -> str:
    """So many steps, in a unit of time where the step has a fixed length.

    >>> duration(48, "h"), duration(1, "15min"), duration(3, 1), duration(2, "MS")
    ('2 days', '15 minutes', '3 rows', '2 rows')
    """
    rows = f"{steps} row{'s' * (steps != 1)}"
    if isinstance(step, int):
        return rows
    offset = to_offset(step)
    if isinstance(offset, pd.offsets.Day):
        seconds = 86400.0 * offset.n * steps
    elif isinstance(offset, pd.offsets.Tick):
        seconds = offset.nanos / 1e9 * steps
    else:
        return rows
    for name, unit in _UNITS:
        count = seconds / unit
        if count >= 1 and count == round(count):
            return f"{count:.0f} {name}{'s' * (count != 1)}"
    return f"{seconds:g} seconds"
