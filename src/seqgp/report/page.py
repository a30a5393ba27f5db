"""The page: verdicts, figures with captions that say how to read them, and tables."""

from __future__ import annotations

import os
from pathlib import Path
from xml.etree.ElementTree import Element

import numpy as np
import pandas as pd

from seqgp import plots
from seqgp.forecasting import Forecaster
from seqgp.io import atomic_write, check_writable
from seqgp.metrics import observed_coverage
from seqgp.report.findings import Findings, Latent, Learned, gather
from seqgp.report.html import (
    document,
    duration,
    figure,
    figures,
    listed,
    number,
    section,
    table,
    tag,
)
from seqgp.report.tables import (
    columns_table,
    counts_table,
    learned_table,
    options_table,
    overview_table,
    score_table,
    versions_table,
)
from seqgp.report.verdicts import (
    Verdict,
    about,
    accuracy,
    calibrated,
    calibration_text,
    overall,
    scored_rows,
)

__all__ = ["sections", "write_report"]

_MOST_TARGETS = 4  # with figures of their own: more would make the page too large to send
_LAST = 400  # rows in the wide view
_ZOOM = 72  # rows in the close view
_DRAWN = 3000  # points in a scatter plot, see seqgp.plots


def write_report(
    forecaster: Forecaster,
    df: pd.DataFrame,
    path: str | os.PathLike[str],
    title: str | None = None,
) -> None:
    """Write one self-contained HTML page on how well ``forecaster`` predicts the rows of ``df``.

    Where ``df`` continues after the training data, only the rows after it are scored, and the page
    says so. The file is written atomically.

    Args:
        forecaster: fitted.
        df: rows with the columns it was fitted with, targets included.
        path: the file to write, such as ``report.html``.
        title: heading of the page; by default it names the targets.

    Raises:
        ValueError: the path cannot be a file, or the rows do not fit the forecaster or have nothing
            to score.
        OSError: the disk is full, or the folder is not writable.
    """
    file = Path(path)
    check_writable(file)
    findings = gather(forecaster, df)
    text = document(title or f"Forecast of {listed(findings.targets)}", sections(findings))
    with atomic_write(file) as temporary:
        temporary.write_bytes(text.encode("utf-8", "replace"))


def sections(findings: Findings) -> list[Element]:
    """All sections of the page."""
    drawn = findings.targets[:_MOST_TARGETS]
    parts = [_summary(findings)]
    parts += [_target(findings, target, i + 1) for i, target in enumerate(drawn)]
    parts.append(_training(findings.learned, findings.targets))
    if findings.latent is not None:
        parts.append(_latent(findings.latent, findings.forecaster.lag, drawn))
    return [*parts, _data(findings), _options(findings)]


def _paragraph(question: str, verdict: Verdict) -> Element:
    """A question and its answer, set apart by the grade."""
    return tag("p", tag("strong", question), f" {verdict.text}", class_=f"verdict {verdict.grade}")


def _verdicts(findings: Findings, target: str) -> list[Element]:
    return [
        _paragraph("How accurate is it?", accuracy(findings, target)),
        _paragraph("Are its intervals calibrated?", calibrated(findings, target)),
    ]


def _summary(findings: Findings) -> Element:
    parts = [
        tag("p", about(findings), class_="lead"),
        _paragraph("Which rows are scored?", scored_rows(findings)),
    ]
    if len(findings.targets) == 1:
        parts += _verdicts(findings, findings.targets[0])
    else:
        parts += [_paragraph("How good is it?", overall(findings)), overview_table(findings)]
    if len(findings.targets) > _MOST_TARGETS:
        parts.append(tag("p", f"Figures are drawn for the first {_MOST_TARGETS} targets."))
    return section("summary", "Summary", *parts)


