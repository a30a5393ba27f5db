"""The calibration study: what it compares, how it is summed up, and one quick cell of every model."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from paper import calibration, calibration_report, tasks
from paper.__main__ import EXPERIMENTS
from paper.calibration_report import BASELINES, FIRST, LEVELS, MODELS, PIT, PROPOSED, TASKS
from paper.models import LinearModel
from paper.predictive import Student
from paper.recipes import CANDIDATES, parsed
from seqgp.metrics import coverage, rmse

STUDY = calibration.EXPERIMENT
COLUMNS = [
    *("dataset", "model", "mode", "seed", "rmse", "rmse_z", "nlpd", "crps"),
    *("cov50", "cov80", "cov95", "width95", "pit_error", *PIT),
    *("cov95_adaptive", "train_seconds", "seconds"),
]


@pytest.fixture
def table(rng):
    """Made up: two seeds of every model; the proposed wins the first task and loses the others."""
    rows = []
    for task, (dataset, mode) in enumerate(TASKS):
        models = [model for model in MODELS if model not in BASELINES]
        for place, model in enumerate([*models, *BASELINES]):
            for seed in (0,) if model in BASELINES else (0, 1):
                score = 1.0 + 0.1 * place + 0.02 * seed - (0.5 if place == 1 and task == 0 else 0.0)
                row = dict(dataset=dataset, model=model, mode=mode, seed=seed, rmse=score)
                row |= dict(rmse_z=score, nlpd=score, crps=score, width95=score, pit_error=score)
                row |= {
                    f"cov{level}": level / 100 - 0.01 * place + 0.004 * seed for level in LEVELS
                }
                row |= dict(cov95_adaptive=np.nan, seconds=9.0, train_seconds=2.0 + place)
                rows.append(row | dict(zip(PIT, 2.0 * rng.random(10), strict=True)))
    found = pd.DataFrame(rows)
    found.loc[found.model == "lstm-conformal", "nlpd"] = np.nan
    found.loc[(found.model == "lstm") & (found.dataset != "actuator"), ["nlpd", "crps"]] = 0.5
    return found[COLUMNS]


def test_every_cell_has_the_options_of_its_table():
    cells = STUDY.cells(5, False)
    assert len(cells) == len(set(cells)) == 9 * 8 * 5 + 9 * 2
    assert {seed for _, model, _, seed in cells if model in BASELINES} == {0}
    for dataset, model, mode, seed in cells:
        if model in BASELINES:
            assert set(STUDY.settings((dataset, model, mode, seed), False)) <= {"lag", "blocks"}
            continue
        known = "gp-lstm" if model.startswith("gp") else "lstm"
        source = EXPERIMENTS["table2" if dataset in tasks.SYSID else "table3"]
        ours = STUDY.settings((dataset, model, mode, seed), False)
        theirs = source.settings((dataset, known, mode, seed), False)
        theirs.pop("refit", None)  # here validation rows stay what they are
        assert ours.pop("blocks", 1) == (4 if source.name == "table2" else 1)
        changed = {k for k in ours | theirs if ours.get(k) != theirs.get(k)}
        if dataset.startswith("gef"):
            assert all(ours[k] == theirs[k] // 3 for k in changed & {"epochs", "pretrain_epochs"})
            changed -= {"epochs", "pretrain_epochs"}
        if dataset == "car-speed":  # a smaller network, the same for all
            assert (ours["hidden"], ours["dropout"]) == (128, 0.3)
            changed -= {"hidden", "dropout"}
        if (dataset, known) == ("car-lanes", "gp-lstm"):  # a quicker candidate of the same kind
            quicker = parsed(CANDIDATES[dataset, known, mode][1])
            assert all(ours[k] == quicker[k] for k in quicker if k != "restarts")
            changed -= {"epochs", "lr", "dropout"}
        if source.name == "table3":  # one training each
            assert "restarts" not in ours
            changed -= {"restarts"}
        assert changed <= {"calibrate", "passes", "members", "dropout"}
        assert ours.get("calibrate") == (False if model == FIRST else None)
        assert "dropout" not in changed or (model, ours["dropout"]) == ("lstm-dropout", 0.1)


def test_the_scores_of_a_perfect_prediction(rng):
    mean, scale = rng.standard_normal((20_000, 2)), np.array([1.0, 10.0])
    y = mean + scale * rng.standard_normal((20_000, 2))
    found = calibration.score(Student(mean, np.tile(scale, (20_000, 1))), y, scale)
    assert [found[f"cov{level}"] for level in LEVELS] == pytest.approx([0.5, 0.8, 0.95], abs=0.01)
    assert found["nlpd"] == pytest.approx(0.5 * np.log(2 * np.pi) + 0.5, abs=0.02)
    assert found["crps"] == pytest.approx(1 / np.sqrt(np.pi), abs=0.01)
    assert found["width95"] == pytest.approx(2 * 1.95996, rel=1e-4)
    assert found["rmse_z"] == pytest.approx(1.0, abs=0.02)
    assert found["pit_error"] < 0.01
    assert [found[name] for name in PIT] == pytest.approx([1.0] * 10, abs=0.06)


def test_the_summary_counts_wins_and_losses(table):
    found = calibration_report.summary(table)
    assert len(found) == 9
    assert found.nlpd_gap[0] == pytest.approx(0.61 - 1.21)
    assert list(found.nlpd_rival) == ["lstm"] * 9
    assert found.nlpd_gap[1:].to_numpy() == pytest.approx(1.11 - 0.5)
    assert found.rmse_ratio[1] == pytest.approx(1.11 / 1.01)
    text = STUDY.markdown(table)
    first = next(line for line in text.splitlines() if line.startswith("| gp-lstm |"))
    assert first.endswith("| 1.50 |")  # its cost
    assert "| best in NLPD | 1 of 9 |" in text
    assert "| best in CRPS | 1 of 9 |" in text
    assert "| largest NLPD gap to the best alternative | +0.610 |" in text
    assert "| actuator, autoregression | 2 | -0.600 | lstm | -0.6000 | lstm |" in text
    assert "| 0.604 |" in text


def test_coverage_stands_beside_what_can_be_expected_of_it(table):
    ours, conformal = (table.model == model for model in (PROPOSED, "lstm-conformal"))
    table.loc[conformal & (table.dataset == "drives"), ["cov50", "cov95"]] = [0.541, 0.95]
    table.loc[conformal & (table.dataset == "actuator"), ["cov50", "cov95"]] = [0.539, 0.931]
    table.loc[ours & (table.dataset == "actuator"), ["cov50", "cov95"]] = [0.5, 0.925]
    table.loc[ours & (table.dataset == "drives"), ["cov50", "cov95"]] = [0.47, 0.969]
    found = calibration_report.summary(table)
    assert list(calibration_report.held(found, "conformal")[:2]) == [True, False]
    assert list(calibration_report.held(found, "cov")[:2]) == [False, True]
    text = STUDY.markdown(table)
    assert "| drives, autoregression | 0.541 | 0.950 | no | 0.470 | 0.969 | yes |  |" in text
    assert "off by at most 0.04 at 50% and 0.02 at 95%" in text
    # Without the plain LSTM's intervals nothing is said of what could be expected.
    assert "| drives, autoregression |  |  |  | 0.470 |" in STUDY.markdown(table[~conformal])


def test_the_best_of_a_column_is_bold_and_a_missing_density_is_empty(table):
    first = STUDY.markdown(table).split("\n## ")[1].splitlines()
    rows = {line.split(" | ")[0].strip("| "): line for line in first if line.startswith("| ")}
    assert rows[PROPOSED].startswith(
        "| gp-lstm | **0.6100** | **0.610** | **0.6100** | 0.492 (0.002)"
    )
    assert "**0.502** (0.002)" in rows[FIRST]
    assert "| 1.6100 |  | 1.6100 |" in rows["lstm-conformal"]
    assert rows[FIRST].endswith("| 1.010 | 1.010 | **1.00** |")
    # Ridge has the value nearest to its level, and is not compared.
    table.loc[table.model == "ridge", "cov50"] = 0.5
    assert "| 0.500 (0.000) |" in STUDY.markdown(table)
    one = STUDY.markdown(table[table.model == "lstm"])
    assert "Summary" not in one
    assert "nan" not in one


def test_the_figures_are_drawn(table, tmp_path):
    for name, draw in STUDY.figures.items():
        for some in (table, table[(table.dataset == "drives") & (table.model == "lstm-vbll")]):
            draw(some, tmp_path / f"{name}{len(some)}.png")
        assert (tmp_path / f"{name}{len(table)}.png").stat().st_size > 40_000


def test_small_recordings_are_scored_on_each_quarter_in_turn(data_folder):
    row = STUDY.run(("drives", "ridge", "autoregression", 0))
    windows = tasks.windows_of("drives", "autoregression", "ridge")
    errors, shares = [], []
    for quarter in (1, 2, 3, 4):
        train, validation, test = tasks.rotated(windows, quarter)
        mean, std = LinearModel().fit(train, validation).predict(test, return_std=True)
        errors.append(rmse(test.y, mean))
        shares.append(coverage(test.y, mean, std))
    assert row["rmse"] == pytest.approx(np.sqrt(np.mean(np.square(errors))))
    assert row["cov95"] == pytest.approx(np.mean(shares))
    assert 0 < row["train_seconds"] < row["seconds"]


def test_a_quick_cell_of_every_model_as_a_user_runs_it(data_folder, tmp_path):
    command = [sys.executable, "-m", "paper", "calibration", "--quick"]
    command += ["--out", str(tmp_path), "--dataset", "actuator"]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), check=True)
    found = pd.read_csv(tmp_path / "calibration" / "calibration_quick.csv")
    assert list(found.columns) == COLUMNS
    assert list(found.model) == list(MODELS)
    assert list(found.model[found.nlpd.isna()]) == ["lstm-conformal"]
    assert ((found.rmse_z > 0) & (found.rmse_z < 1)).all()
    assert ((found.cov95 >= found.cov80) & (found.cov80 >= found.cov50)).all()
    assert found[PIT].sum(axis=1).to_numpy() == pytest.approx(10.0, rel=1e-3)
    assert (found.train_seconds < found.seconds).all()
    assert "## actuator, autoregression" in done.stdout
    names = {path.name for path in (tmp_path / "calibration").iterdir()}
    assert names >= {"calibration_quick.json", "calibration_quick.md"}
    assert names >= {"coverage_quick.png", "pit_quick.png"}
