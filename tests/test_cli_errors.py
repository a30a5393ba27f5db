"""Every documented error of the commands: exit code 2, one sentence, no traceback, no file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import typer

import seqgp
from cli_data import ROWS, TRAINING, process, run, series
from forecaster_data import small_model
from seqgp.cli import main as cli


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model of hourly ``load`` from ``temp``, as a file."""
    path = tmp_path_factory.mktemp("errors") / "model.seqgp"
    estimator = small_model(epochs=1)
    forecaster = seqgp.Forecaster("load", inputs=["temp"], time="ts", lag=6, model=estimator)
    forecaster.fit(series()[:ROWS]).save(path)
    return path


@pytest.fixture(autouse=True)
def inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def refused(capsys, *args):
    """The sentence of a command that must refuse, and leave the folder as it is."""
    before = {name: os.path.getmtime(name) for name in os.listdir()}
    code, out, err = run(capsys, *args)
    assert (code, out) == (2, "")
    assert {name: os.path.getmtime(name) for name in os.listdir()} == before
    *said, sentence = err.splitlines()
    assert sentence.startswith("Error: ")
    assert not any(line.startswith(("Error", "Traceback")) for line in said)
    return sentence


def no_such_column(table):
    return table.rename(columns={"load": "lod"})


def text_among_numbers(table):
    return table.astype({"load": object}).assign(load=table["load"].where(table.index != 7, "n/k"))


def duplicated(table):
    return table.assign(ts=table["ts"].where(table.index != 5, table["ts"][4]))


def unsorted(table):
    return pd.concat([table[10:], table[:10]])


def off_the_grid(table):
    late = table["ts"] + pd.Timedelta(minutes=7)
    return table.assign(ts=table["ts"].where(table.index != 9, late))


def all_missing(table):
    return table.assign(temp=np.nan)


def too_short(table):
    return table[:7]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (no_such_column, ["'load'", "'lod'"]),
        (text_among_numbers, ["'load'", "'n/k'", "row 8"]),
        (duplicated, ["2024-01-01 04:00:00", "twice", "row 6"]),
        (unsorted, ["not sorted", "2024-01-01 00:00:00"]),
        (off_the_grid, ["2024-01-01 09:07:00", "step h"]),
        (all_missing, ["'temp'", "no value"]),
        (too_short, ["7 rows", "--lag 6", "shorter lag"]),
    ],
)
def test_fit_refuses_a_bad_table(capsys, spoil, words):
    spoil(series()[:ROWS]).to_csv("bad.csv", index=False)
    args = ("fit", "bad.csv", "--target", "load", "--inputs", "temp", *TRAINING)
    sentence = refused(capsys, *args)
    for word in words:
        assert word in sentence


@pytest.mark.parametrize("spoil", [no_such_column, text_among_numbers, duplicated, unsorted])
@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_a_model_refuses_a_bad_table(capsys, model, command, spoil):
    spoil(series()[:ROWS]).to_csv("bad.csv", index=False)
    refused(capsys, command, model, "bad.csv", "--out", "out.csv")


@pytest.mark.parametrize("command", ["predict", "evaluate", "simulate"])
def test_another_frequency_than_at_fit(capsys, model, command):
    series()[::2].to_csv("slow.csv", index=False)
    assert "2 steps of h" in refused(capsys, command, model, "slow.csv", "--out", "out.csv")


def test_update_and_report_refuse_too(capsys, model):
    series()[ROWS::2].to_csv("slow.csv", index=False)
    refused(capsys, "update", model, "slow.csv", "--out", "new.seqgp")
    refused(capsys, "report", model, "--data", "slow.csv", "--out", "page.html")


