"""Forecasts: frames in and out, many steps ahead, free simulation and training for it."""

from seqgp.forecasting.evaluate import Backtest, Evaluation
from seqgp.forecasting.forecaster import Forecaster
from seqgp.forecasting.frames import Dataset
from seqgp.forecasting.model import InputsOnly, Linear, fit_linear
from seqgp.forecasting.predict import Forecast
from seqgp.forecasting.reading import MissingValuesError
from seqgp.forecasting.simulate import Multistep, Simulation, fit_multistep, simulate, starts_of
from seqgp.forecasting.state import DataReport, ForecasterState

__all__ = [
    "Backtest",
    "DataReport",
    "Dataset",
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
