"""Plots of forecasts and models: small functions from results to a matplotlib ``Figure``.

They keep no global state; the caller shows, saves or embeds the figure. They need matplotlib, which
``pip install 'seqgp[report]'`` brings.
"""

try:
    import matplotlib  # noqa: F401
except ImportError as error:
    raise ImportError("plots and reports need matplotlib: pip install 'seqgp[report]'") from error

from seqgp.plots.diagnostics import coverage_plot, latent_plot, pit_plot, training_plot
from seqgp.plots.forecast import error_plot, forecast_plot, residual_plot

__all__ = [
    "coverage_plot",
    "error_plot",
    "forecast_plot",
    "latent_plot",
    "pit_plot",
    "residual_plot",
    "training_plot",
]
