"""The tables of the report: scores, learned numbers, what was done to the data, options."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np
import pandas as pd

from seqgp._version import __version__
from seqgp.estimators import SequenceGP
from seqgp.forecasting.columns import read_columns
from seqgp.kernels import lengthscale
from seqgp.report.findings import Findings
from seqgp.report.formats import duration, listed, number, percent
from seqgp.report.page import table, tag

__all__ = [
    "columns_table",
    "counts_table",
    "learned_table",
    "options_table",
    "overview_table",
    "score_table",
    "versions_table",
]

_RIVALS = ("model", "persistence", "ridge")
_LOW, _HIGH = "low", "high"
# Key, name, what it says, what is best: low, high, or nearest to a share; None where it depends.
_SCORES: tuple[tuple[str, str, str, str | float | None], ...] = (
    ("rmse", "RMSE", "typical error, large ones count more", _LOW),
    ("mae", "MAE", "mean absolute error", _LOW),
    ("rmse_z", "RMSE, scaled", "as a share of the target's spread in training", _LOW),
    ("nrmse", "NRMSE", "RMSE as a share of the target's range here", _LOW),
    ("r2", "R²", "share of the variation explained; 1 is perfect", _HIGH),
    ("crps", "CRPS", "error of the whole predicted range; lower is better", _LOW),
    ("nlpd", "NLPD", "how surprising the values were; lower is better", _LOW),
    ("cov50", "in 50% range", "should be 50%", 0.5),
    ("cov80", "in 80% range", "should be 80%", 0.8),
    ("cov95", "in 95% range", "should be 95%", 0.95),
    ("width95", "width of 95% range", "narrow is good only if the row above is right", None),
)


def score_table(metrics: pd.DataFrame) -> Element:
    """Scores of the model and its rivals, the best of each row marked."""
    rows: list[list[Element | str]] = []
    marked = []
    for i, (key, name, meaning, better) in enumerate(_SCORES):
        values = [_score(metrics, rival, key) for rival in _RIVALS]
        shares = key.startswith("cov")
        shown = (
            [_share(metrics, rival, key) for rival in _RIVALS] if shares else map(number, values)
        )
        rows.append([tag("span", name, tag("br"), tag("small", meaning)), *shown])
        if better is not None and np.isfinite(values).all():
            sign = -1.0 if better == _HIGH else 1.0
            aim = better if isinstance(better, float) else None
            far = [abs(v - aim) if aim is not None else sign * v for v in values]
            marked += [(i, j + 1) for j, each in enumerate(far) if each == min(far)]
    for i, j in marked:
        rows[i][j] = f"✓ {rows[i][j]}"
    return table(["score", "this model", "persistence", "ridge"], rows, marked)


def overview_table(findings: Findings) -> Element:
    """One line of scores for each target."""
    rows: list[list[Element | str]] = []
    for target, metrics in findings.evaluation.metrics.items():
        errors = [number(_score(metrics, rival, "rmse")) for rival in _RIVALS]
        rows.append([target, *errors, _share(metrics, "model", "cov95")])
    head = ["target", "RMSE", "persistence", "ridge", "in 95% range"]
    return table(head, rows)


def learned_table(findings: Findings) -> Element | None:
    """Lengthscales, signal and noise of each target; None for a model without a GP."""
    estimator, targets = findings.estimator, findings.targets
    if not isinstance(estimator, SequenceGP):
        return None
    gp, outputs = estimator.gp_, len(targets)
    unit = np.broadcast_to(estimator.y_scaler_.scale, (outputs,))
    rows: list[list[Element | str]] = []
    scales = lengthscale(gp.kernel)
    if scales is not None:
        lengths = np.broadcast_to(scales.cpu().numpy(), (outputs, scales.shape[-1]))
        for j in range(lengths.shape[1]):
            rows.append([f"lengthscale, dimension {j + 1}", *map(number, lengths[:, j])])
    variance = getattr(gp.kernel, "outputscale", None)
    if gp.output_covariance is not None:
        variance = gp.output_covariance.diagonal() * (1.0 if variance is None else variance)
    if variance is not None:
        signal = np.broadcast_to(variance.detach().cpu().numpy(), (outputs,))
        rows.append(["signal, in the target's unit", *map(number, np.sqrt(signal) * unit)])
    noise = np.broadcast_to(gp.noise.detach().cpu().numpy(), (outputs,))
    rows.append(["noise, in the target's unit", *(f"± {number(s)}" for s in np.sqrt(noise) * unit)])
    factors = np.sqrt(np.broadcast_to(estimator.variance_scale_, (outputs,)))
    known = estimator.calibration_
    shaped = estimator.noise_shape_ is not None
    middle = ", on average" if shaped else ""
    rows.append(["correction of deviations", *(f"× {number(each)}{middle}" for each in factors)])
    rows.append(
        ["shape of errors", *(_tails(dof) for dof in np.broadcast_to(estimator.dof_, (outputs,)))]
    )
    depends = np.broadcast_to(known.trust, (outputs,)) > 0 if shaped else [False] * outputs
    used = {"of what was learned, used": known.slope}
    if estimator.readout:
        used["of the GP beside the readout, used"] = known.share
    for name, part in used.items():
        rows.append([name, *(f"{100 * each:.0f}%" for each in np.broadcast_to(part, (outputs,)))])
    moved = np.broadcast_to(known.shift, (outputs,)) * unit
    rows.append(["shift since training", *(number(each) if each else "none" for each in moved)])
    rows.append(["noise depends on the window", *("yes" if each else "no" for each in depends)])
    return table(["learned", *targets], rows)


def counts_table(findings: Findings) -> Element:
    """What was found at fit and in the rows scored, and what was done about it."""
    report, step = findings.state.report, findings.state.step
    counts = findings.evaluation.frame.attrs["counts"]
    rows: list[list[Element | str]] = [
        ["training data", f"{report.rows:,} rows, {report.first} to {report.last}"],
        ["time from row to row", f"{duration(1, step)} (step {step})"],
        ["times skipped in training data", f"{report.missing_times:,}"],
        ["rows at its end without a target, not used", f"{report.rows_without_target_at_end:,}"],
        ["windows possible", f"{report.windows:,}"],
        ["windows dropped: a value in them is missing", f"{report.windows_incomplete:,}"],
        ["windows dropped: the target itself is missing", f"{report.windows_without_target:,}"],
        ["windows used in training", f"{report.windows_used:,}"],
    ]
    if report.updated_rows:
        added = f"{report.updated_rows:,} rows, {report.updated_windows:,} windows"
        rows.append(["added since by update", added])
    if report.constant_columns:
        rows.append(["columns that never change", listed(report.constant_columns)])
    # Rows of training data that were kept to make the first windows are named once, as left out.
    kept = len(findings.given) - (findings.rows - findings.left_out)
    rows += [
        ["rows given to this report", f"{findings.rows:,}"],
        ["of these, rows predicted", f"{counts['predicted']:,}"],
        ["rows before the first complete window", f"{counts['before_first_window'] - kept:,}"],
        ["rows not predicted: values are missing", f"{counts['missing_values']:,}"],
        ["rows left out: the model was trained on them", f"{findings.left_out:,}"],
    ]
    return table(["what", "how many"], rows, numbers=False)


def columns_table(findings: Findings) -> Element:
    """Each column: its part, gaps at fit, and its values."""
    forecaster, report = findings.forecaster, findings.state.report
    layout, estimator = forecaster.layout, findings.estimator
    scaler, targets = estimator.x_scaler_, estimator.y_scaler_
    index = {name: j for j, name in enumerate(layout.features)}
    outputs = len(layout.targets)
    rows: list[list[Element | str]] = []
    values = read_columns(findings.given, layout.columns, optional=layout.columns)
    for name, here in zip(layout.columns, values.T, strict=True):
        if name in layout.targets:
            j = layout.targets.index(name)
            mean, std = (np.broadcast_to(v, (outputs,))[j] for v in (targets.shift, targets.scale))
            part = "target"
        else:
            mean, std = scaler.shift[index[name]], scaler.scale[index[name]]
            part = "known in advance" if name in layout.inputs else "past only"
        span = (
            f"{number(np.nanmin(here))} to {number(np.nanmax(here))}"
            if np.isfinite(here).any()
            else "–"
        )
        rows.append(
            [
                tag("span", name, tag("br"), tag("small", part)),
                f"{report.missing_values[name]:,}",
                f"{report.interpolated_values[name]:,}",
                f"{number(mean)} ± {number(std)}",
                span,
            ]
        )
    head = ["column", "empty cells", "filled in", "training mean ± std", "range here"]
    return table(head, rows, numbers=False)


def options_table(options: dict[str, Any]) -> Element:
    """Options by name."""
    return table(["option", "value"], [[k, _shown(v)] for k, v in options.items()], numbers=False)


def versions_table() -> Element:
    """What made the page."""
    packages: Sequence[str] = ("torch", "gpytorch", "numpy", "pandas", "scikit-learn", "matplotlib")
    rows: list[list[Element | str]] = [
        ["seqgp", __version__],
        ["python", platform.python_version()],
    ]
    rows += [[name, version(name)] for name in packages]
    return table(["package", "version"], rows, numbers=False)


def _score(metrics: pd.DataFrame, rival: str, key: str) -> float:
    return float(metrics[key][rival])


def _share(metrics: pd.DataFrame, rival: str, key: str) -> str:
    """Coverage with its sampling error."""
    error = _score(metrics, rival, f"{key}_error")
    return f"{percent(_score(metrics, rival, key))} ± {100 * error:.1f}"


def _tails(dof: float) -> str:
    return "bell curve" if np.isinf(dof) else f"Student's t, {dof:.1f} degrees of freedom"


def _shown(value: Any) -> str:
    if isinstance(value, tuple | list):
        return listed([str(each) for each in value]) or "none"
    if value is None:
        return "none"
    plain = isinstance(value, str | int | float)
    return str(value) if plain else type(value).__name__