def files():
    return {
        "empty.csv": (b"", "is empty"),
        "header.csv": (b"ts,temp,load\n", "no rows"),
        "binary.csv": (bytes(range(256)) * 4, "binary"),
        "latin.csv": ("ts,tempé,load\n1,2,3\n".encode("latin-1"), "UTF-8"),
        "ragged.csv": (b"ts,load\n1,2\n3,4,5\n", "as many fields"),
        "unnamed.csv": (b"ts,load\n1,2,3\n3,4,5\n", "more fields"),
        "cut.csv.gz": (b"\x1f\x8b\x08\x00\x00\x00\x00\x00", "damaged gzip"),
        "cut.parquet": (b"PAR1\x00\x00\x00", "damaged Parquet"),
    }


@pytest.mark.parametrize("name", list(files()))
@pytest.mark.parametrize("command", ["fit", "predict"])
def test_files_that_are_no_tables(capsys, tmp_path, model, name, command):
    raw, words = files()[name]
    (tmp_path / name).write_bytes(raw)
    args = ("fit", name, "--target", "load") if command == "fit" else ("predict", model, name)
    sentence = refused(capsys, *args)
    assert words in sentence
    assert name in sentence


def test_a_model_for_data_and_data_for_a_model(capsys, model):
    series().to_csv("data.csv", index=False)
    assert "is a seqgp model" in refused(capsys, "fit", model, "--target", "load")
    assert "is a seqgp model" in refused(capsys, "predict", model, model)
    for command in ("predict", "evaluate", "simulate"):
        assert "CSV" in refused(capsys, command, "data.csv", "data.csv")
    assert "CSV" in refused(capsys, "info", "data.csv")
    assert "CSV" in refused(capsys, "forecast", "data.csv", "--horizon", 3)
    assert "CSV" in refused(capsys, "update", "data.csv", "data.csv", "--out", "x.seqgp")
    assert "CSV" in refused(capsys, "report", "data.csv", "--data", "data.csv")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("fit", "none.csv", "--target", "load"), "no file none.csv"),
        (("fit", ".", "--target", "load"), "folder"),
        (("fit", "data.csv", "--target", "load", "--out", "none/m.seqgp"), "no folder none"),
        (("fit", "data.csv", "--target", "load", "--test", "1.5"), "--test"),
        (("fit", "data.csv", "--target", "load", "--mode", "magic"), "mode"),
        (("fit", "data.csv", "--target", "load", "--calendar", "moon"), "calendar"),
        (("fit", "data.csv", "--target", "load", "--lag", "0"), "lag"),
        (("fit", "data.csv", "--target", "load", "--encoder", "gpt"), "encoder"),
        (("fit", "data.csv", "--target", "load", "--device", "abacus"), "device"),
        (("fit", "data.csv", "--target", "load,load"), "2 times"),
        (("fit", "twice.csv", "--target", "load"), "--time"),
        (("predict", "MODEL", "data.csv", "--out", "x.xlsx"), ".parquet"),
        (("predict", "MODEL", "data.csv", "--out", "none/x.csv"), "no folder none"),
        (("predict", "MODEL", "data.csv", "--json", "--out", "-"), "choose one"),
        (("predict", "MODEL", "data.csv", "--quantiles", "wide"), "--quantiles"),
        (("predict", "MODEL", "data.csv", "--interval", "95"), "0.95 is 95%"),
        (("predict", "MODEL", "data.csv", "--interval", "0.999"), "999 validation rows"),
        (("forecast", "MODEL", "--horizon", "3"), "'temp'"),
        (("forecast", "MODEL", "--horizon", "0"), "horizon"),
        (("forecast", "MODEL", "--horizon", "3", "--future", "-", "--data", "-"), "only one"),
        (("simulate", "MODEL", "data.csv", "--init-rows", "999"), "--init-rows"),
        (("simulate", "MODEL", "data.csv", "--init-rows", "2"), "at least 6"),
        (("evaluate", "MODEL", "data.csv", "--out", "-"), "name a file"),
        (("report", "MODEL", "--data", "data.csv", "--out", "none/r.html"), "no folder none"),
        (("demo", "--out", "data.csv"), "is a file"),
    ],
)
def test_bad_options(capsys, model, args, words):
    table = series()
    table.to_csv("data.csv", index=False)
    table.assign(other=table["ts"]).to_csv("twice.csv", index=False)
    sentence = refused(capsys, *(model if arg == "MODEL" else arg for arg in args))
    assert words in sentence


