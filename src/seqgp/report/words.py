"""What was found, in sentences for someone who has never met a Gaussian process."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from seqgp.estimator import SequenceNet
from seqgp.forecasting.predict import column
from seqgp.metrics import MATTERS, clearly_off
from seqgp.plots import observed_coverage
from seqgp.report.findings import Findings
from seqgp.report.formats import duration, listed, number, percent
from seqgp.student import Student

__all__ = ["Verdict", "about", "corrections", "error_bars", "overall", "quality", "rows_used"]

_FEW = 50  # rows below which coverage says nothing
_SAME = 0.005  # relative difference of two errors below which they are called the same


@dataclass(frozen=True)
class Verdict:
    """A sentence or two, and whether they bring good news."""

    text: str
    good: bool


def about(findings: Findings) -> str:
    """What is predicted, from what."""
    layout, step = findings.forecaster.layout, findings.state.step
    window = f"a window of the latest {layout.lag} rows"
    span = duration(layout.lag, step)
    window += "" if span.endswith("rows") or layout.lag == 1 else f" ({span})"
    sources = []
    if layout.feeds_back:
        sources.append(f"past values of {listed(layout.targets)}")
    if layout.past_inputs:
        sources.append(f"past values of {listed(layout.past_inputs)}")
    if layout.inputs:
        sources.append(f"{listed(layout.inputs)}, known in advance")
    cycles = [{"weekday": "day of the week", "yearday": "time of the year", "hour": "hour"}[each]
              for each in layout.calendar]  # fmt: skip
    if cycles or layout.holidays:
        sources.append("the " + listed([*cycles, *(["holidays"] if layout.holidays else [])]))
    how = {
        "autoregression": f"{duration(layout.horizon, step)} ahead",
        "regression": "at the same time"
        if not layout.reach
        else f"{duration(layout.horizon, step)} ahead",
        "simulation": "step after step, its own predictions standing in for measured values",
    }[layout.mode]
    return f"This model predicts {listed(layout.targets)} {how}, from {window} with {'; '.join(sources)}."


def rows_used(findings: Findings) -> Verdict:
    """Which rows the scores are about, and whether the model knew them."""
    index = findings.evaluation.frame.index
    n = max(len(pit) for pit in findings.evaluation.pit.values())
    first, last = (str(time).removesuffix(" 00:00:00") for time in (index[0], index[-1]))
    where = f"{n:,} rows between {first} and {last}"
    if findings.seen is None:
        return Verdict(
            f"All scores are from {where}. Rows have numbers and no dates, so this page cannot tell "
            "whether the model was trained on them; if it was, the scores are better than new rows "
            "will show.",
            good=False,
        )
    if findings.seen:
        return Verdict(
            f"All scores are from {where}, and the model was trained on {findings.seen:,} of them: expect "
            "larger errors and more values outside the ranges on new rows. Give rows from after the "
            "training data for an honest report.",
            good=False,
        )
    left = (
        f" The {findings.left_out:,} rows of the data up to the end of training are left out of the "
        "scores and plots."
        if findings.left_out
        else ""
    )
    return Verdict(
        f"All scores are from {where}, none of which the model was trained on.{left}", True
    )


def overall(findings: Findings) -> Verdict:
    """For how many of several targets the model is the best, and its ranges good."""
    n = len(findings.targets)
    best = sum(quality(findings, target).good for target in findings.targets)
    trusted = sum(error_bars(findings, target).good for target in findings.targets)
    return Verdict(
        f"For {best} of {n} targets its errors are no larger than those of repeating the newest value "
        "known (persistence) and of a linear model on the same windows (ridge). Its ranges, which should "
        f"hold 95 of 100 measured values, can be relied on for {trusted} of {n}. The table has the typical "
        "errors (root mean square) of all three, and the share of values inside the model's ranges.",
        good=best == trusted == n,
    )


def quality(findings: Findings, target: str) -> Verdict:
    """How large the errors are beside those of the two rivals."""
    rmse = findings.evaluation.metrics[target]["rmse"]
    layout = findings.forecaster.layout
    ahead = "" if layout.mode == "simulation" else " at the time of the prediction"
    repeat = f"repeating the newest value known{ahead} (persistence)"
    if layout.mode == "regression":
        repeat += ", which the model is not shown"
    best = rmse.idxmin() if rmse.min() < (1 - _SAME) * rmse["model"] else "model"
    end = {
        "model": "",
        "persistence": " Repeating the newest value is the better forecast here.",
        "ridge": " The linear model is the better forecast here.",
    }[str(best)]
    return Verdict(
        f"Its errors for {target} are typically {number(rmse['model'])} large (root mean square, in "
        f"{target}'s own unit). That is {_compared(rmse, 'persistence')} {repeat}, and "
        f"{_compared(rmse, 'ridge')} a linear model on the same windows (ridge).{end}",
        good=best == "model",
    )


def _compared(rmse: pd.Series, rival: str) -> str:
    ratio = rmse["model"] / rmse[rival]
    other = f"the {number(rmse[rival])} from"
    if not math.isfinite(ratio) or abs(ratio - 1) < _SAME:
        return f"about the same as {other}"
    return f"{abs(ratio - 1):.0%} {'smaller' if ratio < 1 else 'larger'} than {other}"


def error_bars(findings: Findings, target: str) -> Verdict:
    """Whether the 95% range held what it promised, beyond what chance explains."""
    pit = findings.evaluation.pit[target]
    n = len(pit)
    share, error = observed_coverage(pit, 0.95)
    text = (
        "Each prediction comes with a range that should hold the measured value 95 times in 100. It held "
        f"{percent(share)} of {n:,} measured values"
    )
    if n < _FEW:
        return Verdict(
            f"{text}: too few to tell whether the ranges can be trusted. Give {_FEW} rows or more.",
            False,
        )
    text += f" (chance alone moves such a share by about ±{200 * error:.1f} points)"
    off = share - 0.95
    constant = (
        " The range has the same width everywhere: a plain network does not know when it knows less."
        if isinstance(findings.estimator, SequenceNet)
        else ""
    )
    if clearly_off(share, error):
        wider = _needed(findings, target)
        what = (
            f"the ranges are too narrow. Values outside them come {(1 - share) / 0.05:.1f} times as often "
            f"as promised; ranges {wider:.2g} times as wide would have held 95%."
            if off < 0
            else "the ranges are wider than needed. They can be relied on, and are cautious: "
            f"{percent(wider)} of their width would have held 95%."
        )
        return Verdict(f"{text}: {what}{constant}", good=off > 0)
    if abs(off) > MATTERS:
        return Verdict(
            f"{text}: that may be chance, and more rows are needed to be sure that the ranges can be "
            f"trusted.{constant}",
            good=False,
        )
    half, spread = observed_coverage(pit, 0.5)
    middle = ""
    if abs(half - 0.5) > max(0.07, 2 * spread):
        size = "smaller" if half > 0.5 else "larger"
        middle = (
            f" Narrower ranges, meant for 50 times in 100, held {percent(half)}: typical errors are "
            f"{size} than those say."
        )
    return Verdict(f"{text}: the ranges can be trusted.{middle}{constant}", good=True)


def corrections(findings: Findings) -> str:
    """What rows held back said of the errors' size, their tails and where they are large."""
    known, shape = findings.estimator.calibration_, findings.estimator.noise_shape_
    if not known.rows:
        return (
            "No rows were held back to check the deviations against, so nothing was corrected: the ranges "
            "may well be too narrow."
        )
    text = (
        f"Errors on {known.rows:,} rows held back set the rest. The correction is a factor on the "
        "predicted deviations; 1 means none."
    )
    others = len(findings.estimator.others_)
    if others:
        text += (
            f" Predictions are those of {1 + others} trainings together, of which the best is shown here: "
            "their mean, with ranges that allow for their differences."
        )
    if (known.slope < 1.0).any() or (known.share < 1.0).any():
        text += (
            " Where those rows bore out less than all of what was learned, predictions have only so much "
            "of it; with none of it they are those of a straight line."
        )
    if known.shift.any():
        text += (
            " Errors on those rows lay clearly to one side, so predictions are shifted by their mean: the "
            "level has moved since training."
        )
    if np.isfinite(findings.estimator.dof_).any():
        text += (
            " The degrees of freedom of Student's t say how heavy the tails are: the fewer, the more often "
            "errors are far larger than usual, and the ranges are made for that. From about 30 on it is "
            "hardly different from a bell curve."
        )
    if shape is None:
        return f"{text} The noise is taken to be the same for all windows."
    return (
        f"{text} The noise depends on the window: ranges are wider for windows of a kind that had larger "
        "errors in training, and the correction shown is an average."
    )


def _needed(findings: Findings, target: str) -> float:
    """Factor on the deviation that would have held 95%."""
    frame, targets = findings.evaluation.frame, findings.targets
    mean, std = (frame[column(target, name, targets)] for name in ("mean", "std"))
    z = ((frame[target] - mean) / std).abs().dropna()
    tails = np.broadcast_to(findings.estimator.dof_, (len(targets),))
    # Free runs are mixtures, scored as Gaussians.
    free = findings.forecaster.layout.mode == "simulation"
    dof = math.inf if free else float(tails[targets.index(target)])
    promised = Student(np.zeros(1), np.ones(1), dof).quantile(0.975)[0]
    return float(np.quantile(z, 0.95) / promised)
