"""The tables of ``docs/results.md``, made from the committed rows: ``python -m paper report``.

In the document a table stands between ``<!-- table: NAME -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from paper.ablations import pieces_in
from paper.calibration_report import FIRST, PROPOSED, TASKS, held
from paper.calibration_report import summary as study_summary
from paper.runner import table_lines, write_text
from paper.table2 import MODELS as TABLE_2_MODELS
from paper.table2 import MODES, PAPER
from paper.table3 import MODELS as TABLE_3_MODELS
from paper.tasks import SYSID

__all__ = ["TABLES", "update", "updated"]

Task = tuple[str, str]

_SMART_GRID = (
    ("gef-power", "autoregression"),
    ("gef-power", "regression"),
    ("gef-wind", "regression"),
    ("gef-wind", "autoregression"),
)
_CAR = (
    ("car-speed", "regression"),
    ("car-yaw", "regression"),
    ("car-speed", "autoregression"),
    ("car-yaw", "autoregression"),
    ("car-lanes", "autoregression"),
    ("car-lead", "autoregression"),
)
_CALLED = {
    ("actuator", "autoregression"): "Actuator, past targets",
    ("drives", "autoregression"): "Drives, past targets",
    ("gef-power", "autoregression"): "power, past load",
    ("gef-power", "regression"): "power, temperatures",
    ("gef-wind", "regression"): "wind, forecasts",
    ("gef-wind", "autoregression"): "wind, past power",
    ("car-speed", "regression"): "speed, sensors",
    ("car-yaw", "regression"): "yaw rate, sensors",
    ("car-speed", "autoregression"): "speed, past targets",
    ("car-yaw", "autoregression"): "yaw rate, past targets",
    ("car-lanes", "autoregression"): "lanes, past targets",
    ("car-lead", "autoregression"): "vehicle ahead, past targets",
}
_STUDY = {
    FIRST: "GP-LSTM, uncalibrated",
    "lstm": "constant noise",
    "lstm-heteroscedastic": "own variance",
    "lstm-dropout": "MC dropout",
    "lstm-ensemble": "ensemble of five",
    "lstm-vbll": "Bayesian last layer",
    PROPOSED: "GP-LSTM",
}


def _mean(table: pd.DataFrame, column: str, task: Task, model: str) -> float:
    """Mean over seeds; NaN where there are no rows."""
    dataset, mode = task
    rows = table[(table.dataset == dataset) & (table["mode"] == mode) & (table.model == model)]
    return float(rows[column].mean())


def _entry(value: float, digits: str) -> str:
    return "" if pd.isna(value) else format(value, digits)


def table_2(results: Path) -> list[str]:
    """Test RMSE of every model, with the paper's in brackets, and coverage of GP-LSTM."""
    table = pd.read_csv(results / "table2.csv")
    tasks = [(dataset, mode) for dataset in SYSID for mode in MODES]
    rows = []
    for model in TABLE_2_MODELS:
        entries = []
        for task in tasks:
            column = "rmse" if task[0] == "drives" else "rmse_z"
            paper = PAPER[task].get(model)
            quoted = "" if paper is None else f" ({paper[0]:.2f})"
            entries.append(_entry(_mean(table, column, task, model), ".3g") + quoted)
        rows.append([model, *entries])
    shares = [_entry(_mean(table, "cov95", task, "gp-lstm"), ".0%") for task in tasks]
    rows.append(["coverage of gp-lstm's 95% interval", *shares])
    return table_lines(["", *(f"{data.capitalize()}, {mode}" for data, mode in tasks)], rows)


def _table_3(results: Path, tasks: Sequence[Task]) -> list[str]:
    table = pd.read_csv(results / "table3.csv")
    errors = {task: {m: _mean(table, "rmse_z", task, m) for m in TABLE_3_MODELS} for task in tasks}
    rows = []
    for model in TABLE_3_MODELS:
        entries = []
        for (_, mode), found in errors.items():
            # In regression, persistence knows the last target, which the others are not given.
            unfair = model == "persistence" and mode == "regression"
            text = "" if unfair else _entry(found[model], ".4g")
            known = [v for m, v in found.items() if m != "persistence" and not pd.isna(v)]
            entries.append(f"**{text}**" if found[model] == min(known) else text)
        if any(entries):
            rows.append([model, *entries])
    scores = [("NLPD, lstm", "nlpd", "lstm", ".2f"), ("NLPD, gp-lstm", "nlpd", "gp-lstm", ".2f")]
    scores.append(("coverage of gp-lstm's 95% interval", "cov95", "gp-lstm", ".0%"))
    for name, column, model, digits in scores:
        rows.append([name, *(_entry(_mean(table, column, task, model), digits) for task in tasks)])
    return table_lines(["", *(_CALLED[task] for task in tasks)], rows)