def test_an_estimator_is_no_forecaster(capsys, tmp_path):
    rng = np.random.default_rng(0)
    estimator = seqgp.SequenceNet(
        seqgp.LSTM(hidden=2), training=seqgp.Training(epochs=1), random_state=0, progress=False
    )
    seqgp.save(estimator.fit(rng.standard_normal((30, 3, 1)), rng.standard_normal(30)), "net.seqgp")
    series().to_csv("data.csv", index=False)
    assert "SequenceNet" in refused(capsys, "predict", "net.seqgp", "data.csv")
    code, out, _ = run(capsys, "info", "net.seqgp")
    assert code == 0
    assert "SequenceNet" in out


def test_parquet_without_pyarrow(capsys, monkeypatch, model):
    series().to_parquet("data.parquet")
    series().to_csv("data.csv", index=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "pip install 'seqgp[parquet]'" in refused(
        capsys, "fit", "data.parquet", "--target", "load"
    )
    args = ("predict", model, "data.csv", "--out", "x.parquet")
    assert "pip install 'seqgp[parquet]'" in refused(capsys, *args)


def test_errors_of_a_process_are_one_line(tmp_path):
    (tmp_path / "bad.csv").write_text("ts,load\n2024-01-01,1\n2024-01-02,two\n")
    done = process("fit", "-", "--target", "load", stdin=(tmp_path / "bad.csv").read_bytes())
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith(b"Error: column 'load' has 'two' in data row 2")
    assert os.listdir() == ["bad.csv"]


def test_unexpected_errors(capsys, monkeypatch):
    def fail() -> None:
        raise KeyError("a bug")

    app = typer.Typer()
    app.command()(fail)
    with pytest.raises(SystemExit) as stop:
        cli.run(app, [])
    assert stop.value.code == 1
    assert capsys.readouterr().err == (
        "Error: unexpected KeyError: 'a bug' (a bug; SEQGP_TRACEBACK=1 shows where)\n"
    )
    monkeypatch.setenv("SEQGP_TRACEBACK", "1")
    with pytest.raises(KeyError, match="a bug"):
        cli.run(app, [])


def test_a_full_disk_is_a_failure(capsys, monkeypatch, model):
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    series().to_csv("data.csv", index=False)
    monkeypatch.setattr(pd.DataFrame, "to_csv", full)
    code, out, err = run(capsys, "predict", model, "data.csv", "--out", "out.csv")
    assert (code, out) == (1, "")
    assert "No space left" in err.splitlines()[-1]
    assert os.listdir() == ["data.csv"]


class Fit:
    """A long training run as a process, whose messages can be waited for."""

    def __init__(self) -> None:
        series(3000).to_csv("long.csv", index=False)
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "seqgp",
                "fit",
                "long.csv",
                "--target",
                "load",
                "--epochs",
                "999",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    def wait_for(self, words):
        for line in self.process.stderr:
            if words in line:
                return
        pytest.fail(f"training ended before it said {words!r}")

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def end(self):
        _, err = self.process.communicate(timeout=300)
        return self.process.returncode, err


def test_ctrl_c_keeps_the_best_model_so_far():
    fit = Fit()
    fit.wait_for("training on")
    fit.interrupt()
    fit.wait_for("stopping: the best model so far is kept")
    code, err = fit.end()
    assert code == 0
    assert "stopped by Ctrl-C after" in err
    assert "Traceback" not in err
    kept = seqgp.load("long.seqgp")
    assert len(kept.model_.history_) < 11  # patience alone would have taken so many
    assert kept.predict(series(200)).notna().to_numpy().any()


def test_a_second_ctrl_c_leaves_nothing():
    fit = Fit()
    fit.wait_for("training on")
    fit.interrupt()
    fit.wait_for("stopping")
    fit.interrupt()
    code, err = fit.end()
    assert code == 130
    assert "Traceback" not in err
    assert os.listdir() == ["long.csv"]
