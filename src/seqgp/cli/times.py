"""Which column of a table has the times of its rows, where nobody said."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from seqgp.cli.output import say

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["find_time"]


def find_time(df: pd.DataFrame, taken: Collection[str]) -> str | None:
    """The one column of dates that is not named otherwise, or None; said on stderr.

    Raises:
        ValueError: there are several.
    """
    import pandas as pd

    if isinstance(df.index, pd.DatetimeIndex):
        say("times are those of the table's index")
        return None
    found = [name for name in df.columns if name not in taken and _holds_dates(df[name])]
    if len(found) > 1:
        raise ValueError(
            f"several columns hold dates ({', '.join(found)}): say with --time which has the rows' times"
        )
    if not found:
        say("no column of dates: rows are counted, one step apart")
        return None
    say(f"time column: {found[0]} (the only one with dates)")
    return str(found[0])


def _holds_dates(column: Any) -> bool:
    """Whether all values of a column are dates; its order is checked later, with a message."""
    import pandas as pd
    from pandas.api import types

    if isinstance(column, pd.DataFrame) or types.is_numeric_dtype(column.dtype):
        return False
    if types.is_datetime64_any_dtype(column.dtype):
        return True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # pandas' remarks on formats
        for values in (column.head(20), column):  # most columns of text are known by a few rows
            # Words such as "May" parse as dates too, so there must be a digit.
            if not values.astype(str).str.contains(r"\d").all():
                return False
            if pd.to_datetime(values, errors="coerce", utc=True).isna().any():
                return False
    return True
