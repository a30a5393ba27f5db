"""A small system with a known input, a past-only input and dates, for the forecaster's tests."""

from __future__ import annotations

import numpy as np
import pandas as pd

from seqgp import LSTM, SequenceGP, Training


def small_model(epochs=2, hidden=4, **options):
    training = Training(epochs=epochs)
    model = SequenceGP(LSTM(hidden=hidden), training=training, random_state=0, progress=False)
    return model.set_params(**options)


def hourly(n=220, seed=0):
    """Rows with ``u`` (known in advance), ``v`` (past only) and ``y``, indexed by the hour."""
    rng = np.random.default_rng(seed)
    u = np.convolve(rng.standard_normal(n + 3), np.ones(4) / 4, "valid")
    v, y = np.zeros(n), np.zeros(n)
    for t in range(1, n):
        v[t] = 0.8 * v[t - 1] + 0.3 * rng.standard_normal()
        y[t] = 0.6 * y[t - 1] + np.tanh(2 * u[t]) + 0.4 * v[t - 1] + 0.1 * rng.standard_normal()
    times = pd.date_range("2024-01-01", periods=n, freq="h", name="time")
    return pd.DataFrame({"u": u, "v": v, "y": y}, index=times)
