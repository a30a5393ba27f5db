"""Verdicts on a model: a number, a grade, and a sentence for the reader."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from seqgp.metrics import MATTERS, clearly_off, observed_coverage
from seqgp.report.findings import Findings, Learned
from seqgp.report.html import duration, listed, number, percent

__all__ = [
    "Verdict",
    "about",
    "accuracy",
    "calibrated",
    "calibration_text",
    "overall",
    "scored_rows",
]

_FEW = 50  # rows below which coverage cannot be assessed
_SAME = 0.005  # relative difference of two errors below which they count as equal
_BASELINES = {"persistence": "persistence", "ridge": "ridge regression"}
_CYCLES = {"weekday": "day of the week", "yearday": "day of the year", "hour": "hour"}


@dataclass(frozen=True)
class Verdict:
    """The answer to a question about the model."""

    value: float
    """The number that decides; NaN where it is unknown."""
    grade: Literal["good", "fair", "bad"]
    text: str


def about(findings: Findings) -> str:
    """What is predicted from what."""
    layout, step = findings.forecaster.layout, findings.state.step
    span = duration(layout.lag, step)
    window = f"a window of {duration(layout.lag, 1)}"
    window += "" if span.endswith(("row", "rows")) or layout.lag == 1 else f" ({span})"
    past = [*(layout.targets if layout.feeds_back else ()), *layout.past_inputs]
    sources = [f"past values of {listed(past)}"] if past else []
    if layout.inputs:
        sources.append(f"{listed(layout.inputs)} (known in advance)")
    calendar = [_CYCLES[each] for each in layout.calendar]
    calendar += ["holidays"] if layout.holidays else []
    if calendar:
        sources.append(f"calendar ({listed(calendar)})")
    ahead = f"{duration(layout.horizon, step)} ahead"
    how = {
        "autoregression": ahead,
        "regression": ahead if layout.reach else "at the same time",
        "simulation": "by free simulation, its own predictions in place of measured values",
    }[layout.mode]
    return (
        f"This model predicts {listed(layout.targets)} {how}, from {window}: {'; '.join(sources)}."
    )


def scored_rows(findings: Findings) -> Verdict:
    """How many of the scored rows the model was trained on."""
    index = findings.evaluation.frame.index
    n = max(len(pit) for pit in findings.evaluation.pit.values())
    first, last = (str(time).removesuffix(" 00:00:00") for time in (index[0], index[-1]))
    text = f"Scores are computed on {n:,} rows from {first} to {last}"
    if findings.seen is None:
        return Verdict(
            math.nan,
            "fair",
            f"{text}. Rows are numbered and not dated, so it is unknown whether the model was trained on "
            "them; if it was, the scores are optimistic.",
        )
    if findings.seen:
        return Verdict(
            findings.seen,
            "bad",
            f"{text}, and the model was trained on {findings.seen:,} of them, so the scores are "
            "optimistic. Use rows after the training data.",
        )
    left_out = (
        f" The first {findings.left_out:,} rows given are training data and are not scored."
        if findings.left_out
        else ""
    )
    return Verdict(0.0, "good", f"{text}; the model was trained on none of them.{left_out}")


def accuracy(findings: Findings, target: str) -> Verdict:
    """RMSE of the model relative to that of the better baseline."""
    rmse = findings.evaluation.metrics[target]["rmse"]
    best = min(_BASELINES, key=lambda name: rmse[name])
    ratio = float(rmse["model"] / rmse[best])
    grade: Literal["good", "fair", "bad"] = "good" if ratio < 1.0 - _SAME else "fair"
    end = ""
    if ratio > 1.0 + _SAME:
        grade, end = "bad", f" On these rows {_BASELINES[best]} is more accurate than the model."
    repeated = {
        "autoregression": "the newest known value is repeated",
        "regression": "the newest known value, which the model does not see, is repeated",
        "simulation": "the last value before the simulation is repeated",
    }[findings.forecaster.layout.mode]
    return Verdict(
        ratio,
        grade,
        f"The root mean squared error (RMSE) for {target} is {number(rmse['model'])}: "
        f"{_compared(rmse, 'persistence')} ({repeated}) and "
        f"{_compared(rmse, 'ridge')} on the same windows.{end}",
    )


def _compared(rmse: pd.Series, baseline: str) -> str:
    ratio = rmse["model"] / rmse[baseline]
    of = f"{number(rmse[baseline])} of {_BASELINES[baseline]}"
    if not math.isfinite(ratio) or abs(ratio - 1) < _SAME:
        return f"about equal to the {of}"
    return f"{abs(ratio - 1):.0%} {'below' if ratio < 1 else 'above'} the {of}"


def calibrated(findings: Findings, target: str) -> Verdict:
    """Observed coverage of the 95% intervals, judged with its sampling error."""
    pit = findings.evaluation.pit[target]
    n = len(pit)
    share, error = observed_coverage(pit, 0.95)
    text = f"The 95% intervals contain {percent(share)} of {n:,} measured values"
    if n < _FEW:
        return Verdict(
            share, "fair", f"{text}: too few to assess calibration, which needs {_FEW} or more."
        )
    text += f" (sampling error ± {100 * error:.1f} points)."
    constant = (
        " Their width is constant: a network without a Gaussian process has no uncertainty of its own."
        if findings.learned.constant_width
        else ""
    )
    if clearly_off(share, error):
        factor = _needed(findings, target)
        if share < 0.95:
            return Verdict(
                share,
                "bad",
                f"{text} They are too narrow: values outside are {(1 - share) / 0.05:.1f} times as "
                f"frequent as they should be, and intervals {factor:.2g} times as wide would have "
                f"contained 95%.{constant}",
            )
        return Verdict(
            share,
            "fair",
            f"{text} They are conservative, wider than necessary: {percent(factor)} of their width would "
            f"have contained 95%.{constant}",
        )
    if abs(share - 0.95) > MATTERS:
        return Verdict(
            share,
            "fair",
            f"{text} The difference from 95% is within the sampling error, but too large to call the "
            f"intervals calibrated: more rows are needed.{constant}",
        )
    half, spread = observed_coverage(pit, 0.5)
    middle = ""
    if abs(half - 0.5) > max(0.07, 2 * spread):
        size = "wide" if half > 0.5 else "narrow"
        middle = f" The 50% intervals contain {percent(half)} and are too {size}."
    return Verdict(share, "good", f"{text} They are calibrated.{middle}{constant}")


def _needed(findings: Findings, target: str) -> float:
    """Factor on the width of the 95% intervals that would have given a coverage of 95%."""
    frame = findings.evaluation.frame
    mean, low, high = (
        findings.column(frame, target, name) for name in ("mean", "q0.025", "q0.975")
    )
    error = frame[target] - mean
    relative = (error / (high - mean)).where(error > 0, error / (low - mean))
    return float(np.quantile(relative.dropna(), 0.95))


def overall(findings: Findings) -> Verdict:
    """Share of several targets for which both verdicts are good enough."""
    n = len(findings.targets)
    accurate = [accuracy(findings, target).grade != "bad" for target in findings.targets]
    trusted = [calibrated(findings, target).grade == "good" for target in findings.targets]
    both = float(np.mean(np.logical_and(accurate, trusted)))
    return Verdict(
        both,
        "good" if both == 1.0 else "fair" if all(accurate) else "bad",
        f"For {sum(accurate)} of {n} targets the model is at least as accurate (RMSE) as persistence, "
        "which repeats the newest known value, and ridge regression on the same windows. Its 95% intervals "
        f"are calibrated for {sum(trusted)} of {n}.",
    )


def calibration_text(learned: Learned) -> str:
    """How the predictive distribution was calibrated."""
    if not learned.validation_rows:
        return (
            "No validation rows were available, so the predictive distribution is not calibrated: its "
            "intervals may be too narrow."
        )
    parts = [
        f"The predictive distribution was calibrated on {learned.validation_rows:,} validation rows. The "
        "scale factor multiplies the standard deviation."
    ]
    if learned.members > 1:
        parts.append(
            f"Predictions are the average of an ensemble of {learned.members} members, the best of which "
            "is shown here."
        )
    if learned.shift.any():
        parts.append(
            "The mean is corrected by a shift, because the level of the target has moved since training "
            "(distribution shift)."
        )
    if np.isfinite(learned.dof).any():
        parts.append(
            "Student's t has heavier tails than a Gaussian, the heavier the fewer its degrees of freedom; "
            "above about 30 the two hardly differ."
        )
    parts.append(
        "The noise is heteroscedastic: it depends on the window, and the scale factor is an average."
        if learned.heteroscedastic.any()
        else "The noise is homoscedastic: the same for all windows."
    )
    return " ".join(parts)
