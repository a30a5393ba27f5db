"""The parts of the page that are made of pictures, each with a caption that says how to read it."""

from __future__ import annotations

from xml.etree.ElementTree import Element

import numpy as np
import pandas as pd

from seqgp import plots
from seqgp.forecasting.predict import column
from seqgp.report.findings import Findings, Latent
from seqgp.report.formats import duration, listed
from seqgp.report.page import figure, figures, section, tag
from seqgp.report.tables import learned_table, score_table
from seqgp.report.words import Verdict, corrections, error_bars, quality

__all__ = ["latent_section", "paragraph", "target_section", "training_section", "verdicts"]

_LAST = 400  # rows in the wide view
_ZOOM = 72
_DRAWN = 3000  # points in a cloud, see seqgp.plots


def paragraph(question: str, verdict: Verdict) -> Element:
    """A question and its answer, set apart by whether it is good news."""
    kind = "good" if verdict.good else "note"
    return tag("p", tag("strong", question), f" {verdict.text}", class_=kind)


def verdicts(findings: Findings, target: str) -> list[Element]:
    """The two questions everyone has about the predictions of a target."""
    return [
        paragraph("How good is it?", quality(findings, target)),
        paragraph("Can its ranges be trusted?", error_bars(findings, target)),
    ]


def target_section(findings: Findings, target: str, i: int) -> Element:
    """Predictions of the ``i``-th target, their errors, their honesty and their scores."""
    frame, pit = findings.evaluation.frame, findings.evaluation.pit[target]
    scored = len(pit)
    thinned = (
        f" Of {scored:,} rows {_DRAWN:,} at most are drawn, evenly spread."
        if scored > _DRAWN
        else ""
    )
    views = [
        figure(
            plots.forecast_plot(frame, target, last=_LAST),
            f"Measured and predicted {target} with its 95% range, the last {min(_LAST, len(frame))} rows",
            f"Black: {target} as measured. Blue line: predicted. Light blue: the range that should hold "
            f"95 of 100 measured values. {_how(findings)} {_view(len(frame), _LAST)}",
        )
    ]
    if len(frame) > 1.5 * _ZOOM:
        views.append(
            figure(
                plots.forecast_plot(frame, target, last=_ZOOM),
                f"The last {_ZOOM} rows of the same",
                f"The last {_ZOOM} rows from close by. Dots (measured) outside the light range are misses: "
                "about 1 in 20 is as it should be.",
            )
        )
    if findings.ahead is not None:
        n = len(findings.ahead)
        span = duration(n, findings.state.step)
        views.append(
            figure(
                plots.forecast_plot(findings.ahead, target),
                f"A forecast of {target} for {n} rows at once",
                f"A forecast of the last {n} rows{'' if 'row' in span else f' ({span})'} at once: none of "
                "the values measured in them was shown to the model, which builds on its own predictions. "
                "The range should widen with the distance, and still hold nearly all dots: it holds "
                f"{_inside(findings.ahead, target, findings.targets)}.",
            )
        )
    errors = [
        figure(
            plots.residual_plot(frame, target),
            f"Errors of the prediction of {target} over time",
            "What was measured minus what was predicted. Good: a cloud around zero without waves, mostly "
            f"inside the light range. Times of larger errors stand out.{thinned}",
        ),
        figure(
            plots.error_plot(frame, target),
            f"Errors against the predicted {target}",
            "The same errors by size of the prediction. Good: their mean (orange, where there are rows "
            "enough) stays near zero everywhere; where it is above, the model predicts too little.",
        ),
    ]
    trust = [
        figure(
            plots.pit_plot(pit),
            f"PIT histogram of {target}",
            "Where each measured value fell in its predicted distribution. Good: all bars near the dashed "
            "line, within the grey band. High bars at both ends: ranges too narrow; a hill in the middle: "
            "too wide; a slope: predictions too low or too high.",
        ),
        figure(
            plots.coverage_plot(pit),
            f"Promised against observed coverage of {target}",
            "For ranges of several widths, how many values they should hold and how many they held. Good: "
            "dots on the dashed line, give or take their bars (two sampling errors).",
        ),
    ]
    return section(
        f"target-{i}",
        f"Predictions of {target}",
        *(verdicts(findings, target) if len(findings.targets) > 1 else ()),
        figures(*views),
        tag("h3", "What the predictions miss"),
        figures(*errors),
        tag("h3", "Can the ranges be trusted?"),
        figures(*trust),
        tag("h3", "Scores"),
        tag(
            "p",
            "Persistence repeats the newest value known; ridge is a linear model on the same windows. All "
            f"three are scored on the same {scored:,} rows. The best of each line is marked ✓; ± is the "
            "sampling error, by which chance alone moves such a share.",
        ),
        score_table(findings.evaluation.metrics[target]),
    )


