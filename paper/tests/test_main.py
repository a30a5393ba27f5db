"""``python -m paper``: the list of data sets, and requests that it refuses."""

from __future__ import annotations

import json

import pytest

from paper.__main__ import main
from paper.datasets import available


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """An empty cache, and a data folder whose actuator file is not the right one."""
    data, cache = tmp_path / "data", tmp_path / "cache"
    (data / "sysid").mkdir(parents=True)
    (data / "sysid" / "actuator.mat").write_bytes(b"not a recording")
    monkeypatch.setenv("SEQGP_DATA", str(data))
    monkeypatch.setenv("SEQGP_CACHE", str(cache))
    return data, cache


def test_datasets_are_listed_and_nothing_is_made(capsys, folders):
    data, cache = folders
    assert main(["datasets"]) == 0
    out, err = capsys.readouterr()
    *rows, data_line, cache_line = out.splitlines()
    for entry, row in zip(available(), rows, strict=True):
        assert row.split()[:2] == [entry.name, f"{entry.rows:,}"]
    assert "wrong file" in rows[0]
    assert "not here" in rows[1]
    assert data_line == f"data folder (SEQGP_DATA): {data}"
    assert cache_line == f"cache (SEQGP_CACHE): {cache}"
    assert err.startswith("Warning: actuator: ")
    assert "sha256" in err
    assert not cache.exists()


def test_datasets_as_json(capsys, folders):
    assert main(["datasets", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["cache_folder"] == str(folders[1])
    assert [entry["name"] for entry in document["datasets"]] == [e.name for e in available()]
    actuator = document["datasets"][0]
    assert (actuator["rows"], actuator["inputs"], actuator["outputs"]) == (1024, 1, 1)
    assert actuator["present"] is False
    assert "sha256" in actuator["problem"]
    assert actuator["files"][0]["where"] is None
    assert actuator["files"][0]["path"] == "sysid/actuator.mat"


def test_datasets_that_are_there_say_where(capsys, data_folder):
    main(["datasets", "--json"])
    files = [f for entry in json.loads(capsys.readouterr().out)["datasets"] for f in entry["files"]]
    actuator = next(file for file in files if file["path"] == "sysid/actuator.mat")
    assert actuator["where"] == str(data_folder.resolve() / "sysid" / "actuator.mat")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tableX"], "invalid choice: 'tableX'"),
        (["table2", "--model", "gp-cnn"], "model 'gp-cnn' is not in the table"),
        (["table2", "--jobs", "0"], "--seeds and --jobs are at least 1"),
    ],
)
def test_bad_requests_are_one_sentence(arguments, message, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err
