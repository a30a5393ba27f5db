from __future__ import annotations

import pytest
import typer

import seqgp
from seqgp.cli.main import main, run
from seqgp.exceptions import NotPositiveDefiniteError


def in_process(capsys, *args):
    with pytest.raises(SystemExit) as stop:
        main(args)
    out, err = capsys.readouterr()
    return stop.value.code, out, err


def test_version(capsys):
    assert in_process(capsys, "--version") == (0, f"seqgp {seqgp.__version__}\n", "")


@pytest.mark.parametrize("args", [("--help",), ("demo", "--help")])
def test_help_fits_a_screen(capsys, monkeypatch, args):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = in_process(capsys, *args)
    lines = out.splitlines()
    assert code == 0
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert "Example: " in out
    assert "..." not in out.replace("[ARGS]...", "")  # no help text is cut off


@pytest.mark.parametrize("args", [("datasets",), ("demo", "--jsn"), ("demo", "actuator"), ()])
def test_usage_errors_exit_2(capsys, args):
    code, out, err = in_process(capsys, *args)
    assert (code, out) == (2, "")
    assert "Usage: seqgp" in err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValueError("lag is 0;\n  expected at least 1"), 2),
        (OSError("no network"), 1),
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
