"""A report on a fitted forecaster: one HTML page that needs nothing else."""

from seqgp.report.write import write_report

__all__ = ["write_report"]
