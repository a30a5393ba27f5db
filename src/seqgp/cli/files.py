"""Tables in and out: CSV, gzip CSV and Parquet files, standard input and output; the time column.

The format is recognised by the first bytes, so a wrong suffix does not matter and a pipe needs none.
"""

from __future__ import annotations

import gzip
import io
import sys
import warnings
from collections.abc import Collection
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqgp.cli.output import say
from seqgp.io import atomic_write, check_writable

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PIPE", "check_output", "find_time", "read_data", "write_table"]

PIPE = "-"  # standard input or output instead of a file
_MODEL = b'{"__metadata__":{"seqgp":'  # in a model file, after eight bytes
_TABLES = "CSV (also gzipped) and Parquet"
_LOOK = 65_536  # bytes in which to look for a null character, which text does not have
_SUFFIXES = (".csv", ".csv.gz", ".parquet")


def read_data(path: str) -> pd.DataFrame:
    """The rows of a CSV, gzip CSV or Parquet file; ``-`` is standard input.

    Raises:
        ValueError: there is no such file, or it holds no table.
    """
    name, raw = _raw(path)
    if not raw:
        raise ValueError(f"{name} is empty: give a table with a header and rows")
    if raw[8 : 8 + len(_MODEL)] == _MODEL:
        raise ValueError(f"{name} is a seqgp model, expected data: give a table ({_TABLES})")
    if raw.startswith(b"PAR1"):
        return _parquet(name, raw)
    if raw.startswith(b"\x1f\x8b"):
        try:
            raw = gzip.decompress(raw)
        except (OSError, EOFError) as error:
            raise ValueError(f"{name} is a damaged gzip file ({error}): write it anew") from error
    return _csv(name, raw)


def check_output(path: str) -> None:
    """Refuse a path that :func:`write_table` cannot write, before any work is done."""
    if path == PIPE:
        return
    if not path.lower().endswith(_SUFFIXES):
        raise ValueError(
            f"no table can be written to {path}: use a name that ends in {', '.join(_SUFFIXES)}, or {PIPE}"
        )
    check_writable(Path(path))
    if path.lower().endswith(".parquet"):
        _need_pyarrow(path)


def write_table(frame: pd.DataFrame, path: str) -> None:
    """Write a table without its index.

    Args:
        frame: the table.
        path: its suffix gives the format; ``-`` prints CSV.
    """
    if path == PIPE:
        frame.to_csv(sys.stdout, index=False)
        return
    with atomic_write(Path(path)) as temporary:
        if path.lower().endswith(".parquet"):
            frame.to_parquet(temporary, index=False)
        else:
            zipped = path.lower().endswith(".gz")  # the temporary name does not say so
            frame.to_csv(temporary, index=False, compression="gzip" if zipped else None)


def _raw(path: str) -> tuple[str, bytes]:
    """Name of the source for messages, and its bytes."""
    if path == PIPE:
        return "standard input", sys.stdin.buffer.read()
    file = Path(path)
    if file.is_dir():
        raise ValueError(f"{path} is a folder: give a file in it")
    try:
        return path, file.read_bytes()
    except FileNotFoundError:
        raise ValueError(f"there is no file {path}: check the name and the folder") from None
    except (OSError, ValueError) as error:  # a name with a null character is a ValueError
        raise ValueError(f"{path} cannot be read: {error}") from error


def _csv(name: str, raw: bytes) -> pd.DataFrame:
    import pandas as pd

    if b"\0" in raw[:_LOOK]:
        raise ValueError(f"{name} is a binary file, expected a table: use {_TABLES}")
    header = raw.lstrip(b"\xef\xbb\xbf\r\n").split(b"\n", 1)[0]
    # With a decimal comma, columns are separated by semicolons.
    semicolons = b";" in header and b"," not in header
    separator = ";" if semicolons else "\t" if b"\t" in header and b"," not in header else ","
    try:
        with warnings.catch_warnings():
            # Otherwise fields without a name in the header are dropped with a warning.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(
                io.BytesIO(raw),
                sep=separator,
                decimal="," if semicolons else ".",
                encoding="utf-8-sig",
                index_col=False,
                low_memory=False,
            )
    except pd.errors.ParserWarning as error:
        raise ValueError(
            f"{name} has more fields in its rows than names in its header: give every column a name"
        ) from error
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name} is not text in UTF-8 (byte {error.start}): save it in that encoding, or check that "
            "it is a table"
        ) from error
    except ValueError as error:  # pandas' own, such as rows of different lengths
        raise ValueError(
            f"{name} is not a table in CSV form ({str(error).strip().rstrip('.')}): check that every row "
            "has as many fields as the header"
        ) from error
    if not len(frame):
        raise ValueError(f"{name} has a header and no rows: give at least one")
    return frame


def _parquet(name: str, raw: bytes) -> pd.DataFrame:
    import pandas as pd

    _need_pyarrow(name)
    try:
        return pd.read_parquet(io.BytesIO(raw))
    except (OSError, ValueError) as error:  # pyarrow's errors are of both kinds
        text = " ".join(str(error).split())
        raise ValueError(f"{name} is a damaged Parquet file ({text}): write it anew") from error


def _need_pyarrow(name: str) -> None:
    try:
        import_module("pyarrow")
    except ImportError:
        raise ValueError(
            f"{name} is a Parquet file, and reading or writing one needs pyarrow, which is not installed: "
            "run pip install 'seqgp[parquet]', or use CSV"
        ) from None


def find_time(df: pd.DataFrame, taken: Collection[str]) -> str | None:
    """The time column if none is named: the only column of dates, or None; reported on stderr.

    Args:
        df: the table.
        taken: columns named for another purpose.

    Raises:
        ValueError: several columns hold dates.
    """
    import pandas as pd

    if isinstance(df.index, pd.DatetimeIndex):
        say("times are those of the table's index")
        return None
    found = [name for name in df.columns if name not in taken and _holds_dates(df[name])]
    if len(found) > 1:
        raise ValueError(
            f"several columns hold dates ({', '.join(found)}): name the time column with --time"
        )
    if not found:
        say("no column of dates: rows are numbered, one step apart")
        return None
    say(f"time column: {found[0]} (the only one with dates)")
    return str(found[0])


def _holds_dates(column: pd.Series[Any] | pd.DataFrame) -> bool:
    """Whether all values of a column are dates; whether they increase is checked later."""
    import pandas as pd
    from pandas.api import types

    if isinstance(column, pd.DataFrame) or types.is_numeric_dtype(column.dtype):
        return False
    if types.is_datetime64_any_dtype(column.dtype):
        return True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # pandas' remarks on formats
        for values in (column.head(20), column):  # a few rows rule out most columns of text
            # Words such as "May" parse as dates too, so there must be a digit.
            if not values.astype(str).str.contains(r"\d").all():
                return False
            if pd.to_datetime(values, errors="coerce", utc=True).isna().any():
                return False
    return True