def table_3_smart_grid(results: Path) -> list[str]:
    """Test RMSE on standardised targets, NLPD and coverage."""
    return _table_3(results, _SMART_GRID)


def table_3_car(results: Path) -> list[str]:
    """Test RMSE on standardised targets, NLPD and coverage."""
    return _table_3(results, _CAR)


def study_nlpd(results: Path) -> list[str]:
    """NLPD of every model of the calibration study that has a density."""
    table = pd.read_csv(results / "calibration" / "calibration.csv")
    rows = []
    for task in TASKS:
        found = {model: _mean(table, "nlpd", task, model) for model in _STUDY}
        best = min(found.values())
        texts = [f"**{v:.2f}**" if v == best else _entry(v, ".2f") for v in found.values()]
        rows.append([_CALLED[task], *texts])
    return table_lines(["", *_STUDY.values()], rows)


def study_coverage(results: Path) -> list[str]:
    """Coverage of GP-LSTM's intervals, split conformal ones around the LSTM, and adaptive ones."""
    found = study_summary(pd.read_csv(results / "calibration" / "calibration.csv"))
    names = ("cov50", "cov95", "conformal50", "conformal95", "adaptive")
    within = held(found, "cov")
    rows = [
        [_CALLED[task], *(f"{row[name]:.1%}" for name in names), "yes" if within.iloc[k] else "no"]
        for k, (task, row) in enumerate(zip(TASKS, found.to_dict("records"), strict=True))
    ]
    heads = ["50%", "95%", "split conformal 50%", "95%", "adaptive 95%", "GP-LSTM within 4 and 2"]
    return table_lines(["", *heads], rows)


def study_pieces(results: Path) -> list[str]:
    """Change of NLPD by leaving out one piece of the calibration; empty where nothing changes."""
    table = pd.read_csv(results / "ablation_calibration.csv")
    means = {
        task: part.mean(numeric_only=True)
        for task in TASKS
        if not (part := table[(table.dataset == task[0]) & (table["mode"] == task[1])]).empty
    }
    rows = []
    for piece, called in pieces_in(table).items():
        changes = [float(found[f"nlpd/{piece}"] - found["nlpd/"]) for found in means.values()]
        if piece:
            rows.append([called, *("" if abs(v) < 5e-4 else f"{v:+.2f}" for v in changes)])
    return table_lines(["variant", *(_CALLED[task] for task in means)], rows)


def study_simplified(results: Path) -> list[str]:
    """GP-LSTM before and after the calibration was simplified, means over the same seeds."""
    before = pd.read_csv(results / "calibration" / "calibration.csv")
    after = pd.read_csv(results / "simplified" / "calibration" / "calibration.csv")
    rows = []
    for task in TASKS:
        dataset, mode = task
        seeds = after[(after.dataset == dataset) & (after["mode"] == mode)].seed
        entries = [_CALLED[task], str(len(seeds)) if len(seeds) else "not run"]
        for column, digits in (
            ("rmse_z", ".4g"),
            ("nlpd", ".3f"),
            ("cov50", ".1%"),
            ("cov95", ".1%"),
        ):
            for table in (before, after):
                value = _mean(table[table.seed.isin(seeds)], column, task, PROPOSED)
                entries.append(_entry(value, digits))
        rows.append(entries)
    heads = [
        name for each in ("RMSE", "NLPD", "50%", "95%") for name in (f"{each} before", "after")
    ]
    return table_lines(["", "seeds", *heads], rows)


TABLES: dict[str, Callable[[Path], list[str]]] = {
    "table2": table_2,
    "table3-smart-grid": table_3_smart_grid,
    "table3-car": table_3_car,
    "study-nlpd": study_nlpd,
    "study-coverage": study_coverage,
    "study-pieces": study_pieces,
    "study-simplified": study_simplified,
}
"""By name: a function from the folder of the results to the lines of the table."""

_BLOCK = re.compile(r"<!-- table: (\S+) -->\n.*?<!-- end -->", re.DOTALL)


def updated(text: str, results: Path) -> str:
    """The document with its tables made again.

    Args:
        text: of the document.
        results: folder of the committed rows.
    """

    def block(found: re.Match[str]) -> str:
        name = found.group(1)
        return "\n".join([f"<!-- table: {name} -->", *TABLES[name](results), "<!-- end -->"])

    return _BLOCK.sub(block, text)


def update(document: Path, results: Path) -> None:
    """Make the tables of a document again.

    Args:
        document: its path.
        results: folder of the committed rows.
    """
    write_text(document, updated(document.read_text(encoding="utf-8"), results))
