"""Plots of forecasts and models: small functions from results to a matplotlib ``Figure``.

They keep no global state: a figure is shown, saved or put into a page by its owner.
"""

from seqgp.plots.calibration import coverage_plot, observed_coverage, pit_plot
from seqgp.plots.forecast import error_plot, forecast_plot, residual_plot
from seqgp.plots.model import latent_plot, training_plot

__all__ = [
    "coverage_plot",
    "error_plot",
    "forecast_plot",
    "latent_plot",
    "observed_coverage",
    "pit_plot",
    "residual_plot",
    "training_plot",
]
