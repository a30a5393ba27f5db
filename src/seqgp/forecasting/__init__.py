"""Forecasts: frames in and out, many steps ahead, free simulation and training for it."""

from seqgp.forecasting.baselines import fit_linear
from seqgp.forecasting.forecaster import Forecaster
from seqgp.forecasting.multistep import InputsOnly, Multistep, fit_multistep
from seqgp.forecasting.results import Backtest, Evaluation, Forecast
from seqgp.forecasting.running import MissingValuesError
from seqgp.forecasting.simulation import Simulation, simulate, starts_of
from seqgp.forecasting.state import DataReport, ForecasterState, Linear

__all__ = [
    "Backtest",
    "DataReport",
    "Evaluation",
    "Forecast",
    "Forecaster",
    "ForecasterState",
    "InputsOnly",
    "Linear",
    "MissingValuesError",
    "Multistep",
    "Simulation",
    "fit_linear",
    "fit_multistep",
    "simulate",
    "starts_of",
]
