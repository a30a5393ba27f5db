from __future__ import annotations

import gzip
import io
import os

import numpy as np
import pandas as pd
import pytest

from cli_data import series
from seqgp.cli.files import find_time, read_data, write_table
from seqgp.cli.output import _number, plain


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet"])
def test_tables_come_back(tmp_path, name):
    table = series(20)
    path = str(tmp_path / name)
    write_table(table, path)
    found = read_data(path)
    pd.testing.assert_frame_equal(
        found.assign(ts=pd.to_datetime(found["ts"])), table, check_dtype=False, check_exact=True
    )
    assert os.listdir(tmp_path) == [name]


def test_the_content_decides_and_not_the_name(tmp_path):
    path = tmp_path / "table.txt"
    # As a spreadsheet saves it where the comma is the decimal sign.
    path.write_text("\ufeffts;load\n1;2,5\n2;3,5\n", encoding="utf-8")
    found = read_data(str(path))
    assert found.to_dict("list") == {"ts": [1, 2], "load": [2.5, 3.5]}
    path.write_bytes(gzip.compress(b"ts\tload\n1\t2.5\n"))
    assert read_data(str(path))["load"].tolist() == [2.5]
    path.write_text("ts,load\n1,2.5,\n2,3.5,\n")  # commas at the ends of rows move no column
    assert read_data(str(path)).to_dict("list") == {"ts": [1, 2], "load": [2.5, 3.5]}


def test_standard_input(monkeypatch):
    class Stdin:
        buffer = io.BytesIO(b"a,b\n1,2\n")

    monkeypatch.setattr("sys.stdin", Stdin)
    assert read_data("-").to_dict("list") == {"a": [1], "b": [2]}


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"when": ["2024-01-01 00:00", "2024-01-01 01:00"]}, "when"),
        ({"when": ["2024-01-01", "2024-01-01"]}, "when"),  # wrong times are found, then refused
        ({"when": [20240101, 20240102]}, None),
        ({"month": ["May", "June"]}, None),
        ({"when": ["2024-01-01", "closed 1 day"]}, None),
        ({"when": pd.to_datetime(["2024-01-01", "2024-01-02"])}, "when"),
        ({"when": ["2024-03-31T00:00+01:00", "2024-03-31T03:00+02:00"]}, "when"),
    ],
)
def test_the_time_column_is_found(columns, expected, capsys):
    assert find_time(pd.DataFrame({"load": [1.0, 2.0], **columns}), {"load"}) == expected
    assert (expected or "rows are numbered") in capsys.readouterr().err


def test_dates_named_as_inputs_are_not_the_time():
    table = pd.DataFrame({"a": ["2024-01-01", "2024-01-02"], "b": ["2025-01-01", "2025-01-02"]})
    assert find_time(table, {"b"}) == "a"
    with pytest.raises(ValueError, match="a, b"):
        find_time(table, set())
    assert find_time(table.set_index(pd.DatetimeIndex(table["a"])), set()) is None


def test_json_has_no_nan():
    found = plain({"a": (np.float64("nan"), np.int64(3)), 1: [float("inf"), None, True, 0.5]})
    assert found == {"a": [None, 3], "1": [None, None, True, 0.5]}
    assert plain(pd.Timestamp("2024-01-01")) == "2024-01-01 00:00:00"


def test_numbers_are_readable():
    assert [_number(v) for v in (36390.2, 0.012345, -1.5, 1e9)] == [
        "36,390",
        "0.01235",
        "-1.5",
        "1e+09",
    ]
