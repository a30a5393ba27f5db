"""The tables of the report: scores, learned parameters, data, options."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from xml.etree.ElementTree import Element

import numpy as np
import pandas as pd

from seqgp._version import __version__
from seqgp.forecasting.columns import read_columns
from seqgp.report.findings import Findings, Learned
from seqgp.report.html import duration, listed, number, percent, table, tag

__all__ = [
    "columns_table",
    "counts_table",
    "learned_table",
    "options_table",
    "overview_table",
    "score_table",
    "versions_table",
]

_PACKAGES = ("torch", "gpytorch", "numpy", "pandas", "scikit-learn", "matplotlib")
_MODELS = ("model", "persistence", "ridge")
_LOW, _HIGH = "low", "high"
# Key, name, explanation, and which value is best: low, high, or the nearest to a share; or none.
_SCORES: tuple[tuple[str, str, str, str | float | None], ...] = (
    ("rmse", "RMSE", "root mean squared error", _LOW),
    ("mae", "MAE", "mean absolute error", _LOW),
    ("rmse_z", "RMSE, standardised", "relative to the standard deviation in training", _LOW),
    ("nrmse", "NRMSE", "RMSE relative to the range of these rows", _LOW),
    ("r2", "R²", "share of variance explained; 1 is perfect", _HIGH),
    ("crps", "CRPS", "absolute error generalised to distributions", _LOW),
    ("nlpd", "NLPD", "negative log predictive density", _LOW),
    ("cov50", "coverage of 50% interval", "nominal 50%", 0.5),
    ("cov80", "coverage of 80% interval", "nominal 80%", 0.8),
    ("cov95", "coverage of 95% interval", "nominal 95%", 0.95),
    ("width95", "width of 95% interval", "narrower is better at equal coverage", None),
)


def score_table(metrics: pd.DataFrame) -> Element:
    """Scores of the model and the baselines, the best of each row marked."""
    rows: list[list[Element | str]] = []
    marked = []
    for i, (key, name, meaning, best) in enumerate(_SCORES):
        values = [float(metrics[key][each]) for each in _MODELS]
        shown = [number(value) for value in values]
        if isinstance(best, float):
            shown = [_coverage(metrics, each, key) for each in _MODELS]
            loss = [abs(value - best) for value in values]
        else:
            loss = [-value if best == _HIGH else value for value in values]
        if best is not None and np.isfinite(values).all():
            winners = [j for j, each in enumerate(loss) if each == min(loss)]
            shown = [f"✓ {each}" if j in winners else each for j, each in enumerate(shown)]
            marked += [(i, j + 1) for j in winners]
        rows.append([tag("span", name, tag("br"), tag("small", meaning)), *shown])
    return table(["score", "this model", "persistence", "ridge"], rows, marked)


def overview_table(findings: Findings) -> Element:
    """One row of scores for each target."""
    rows: list[list[Element | str]] = []
    for target, metrics in findings.evaluation.metrics.items():
        errors = [number(float(metrics["rmse"][each])) for each in _MODELS]
        rows.append([target, *errors, _coverage(metrics, "model", "cov95")])
    head = ["target", "RMSE", "persistence", "ridge", "coverage of 95% interval"]
    return table(head, rows)


def learned_table(learned: Learned, targets: Sequence[str]) -> Element:
    """Hyperparameters of the GP and the calibration of its predictions, by target."""
    rows: list[list[Element | str]] = []
    if learned.lengthscales is not None:
        for j, lengths in enumerate(learned.lengthscales.T):
            rows.append([f"lengthscale, dimension {j + 1}", *map(number, lengths)])
    if learned.signal is not None:
        rows.append(["signal, standard deviation", *map(number, learned.signal)])
    if learned.noise is not None:
        rows.append(["noise, standard deviation", *map(number, learned.noise)])
    rows += [
        ["scale factor", *(f"× {number(each)}" for each in learned.scale)],
        ["distribution", *map(_distribution, learned.dof)],
        ["shift of the mean", *(number(each) if each else "none" for each in learned.shift)],
        ["noise depends on window", *("yes" if e else "no" for e in learned.heteroscedastic)],
    ]
    return table(["parameter", *targets], rows)


def counts_table(findings: Findings) -> Element:
    """Numbers of rows and windows in training and in this report."""
    report, step = findings.state.report, findings.state.step
    counts = findings.evaluation.frame.attrs["counts"]
    rows: list[list[Element | str]] = [
        ["training data", f"{report.rows:,} rows, {report.first} to {report.last}"],
        ["time step", f"{duration(1, step)} ({step})"],
        ["missing times in training data", f"{report.missing_times:,}"],
        ["rows without a target at its end, not used", f"{report.rows_without_target_at_end:,}"],
        ["possible windows", f"{report.windows:,}"],
        ["windows dropped for missing values", f"{report.windows_incomplete:,}"],
        ["windows dropped for a missing target", f"{report.windows_without_target:,}"],
        ["windows used in training", f"{report.windows_used:,}"],
    ]
    if report.updated_rows:
        added = f"{report.updated_rows:,} rows, {report.updated_windows:,} windows"
        rows.append(["added later by update", added])
    if report.constant_columns:
        rows.append(["constant columns", listed(report.constant_columns)])
    # Training rows that only complete the first windows are counted once, as left out.
    kept = len(findings.given) - (findings.rows - findings.left_out)
    rows += [
        ["rows given to this report", f"{findings.rows:,}"],
        ["of these predicted", f"{counts['predicted']:,}"],
        ["left out as training data", f"{findings.left_out:,}"],
        ["before the first complete window", f"{counts['before_first_window'] - kept:,}"],
        ["not predicted for missing values", f"{counts['missing_values']:,}"],
    ]
    return table(["quantity", "count"], rows, numbers=False)


def columns_table(findings: Findings) -> Element:
    """The columns: their role, missing values in training, and their values."""
    layout, report = findings.forecaster.layout, findings.state.report
    rows: list[list[Element | str]] = []
    values = read_columns(findings.given, layout.columns, optional=layout.columns)
    for name, here in zip(layout.columns, values.T, strict=True):
        mean, std = findings.learned.columns[name]
        role = "known in advance" if name in layout.inputs else "past only"
        known = here[np.isfinite(here)]
        rows.append(
            [
                tag(
                    "span",
                    name,
                    tag("br"),
                    tag("small", "target" if name in layout.targets else role),
                ),
                f"{report.missing_values[name]:,}",
                f"{report.interpolated_values[name]:,}",
                f"{number(mean)} ± {number(std)}",
                f"{number(known.min())} to {number(known.max())}" if len(known) else "–",
            ]
        )
    head = ["column", "missing", "interpolated", "mean ± std in training", "range in this report"]
    return table(head, rows, numbers=False)


def options_table(options: Mapping[str, object]) -> Element:
    """Options by name."""
    return table(["option", "value"], [[k, _shown(v)] for k, v in options.items()], numbers=False)


def versions_table() -> Element:
    """Versions of the packages that made the page."""
    rows = [["seqgp", __version__], ["python", platform.python_version()]]
    return table(
        ["package", "version"], rows + [[name, version(name)] for name in _PACKAGES], numbers=False
    )


def _coverage(metrics: pd.DataFrame, name: str, key: str) -> str:
    """Coverage with its sampling error."""
    return (
        f"{percent(float(metrics[key][name]))} ± {100 * float(metrics[f'{key}_error'][name]):.1f}"
    )


def _distribution(dof: float) -> str:
    return "Gaussian" if np.isinf(dof) else f"Student's t, {dof:.1f} degrees of freedom"


def _shown(value: object) -> str:
    if isinstance(value, tuple | list):
        return listed([str(each) for each in value]) or "none"
    if value is None:
        return "none"
    return str(value) if isinstance(value, str | int | float) else type(value).__name__
