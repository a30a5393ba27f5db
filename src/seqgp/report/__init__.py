"""A report on a fitted forecaster: one self-contained HTML page."""

from seqgp.report.page import write_report

__all__ = ["write_report"]
