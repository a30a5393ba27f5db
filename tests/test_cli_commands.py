from __future__ import annotations

import io
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch

import seqgp
from cli_data import LAG, NEW, ROWS, TRAINING, process, run, series
from seqgp.metrics import coverage_error, scores

SCORES = {"n", "rmse", "rmse_z", "mae", "nlpd", "crps", "cov50", "cov80", "cov95"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables and a model fitted by a process, with what that process said."""
    place = tmp_path_factory.mktemp("cli")
    table = series()
    table[:ROWS].to_csv(place / "data.csv", index=False)
    table[ROWS:].to_csv(place / "new.csv", index=False)
    table[ROWS:].drop(columns="load").to_csv(place / "future.csv", index=False)
    done = process(
        *("fit", "data.csv", "--target", "load", "--inputs", "temp", *TRAINING, "--json"),
        *("--report", "fit.html"),
        folder=place,
    )
    (place / "fit.json").write_bytes(done.stdout)
    (place / "fit.err").write_bytes(done.stderr)
    assert done.returncode == 0, done.stderr.decode()
    return place


@pytest.fixture(autouse=True)
def inside(folder, monkeypatch):
    monkeypatch.chdir(folder)


@pytest.fixture(scope="module")
def forecaster(folder):
    return seqgp.load(folder / "data.seqgp")


def table_of(text):
    return pd.read_csv(io.StringIO(text), parse_dates=["ts"], index_col="ts")


def test_fit_says_what_it_did(folder, forecaster):
    document = json.loads((folder / "fit.json").read_text())
    said = (folder / "fit.err").read_text()
    held = int(0.1 * ROWS)
    assert (document["out"], document["stopped"]) == ("data.seqgp", False)
    assert document["data"]["rows"] == ROWS - held
    assert document["test"]["target"] == "load"
    assert document["test"]["model"]["n"] == document["test"]["ridge"]["n"] == held
    assert "time column: ts" in said
    assert f"training on {ROWS - held} rows, {held} held back" in said
    assert "Traceback" not in said
    assert "<html" in (folder / "fit.html").read_text()[:1000]
    # The rows held back were added: forecasts start at the end of the table.
    assert forecaster.history_.index[-1] == series()["ts"][ROWS - 1]
    assert forecaster.time == "ts"
    assert forecaster.model.encoder.hidden == 4


def test_fit_scores_are_those_of_unseen_rows(folder):
    """The same training by hand on the first rows, and scores of the last ones computed here."""
    table = series()[:ROWS]
    cut = ROWS - int(0.1 * ROWS)
    training = seqgp.Training(epochs=2, patience=10, lr=3e-3)
    encoder = seqgp.LSTM(hidden=4)
    model = seqgp.SequenceGP(
        encoder, training=training, random_state=0, device="cpu", progress=False
    )
    twin = seqgp.Forecaster("load", inputs=["temp"], time="ts", lag=LAG, model=model)
    twin.fit(table[:cut])
    found = twin.predict(table[cut:])
    truth = table["load"][cut:].to_numpy()
    dof = twin.model_.dof_[0]
    expected = scores(truth, found["mean"], found["std"], twin.state_.target_std[0], dof=dof)
    document = json.loads((folder / "fit.json").read_text())["test"]["model"]
    assert {key: document[key] for key in expected} == pytest.approx(expected, rel=1e-4)
    assert document["cov95_error"] == pytest.approx(coverage_error(len(truth)))


def test_predict_is_the_library_s(capsys, forecaster):
    code, out, err = run(capsys, "predict", "data.seqgp", "new.csv", "--quantiles", "0.1,0.9")
    assert code == 0
    expected = forecaster.predict(pd.read_csv("new.csv"), quantiles=(0.1, 0.9))
    pd.testing.assert_frame_equal(table_of(out), expected, check_freq=False, check_index_type=False)
    assert f"{NEW} of {NEW} rows predicted" in err


def test_predict_with_intervals_that_hold(capsys, forecaster):
    args = ("predict", "data.seqgp", "new.csv", "--interval", 0.8, "--adaptive")
    code, out, _ = run(capsys, *args, "--quantiles", "0.1,0.9")
    assert code == 0
    expected = forecaster.predict(
        pd.read_csv("new.csv"), quantiles=(0.1, 0.9), interval=0.8, adaptive=True
    )
    assert {"low", "high", "q0.1"} <= set(expected.columns)
    pd.testing.assert_frame_equal(table_of(out), expected, check_freq=False, check_index_type=False)


def test_pipes(forecaster):
    table = series()[ROWS:]
    done = process("predict", "data.seqgp", "-", stdin=table.to_csv(index=False).encode())
    assert done.returncode == 0
    expected = forecaster.predict(table)
    got = table_of(done.stdout.decode())
    np.testing.assert_array_equal(got.to_numpy(), expected.to_numpy())
    assert got.index.equals(pd.DatetimeIndex(table["ts"]))


def test_predict_without_the_target_and_counts_of_rows_left_out(capsys):
    series()[50:90].drop(columns="load").to_csv("without.csv", index=False)
    code, out, err = run(capsys, "predict", "data.seqgp", "without.csv")
    assert (code, out) == (2, "")
    assert "no column 'load'" in err
    some = series()[50:90].reset_index(drop=True)
    some.loc[20, "temp"] = np.nan
    some.to_csv("holes.csv", index=False)
    code, out, err = run(capsys, "predict", "data.seqgp", "holes.csv", "--json")
    document = json.loads(out)
    assert code == 0
    assert document["counts"]["before_first_window"] == LAG
    # A window holds the inputs up to its target's own time, so the hole spoils as many as the lag.
    assert document["counts"]["missing_values"] == LAG
    assert document["rows"][0]["mean"] is None
    assert document["rows"][-1]["ts"] == str(some["ts"].iloc[-1])
    assert document["target"] == "load"


@pytest.mark.parametrize("name", ["out.csv", "out.csv.gz", "out.parquet"])
def test_forecast_to_a_file(capsys, forecaster, name):
    args = ("forecast", "data.seqgp", "--horizon", 5, "--future", "future.csv", "--samples", 20)
    code, out, err = run(capsys, *args, "--seed", 3, "--out", name)
    assert (code, out) == (0, "")
    assert err == f"5 rows in {name}\n"
    future = pd.read_csv("future.csv")
    expected = forecaster.forecast(5, future=future, samples=20, seed=3).frame
    got = pd.read_parquet(name) if name.endswith("parquet") else pd.read_csv(name)
    assert list(got.columns) == ["ts", *expected.columns]
    np.testing.assert_array_equal(got.drop(columns="ts").to_numpy(), expected.to_numpy())
    assert pd.DatetimeIndex(got["ts"]).equals(pd.DatetimeIndex(series()["ts"][ROWS : ROWS + 5]))


def test_forecast_from_newer_rows_as_a_process(forecaster):
    newer = series()[ROWS : ROWS + 10]
    done = process(
        *("forecast", "data.seqgp", "--horizon", 3, "--future", "future.csv"),
        *("--data", "-", "--samples", 10, "--json"),
        stdin=newer.to_csv(index=False).encode(),
    )
    assert done.returncode == 0
    future = pd.read_csv("future.csv")
    expected = forecaster.forecast(3, future=future, df=newer, samples=10).frame
    rows = json.loads(done.stdout)["rows"]
    assert [row["mean"] for row in rows] == expected["mean"].tolist()
    assert [row["ts"] for row in rows] == [str(each) for each in expected.index]


def test_simulate_scores_the_run(capsys, forecaster):
    args = ("simulate", "data.seqgp", "data.csv", "--init-rows", 20, "--samples", 10)
    code, out, _ = run(capsys, *args, "--json")
    document = json.loads(out)
    table = pd.read_csv("data.csv")
    expected = forecaster.simulate(table[20:], table[:20], samples=10).frame
    means = [row["mean"] for row in document["rows"]]
    assert code == 0
    assert means == expected["mean"].tolist()
    error = np.sqrt(np.mean((np.array(means) - table["load"][20:]) ** 2))
    assert document["scores"]["load"]["rmse"] == pytest.approx(error)
    done = process(*args, "--out", "-")
    assert done.returncode == 0
    assert len(table_of(done.stdout.decode())) == ROWS - 20
    assert b"140 rows" in done.stderr
    scores = document["scores"]["load"]
    share = f"{100 * scores['cov95']:.1f}% ± {100 * scores['cov95_error']:.1f}"
    assert share in done.stderr.decode()


def test_evaluate(capsys, forecaster):
    done = process("evaluate", "data.seqgp", "new.csv", "--json")
    assert (done.returncode, done.stderr) == (0, b"")
    document = json.loads(done.stdout)
    assert (document["target"], document["known_rows"]) == ("load", 0)
    table = forecaster.evaluate(pd.read_csv("new.csv")).metrics["load"]
    for name in ("model", "persistence", "ridge"):
        assert set(document[name]) >= SCORES
        assert document[name] == pytest.approx(table.loc[name].to_dict())
    code, out, err = run(capsys, "evaluate", "data.seqgp", "new.csv", "--out", "scored.csv")
    assert code == 0
    assert "Warning" not in err
    lines = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert f"{NEW} rows" in lines["load,"]
    error = 100 * coverage_error(NEW, 0.95)
    assert f"{100 * document['model']['cov95']:.1f}% ± {error:.1f}" in lines["model"]
    assert f"{document['ridge']['rmse']:.4g}" in lines["ridge"]
    assert max(map(len, out.splitlines())) <= 80
    assert pd.read_csv("scored.csv")["load"].tolist() == pd.read_csv("new.csv")["load"].tolist()


def test_evaluate_with_adaptive_intervals(capsys, forecaster):
    code, out, _ = run(capsys, "evaluate", "data.seqgp", "new.csv", "--adaptive", "--json")
    document = json.loads(out)
    assert (code, document["adaptive"]) == (0, True)
    table = forecaster.evaluate(pd.read_csv("new.csv"), adaptive=True).metrics["load"]
    assert document["model"] == pytest.approx(table.loc["model"].to_dict())
    code, out, err = run(capsys, "evaluate", "data.seqgp", "new.csv", "--adaptive")
    assert code == 0
    assert "adaptive intervals" in err
    assert f"{100 * document['model']['cov80']:.1f}% ±" in out


def test_evaluate_says_where_intervals_hold_too_little_and_what_to_try(capsys):
    table = pd.read_csv("new.csv")
    table["load"] += 2.0 * table["load"].std() * np.random.default_rng(0).standard_normal(NEW)
    table.to_csv("wild.csv", index=False)
    code, out, err = run(capsys, "evaluate", "data.seqgp", "wild.csv")
    assert code == 0
    share = (
        next(line for line in out.splitlines() if line.startswith(" model"))
        .split("%")[1]
        .split()[-1]
    )
    assert f" {share}% " in err[err.index("Warning: ") :]
    assert "--adaptive" in err
    _, _, err = run(capsys, "evaluate", "data.seqgp", "wild.csv", "--adaptive")
    assert "Warning" not in err


def test_evaluate_warns_about_rows_the_model_knows(capsys):
    code, out, err = run(capsys, "evaluate", "data.seqgp", "data.csv", "--json")
    assert code == 0
    assert json.loads(out)["known_rows"] == ROWS
    assert err.startswith("Warning")
    assert f"{ROWS} of these {ROWS} rows" in err


def test_update(capsys, folder):
    done = process("update", "data.seqgp", "new.csv", "--out", "newer.seqgp", "--json")
    assert done.returncode == 0
    document = json.loads(done.stdout)
    assert (document["rows"], document["windows"]) == (NEW, NEW)
    twin = seqgp.load("data.seqgp").update(pd.read_csv("new.csv"))
    updated = seqgp.load("newer.seqgp")
    table = series(ROWS + NEW + 10)[ROWS + NEW :]
    pd.testing.assert_frame_equal(updated.predict(table), twin.predict(table))
    assert document["end"] == updated.history_.index[-1].isoformat()
    # Once more on the same rows: they are known now, and the file stays as it was.
    before = (folder / "newer.seqgp").read_bytes()
    code, _, err = run(
        capsys, "update", "newer.seqgp", "new.csv", "--out", "newer.seqgp", "--force"
    )
    assert code == 2
    assert "known already" in err
    assert (folder / "newer.seqgp").read_bytes() == before


def test_report(capsys):
    done = process("report", "data.seqgp", "--data", "new.csv", "--out", "page.html")
    assert (done.returncode, done.stdout) == (0, b""), done.stderr
    with open("page.html") as page:
        assert "<html" in page.read(1000)


def test_info(capsys):
    done = process("info", "data.seqgp", "--json")
    assert (done.returncode, done.stderr) == (0, b"")
    document = json.loads(done.stdout)
    assert (document["kind"], document["lag"]) == ("Forecaster", LAG)
    assert document["forecaster"]["inputs"] == ["temp"]
    code, out, _ = run(capsys, "info", "data.seqgp")
    lines = dict(line.split(maxsplit=1) for line in out.splitlines() if line.strip())
    assert code == 0
    assert lines["target"].strip() == "load"
    assert f"lag {LAG}" in lines["mode"]
    assert f"{document['parameters']:,} parameters" in lines["network"]


def test_several_targets_row_numbers_and_no_test_part(capsys):
    table = series()[:ROWS].drop(columns="ts")
    table.to_parquet("rows.parquet")
    code, out, err = run(
        capsys, "fit", "rows.parquet", "--target", "load,temp", *TRAINING, "--test", 0, "--json"
    )
    assert code == 0
    assert json.loads(out)["test"] is None
    assert "rows are numbered" in err
    code, out, _ = run(capsys, "evaluate", "rows.seqgp", "rows.parquet", "--json")
    document = json.loads(out)
    assert [each["target"] for each in document["targets"]] == ["load", "temp"]
    assert document["known_rows"] is None
    code, out, _ = run(capsys, "forecast", "rows.seqgp", "--horizon", 2, "--samples", 5)
    assert code == 0
    frame = pd.read_csv(io.StringIO(out))
    assert frame["row"].tolist() == [ROWS, ROWS + 1]
    assert {"load.mean", "temp.q0.975"} <= set(frame.columns)


def test_rows_to_be_forecast_at_the_end_are_no_test_rows(capsys):
    table = series()[: ROWS + 5]
    table.loc[ROWS:, "load"] = np.nan
    table.to_csv("open.csv", index=False)
    args = ("fit", "open.csv", "--target", "load", "--inputs", "temp", *TRAINING, "--json")
    code, out, _ = run(capsys, *args)
    assert code == 0
    assert json.loads(out)["test"]["model"]["n"] == int(0.1 * ROWS)
    code, out, _ = run(capsys, "forecast", "open.seqgp", "--horizon", 5, "--future", "open.csv")
    assert code == 0
    assert len(out.splitlines()) == 6


def test_fit_keeps_models_that_are_there(capsys, folder):
    before = (folder / "data.seqgp").read_bytes()
    code, out, err = run(capsys, "fit", "data.csv", "--target", "load", *TRAINING)
    assert (code, out) == (2, "")
    assert "--force" in err
    assert (folder / "data.seqgp").read_bytes() == before


def test_fit_trains_on_one_thread(capsys, monkeypatch, tmp_path):
    """More of them wait for each other on a busy machine."""
    seen = []

    def fit(self, *args, **options):
        seen.append(torch.get_num_threads())
        raise ValueError("seen")

    monkeypatch.setattr(seqgp.Forecaster, "fit", fit)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        code, _, err = run(
            capsys, "fit", "data.csv", "--target", "load", *TRAINING, "--out", tmp_path / "m.seqgp"
        )
        assert (code, seen, torch.get_num_threads()) == (2, [1], 3), err
    finally:
        torch.set_num_threads(before)


def test_fit_with_a_checkpoint(capsys, tmp_path):
    data, out, checkpoint = (tmp_path / name for name in ("d.csv", "d.seqgp", "run.ckpt"))
    series().to_csv(data, index=False)
    checkpoint.write_text("not a checkpoint")
    fit = ("fit", data, "--target", "load", *TRAINING, "--out", out, "--checkpoint", checkpoint)
    code, _, err = run(capsys, *fit)
    assert code == 2
    assert "no checkpoint" in err
    assert not out.exists()
    checkpoint.unlink()
    assert run(capsys, *fit)[0] == 0
    assert out.exists()
    assert not checkpoint.exists()  # training came to its end


def test_light_start():
    """Help and version are there at once: torch takes seconds to import."""
    code = (
        "import sys; from seqgp.__main__ import main\n"
        "try: main()\n"
        "finally: assert not {'torch', 'scipy', 'matplotlib', 'pydantic'} & set(sys.modules)"
    )
    for arg in ("--help", "--version"):
        subprocess.run([sys.executable, "-c", code, arg], check=True, capture_output=True)


@pytest.mark.parametrize(
    "command",
    ["demo", "fit", "predict", "forecast", "simulate", "evaluate", "report", "update", "info"],
)
def test_help_fits_a_screen(capsys, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = run(capsys, command, "--help")
    lines = out.splitlines()
    assert code == 0
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    assert f"Example: seqgp {command}" in out