def _how(findings: Findings) -> str:
    layout = findings.forecaster.layout
    if layout.mode == "simulation":
        return (
            "All rows were predicted in one run, from what was measured before the first of them."
        )
    if not layout.feeds_back:
        return f"No measured {listed(layout.targets)} was shown to the model."
    ahead = duration(layout.horizon, findings.state.step)
    return f"Each row was predicted {ahead} ahead, from what was measured up to then."


def _inside(frame: pd.DataFrame, target: str, targets: tuple[str, ...]) -> str:
    """How many of the measured values are in the range drawn."""
    low, high = (frame[column(target, name, targets)] for name in ("q0.025", "q0.975"))
    measured = frame[target]
    return f"{int(measured.between(low, high).sum())} of {int(measured.notna().sum())}"


def _view(n: int, last: int) -> str:
    return (
        f"The last {last:,} of {n:,} rows are shown." if n > last else f"All {n:,} rows are shown."
    )


def training_section(findings: Findings) -> Element:
    """Training curves, and the numbers that the GP learned."""
    estimator = findings.estimator
    history = estimator.history_
    best = int(estimator.best_epoch_)
    parts: list[Element] = []
    if len(history) and np.isfinite(history[["nlml", "noise"]]).any(axis=None):
        parts.append(
            figure(
                plots.training_plot(history, best),
                "Training curves by epoch",
                f"How training went in {history.epoch.max():.0f} epochs, on targets scaled to a spread "
                "of 1. NLML: how badly the model explains the training rows. Validation NLPD and RMSE: the "
                "same question and the error on rows held back. Noise: what it takes for unpredictable. "
                "All should fall and settle; validation rising while NLML falls means learning by heart. "
                "The state at the dashed line was kept.",
            )
        )
    else:
        parts.append(tag("p", "No epoch of training was finished."))
    learned = learned_table(findings)
    if learned is not None:
        words = tag(
            "p",
            "The lengthscale is the distance in the latent space (which runs from −1 to 1) over which "
            "windows count as alike: short means that predictions change quickly in that direction, "
            "long that it hardly matters. The signal is how much of the target's variation the GP "
            "accounts for",
            " beyond the linear part"
            if findings.latent and findings.latent.part is not None
            else "",
            ". The noise is the scatter that no window explains, as training saw it. ",
            corrections(findings),
        )
        parts.append(tag("div", tag("h3", "What was learned"), learned, words))
    return section("training", "Training", figures(*parts))


def latent_section(findings: Findings, latent: Latent, drawn: tuple[str, ...]) -> Element:
    """The latent space, coloured in turn by the target, the GP's part and the deviation."""
    lag, d = findings.forecaster.lag, latent.H.shape[1]
    thinned = (
        f" Of {latent.windows:,} windows {len(latent.H):,} are drawn, evenly spread."
        if latent.windows > len(latent.H)
        else ""
    )
    words = (
        f"The network squeezes each window of {lag} rows into {d} number{'s' * (d > 1)}: a point in the "
        "latent space. The GP predicts alike for points close together, and is less sure where it has met "
        "few points."
        f"{' The first two dimensions are shown.' if d > 2 else ''} Each dot is one window of the data in "
        f"this report.{thinned}"
    )
    parts: list[Element] = [tag("p", words)]
    for j, target in enumerate(drawn):
        shown = [
            figure(
                plots.latent_plot(latent.H, latent.y[:, j], target),
                f"Latent space coloured by {target}",
                f"Coloured by the measured {target}. Colours that change smoothly mean that the network "
                "has put windows with like outcomes side by side.",
            )
        ]
        if latent.part is not None:
            shown.append(
                figure(
                    plots.latent_plot(latent.H, latent.part[:, j], "added by the GP"),
                    "Latent space coloured by what the GP adds to the linear prediction",
                    f"A linear model of the window makes a first prediction of {target}, and the GP "
                    "corrects it. Coloured by that correction: it is what the latent space is for.",
                )
            )
        shown.append(
            figure(
                plots.latent_plot(latent.H, latent.std[:, j], "predicted deviation", "cividis"),
                f"Latent space coloured by the predicted standard deviation of {target}",
                "Coloured by the predicted standard deviation of a measured value. Bright dots are the "
                "windows that the model is least sure about.",
            )
        )
        heading = [tag("h3", target)] if len(drawn) > 1 else []
        parts += [*heading, figures(*shown)]
    return section("latent", "The latent space", *parts)