def _target(findings: Findings, target: str, i: int) -> Element:
    """Predictions of the ``i``-th target, their residuals, calibration and scores."""
    several = len(findings.targets) > 1
    scored = len(findings.evaluation.pit[target])
    return section(
        f"target-{i}",
        f"Predictions of {target}",
        *(_verdicts(findings, target) if several else ()),
        figures(*_forecasts(findings, target)),
        tag("h3", "Residuals"),
        figures(*_residuals(findings, target)),
        tag("h3", "Calibration"),
        figures(*_calibration(findings, target)),
        tag("h3", "Scores"),
        tag(
            "p",
            "Persistence repeats the newest known value; ridge is a linear model of the same windows. All "
            f"are scored on the same {scored:,} rows. ✓ marks the best value, ± the sampling error of a "
            "coverage.",
        ),
        score_table(findings.evaluation.metrics[target]),
    )


def _forecasts(findings: Findings, target: str) -> list[Element]:
    frame = findings.evaluation.frame
    n, last = len(frame), min(_LAST, len(frame))
    layout = findings.forecaster.layout
    ahead = duration(layout.horizon, findings.state.step)
    how = f"Each row was predicted {ahead} ahead, from the measured values known by then."
    if layout.mode == "simulation":
        how = "All rows are one simulation, from the values measured before the first."
    elif not layout.feeds_back:
        how = f"The model saw no measured {listed(layout.targets)}."
    views = [
        figure(
            plots.forecast_plot(frame, target, last=_LAST),
            f"Measured and predicted {target} with 95% intervals, the last {last} rows",
            f"Black: measured {target}; blue: prediction with its 95% interval. {how} "
            f"{f'The last {last:,} of' if n > last else 'All'} {n:,} rows are shown.",
        )
    ]
    if n > 1.5 * _ZOOM:
        views.append(
            figure(
                plots.forecast_plot(frame, target, last=_ZOOM),
                f"The last {_ZOOM} rows of the same",
                f"The last {_ZOOM} rows in detail. About 1 in 20 measured values (dots) should be outside "
                "the interval.",
            )
        )
    if findings.ahead is not None:
        steps = len(findings.ahead)
        span = duration(steps, findings.state.step)
        low, high = (findings.column(findings.ahead, target, q) for q in ("q0.025", "q0.975"))
        measured = findings.ahead[target]
        inside, known = int(measured.between(low, high).sum()), int(measured.notna().sum())
        views.append(
            figure(
                plots.forecast_plot(findings.ahead, target),
                f"A forecast of {target} {steps} rows ahead",
                f"One forecast of the last {steps} rows{'' if 'row' in span else f' ({span})'}: the model "
                "saw none of their measured values and continued from its own predictions. The intervals "
                f"contain {inside} of {known} measured values.",
            )
        )
    return views


def _residuals(findings: Findings, target: str) -> list[Element]:
    frame, scored = findings.evaluation.frame, len(findings.evaluation.pit[target])
    thinned = f" Of {scored:,} rows at most {_DRAWN:,} are drawn." if scored > _DRAWN else ""
    return [
        figure(
            plots.residual_plot(frame, target),
            f"Residuals of {target} over time",
            "Measured minus predicted. They should scatter around zero without a pattern, mostly inside "
            f"the interval; slow waves are autocorrelated errors.{thinned}",
        ),
        figure(
            plots.error_plot(frame, target),
            f"Residuals against the predicted {target}",
            "Residuals by size of the prediction. Their mean (orange, given enough rows) should stay near "
            "zero; where it is positive, the model predicts too little.",
        ),
    ]


def _calibration(findings: Findings, target: str) -> list[Element]:
    pit = findings.evaluation.pit[target]
    share, error = observed_coverage(pit, 0.95)
    return [
        figure(
            plots.pit_plot(pit),
            f"PIT histogram of {target}",
            "Where the measured values fall in their predictive distributions. Calibrated: bars within the "
            "grey band. High at both ends: too narrow; a peak in the middle: too wide; a slope: biased.",
        ),
        figure(
            plots.coverage_plot(pit),
            f"Nominal against observed coverage of intervals of {target}",
            "Share of measured values inside central intervals. Calibrated: on the dashed line within the "
            f"error bars (two sampling errors). At 95%: {share:.1%} ± {200 * error:.1f} points.",
        ),
    ]


