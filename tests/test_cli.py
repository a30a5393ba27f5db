from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import typer

import seqgp
from seqgp.cli.main import main, run
from seqgp.datasets import DatasetError, WrongFileError, registry
from seqgp.datasets.files import cache_folder
from seqgp.exceptions import NotPositiveDefiniteError


def seqgp_command(*args, **environment):
    """The command as a process of its own; a value of None takes a variable away."""
    variables = {**os.environ, **environment}
    return subprocess.run(
        [sys.executable, "-m", "seqgp", *args],
        capture_output=True,
        text=True,
        timeout=120,
        env={name: value for name, value in variables.items() if value is not None},
    )


def in_process(capsys, *args):
    with pytest.raises(SystemExit) as stop:
        main(args)
    out, err = capsys.readouterr()
    return stop.value.code, out, err


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """An empty cache, and a data folder whose actuator file is not the right one."""
    data = tmp_path / "a data folder with a name that is longer than a screen is wide" / "or nearly"
    (data / "sysid").mkdir(parents=True)
    (data / "sysid" / "actuator.mat").write_bytes(b"not a recording")
    monkeypatch.setenv("SEQGP_DATA", str(data))
    monkeypatch.setenv("SEQGP_CACHE", str(tmp_path / "cache"))
    return data, tmp_path / "cache"


def test_datasets_json(tmp_path):
    done = seqgp_command("datasets", "--json", SEQGP_DATA=None, SEQGP_CACHE=str(tmp_path / "cache"))
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert document["data_folder"] is None
    assert document["cache_folder"] == str(tmp_path / "cache")
    assert not (tmp_path / "cache").exists()  # listing downloads and makes nothing
    assert [entry["name"] for entry in document["datasets"]] == list(registry.ENTRIES)
    actuator = document["datasets"][0]
    assert (actuator["rows"], actuator["inputs"], actuator["outputs"]) == (1024, 1, 1)
    assert (actuator["present"], actuator["problem"]) == (False, None)
    assert actuator["files"][0]["where"] is None
    assert actuator["files"][0]["path"] == "sysid/actuator.mat"


def test_datasets_table_fits_80_columns(folders):
    data, cache = folders
    done = seqgp_command("datasets", COLUMNS="80")
    assert done.returncode == 0
    *table, data_line, cache_line = done.stdout.splitlines()
    assert max(len(line) for line in table) <= 80
    assert "…" not in done.stdout  # nothing is cut off
    rows = {line.split()[0]: line for line in table if line.strip() and line[1] != " "}
    for name, entry in registry.ENTRIES.items():
        numbers = [f"{entry.rows:,}", str(entry.inputs), str(entry.outputs)]
        assert rows[name].split()[1:4] == numbers
    assert rows["actuator"].rstrip().endswith("wrong file")
    assert rows["drives"].rstrip().endswith("no")
    assert data_line == f"data folder (SEQGP_DATA): {data}"
    assert cache_line == f"cache (SEQGP_CACHE): {cache}"
    warning = done.stderr.splitlines()
    assert len(warning) == 1
    assert warning[0].startswith("Warning: actuator: ")
    assert "sha256" in warning[0]


def test_datasets_say_where_they_are(capsys, data_folder):
    code, out, _ = in_process(capsys, "datasets", "--json")
    for entry in json.loads(out)["datasets"]:
        if entry["present"]:
            for file in entry["files"]:
                folders = (folder for folder in (data_folder, cache_folder()) if folder)
                assert file["where"] in {str(folder.resolve() / file["path"]) for folder in folders}
    assert code == 0
    code, out, _ = in_process(capsys, "datasets")
    assert "in data folder" in out


def test_json_reports_a_wrong_file(capsys, folders):
    code, out, err = in_process(capsys, "datasets", "--json")
    actuator = json.loads(out)["datasets"][0]
    assert (code, err, actuator["present"]) == (0, "", False)
    assert "sha256" in actuator["problem"]


def test_version(capsys):
    assert in_process(capsys, "--version") == (0, f"seqgp {seqgp.__version__}\n", "")


@pytest.mark.parametrize("args", [("--help",), ("datasets", "--help")])
def test_help_fits_a_screen(capsys, monkeypatch, args):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = in_process(capsys, *args)
    lines = out.splitlines()
    assert code == 0
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert "Example: " in out
    assert "..." not in out.replace("[ARGS]...", "")  # no help text is cut off


@pytest.mark.parametrize(
    "args", [("dataset",), ("datasets", "--jsn"), ("datasets", "actuator"), ()]
)
def test_usage_errors_exit_2(capsys, args):
    code, out, err = in_process(capsys, *args)
    assert (code, out) == (2, "")
    assert "Usage: seqgp" in err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValueError("lag is 0;\n  expected at least 1"), 2),
        (WrongFileError("another version"), 2),
        (DatasetError("no network"), 1),
        (NotPositiveDefiniteError("collapsed"), 1),
    ],
)
def test_expected_errors_are_one_line(capsys, error, code):
    def fail() -> None:
        raise error

    app = typer.Typer()
    app.command()(fail)
    with pytest.raises(SystemExit) as stop:
        run(app, [])
    out, err = capsys.readouterr()
    assert (stop.value.code, out) == (code, "")
    assert err == f"Error: {' '.join(str(error).split())}\n"
