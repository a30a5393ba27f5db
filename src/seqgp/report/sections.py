"""The parts of the page, in order."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from seqgp.forecasting import InputsOnly
from seqgp.report.findings import Findings
from seqgp.report.formats import listed, number
from seqgp.report.page import figures, section, table, tag
from seqgp.report.pictures import (
    latent_section,
    paragraph,
    target_section,
    training_section,
    verdicts,
)
from seqgp.report.tables import (
    columns_table,
    counts_table,
    options_table,
    overview_table,
    versions_table,
)
from seqgp.report.words import about, overall, rows_used

__all__ = ["sections"]

_MOST_TARGETS = 4  # with plots of their own: more would make the page too heavy to send around


def sections(findings: Findings) -> list[Element]:
    """All sections of the page."""
    drawn = findings.targets[:_MOST_TARGETS]
    parts = [_summary(findings)]
    parts += [target_section(findings, target, i + 1) for i, target in enumerate(drawn)]
    parts.append(training_section(findings))
    if findings.latent is not None:
        parts.append(latent_section(findings, findings.latent, drawn))
    return [*parts, _data(findings), _options(findings)]


def _summary(findings: Findings) -> Element:
    parts = [
        tag("p", about(findings), class_="lead"),
        paragraph("Tested on what?", rows_used(findings)),
    ]
    if len(findings.targets) == 1:
        parts += verdicts(findings, findings.targets[0])
    else:
        parts += [paragraph("How good is it?", overall(findings)), overview_table(findings)]
    if len(findings.targets) > _MOST_TARGETS:
        rest = len(findings.targets) - _MOST_TARGETS
        parts.append(
            tag(
                "p",
                f"Plots follow for the first {_MOST_TARGETS} targets; the table has {rest} more.",
            )
        )
    return section("summary", "In short", *parts)


def _data(findings: Findings) -> Element:
    layout = findings.forecaster.layout
    policy = (
        f"Gaps of up to {layout.max_gap} rows were filled by a straight line, for use inside windows only: "
        "filled targets were neither learned from nor scored."
        if layout.max_gap
        else "Windows that touch a missing value were left out; nothing was filled in."
    )
    features = findings.state.report.features
    return section(
        "data",
        "What was done to the data",
        tag("p", policy),
        counts_table(findings),
        tag(
            "p",
            "Every column was scaled by its mean and standard deviation in training, so that all count "
            "alike. "
            f"A window has {len(features)} column{'s' * (len(features) > 1)}: {listed(features, most=30)}.",
        ),
        columns_table(findings),
    )


def _options(findings: Findings) -> Element:
    forecaster, estimator = findings.forecaster, findings.estimator
    options = {name: value for name, value in forecaster.params().items() if name != "model"}
    parts = [tag("div", tag("h3", "Forecaster"), options_table(options))]
    scores = findings.state.simulation_scores
    if scores:
        tried = table(["way", "RMSE"], [[name, number(value)] for name, value in scores.items()])
        words = tag("p", "Error of a free run over rows held back; the best was kept.")
        parts.append(tag("div", tag("h3", "Ways of training for free runs"), words, tried))
    kind = type(estimator).__name__
    if isinstance(forecaster.model_, InputsOnly):
        kind += ", past targets hidden"
    model = options_table(estimator.get_params(deep=False))
    parts += [
        tag("div", tag("h3", f"Model: {kind}"), model),
        tag("div", tag("h3", "Versions"), versions_table()),
    ]
    return section("options", "Options and versions", figures(*parts))