def _training(learned: Learned, targets: tuple[str, ...]) -> Element:
    """Training curves, learned parameters and calibration."""
    history = learned.history
    parts = [tag("p", "No training epoch was completed.")]
    if len(history) and np.isfinite(history[["nlml", "noise"]]).any(axis=None):
        parts = [
            figure(
                plots.training_plot(history, learned.best_epoch),
                "Training curves by epoch",
                f"Training over {history.epoch.max():.0f} epochs, targets standardised. NLML: negative log "
                "marginal likelihood of the training rows. NLPD and RMSE: of the validation rows. All "
                "should fall and level off; validation curves that rise while the NLML falls show "
                "overfitting. The dashed line marks the epoch that was kept.",
            )
        ]
    if learned.noise is not None:
        text = (
            "Lengthscales are distances in the latent space [−1, 1] over which the prediction varies: a "
            "short one marks an important direction. Signal and noise are in the target's unit. "
        )
        words = tag("p", text, calibration_text(learned))
        parts.append(tag("div", tag("h3", "Parameters"), learned_table(learned, targets), words))
    return section("training", "Training", figures(*parts))


def _latent(latent: Latent, lag: int, drawn: tuple[str, ...]) -> Element:
    """The latent space, coloured by the target, the GP's part and the standard deviation."""
    n, d = latent.H.shape
    thinned = f" Of {latent.windows:,} windows {n:,} are drawn." if latent.windows > n else ""
    first = " The first two dimensions are shown." if d > 2 else ""
    parts = [
        tag(
            "p",
            f"The network maps each window of {lag} rows to a point with {d} coordinate{'s' * (d > 1)}, "
            "from which the Gaussian process predicts: similarly for close points, and with more "
            f"uncertainty far from training data. Each dot is a window.{first}{thinned}",
        )
    ]
    for j, target in enumerate(drawn):
        shown = [
            figure(
                plots.latent_plot(latent.H, latent.y[:, j], target),
                f"Latent space coloured by {target}",
                f"Coloured by the measured {target}. Smooth changes of colour show that windows with "
                "similar outcomes are close together.",
            )
        ]
        if latent.part is not None:
            shown.append(
                figure(
                    plots.latent_plot(latent.H, latent.part[:, j], "added by the GP"),
                    "Latent space coloured by what the GP adds to the linear mean",
                    f"Coloured by what the GP adds to the linear mean function of {target}.",
                )
            )
        shown.append(
            figure(
                plots.latent_plot(latent.H, latent.std[:, j], "standard deviation", "cividis"),
                f"Latent space coloured by the predicted standard deviation of {target}",
                "Coloured by the predicted standard deviation of a measured value.",
            )
        )
        parts += [*([tag("h3", target)] if len(drawn) > 1 else []), figures(*shown)]
    return section("latent", "Latent space", *parts)


def _data(findings: Findings) -> Element:
    layout, features = findings.forecaster.layout, findings.state.report.features
    policy = (
        f"Gaps of up to {layout.max_gap} rows were interpolated linearly inside windows; interpolated "
        "targets were neither trained on nor scored."
        if layout.max_gap
        else "Windows with a missing value were left out; nothing was interpolated."
    )
    scaling = (
        "Columns were standardised by their mean and standard deviation in training. A window has "
        f"{len(features)} column{'s' * (len(features) > 1)}: {listed(features, most=30)}."
    )
    tables = counts_table(findings), tag("p", scaling), columns_table(findings)
    return section("data", "Data", tag("p", policy), *tables)


def _options(findings: Findings) -> Element:
    params = findings.forecaster.params()
    options = {name: value for name, value in params.items() if name != "model"}
    parts = [tag("div", tag("h3", "Forecaster"), options_table(options))]
    scores = findings.state.simulation_scores
    if scores:
        tried = table(["method", "RMSE"], [[name, number(value)] for name, value in scores.items()])
        words = tag("p", "Error of a free simulation on validation rows; the best was kept.")
        parts.append(tag("div", tag("h3", "Training for simulation"), words, tried))
    learned = findings.learned
    parts += [
        tag("div", tag("h3", f"Model: {learned.kind}"), options_table(learned.options)),
        tag("div", tag("h3", "Versions"), versions_table()),
    ]
    return section("options", "Options and versions", figures(*parts))
