"""Figures of the paper, for the columns beside ours.

Source: Learning Scalable Deep Kernels with Recurrent Structure, Al-Shedivat et al. 2017,
arXiv:1610.08936, tables 1 and 2.
"""

from __future__ import annotations

__all__ = ["RGP_SIMULATION", "TABLE_1", "TABLE_2", "TABLE_3"]

# dataset → (steps, inputs, outputs, absolute correlation, signal-to-noise ratio). The paper's table
# has the last two swapped between its two rows; they stand here as printed.
TABLE_1 = {"drives": (500, 1, 1, 0.7994, 25.72), "actuator": (1024, 1, 1, 0.0938, 12.47)}

# (dataset, mode) → model → mean test RMSE and its deviation over 5 runs; the scale is not stated.
TABLE_2: dict[tuple[str, str], dict[str, tuple[float, float]]] = {
    ("drives", "regression"): {
        "narx": (0.33, 0.02), "rnn": (0.53, 0.02), "lstm": (0.29, 0.02),
        "gp-narx": (0.28, 0.02), "gp-rnn": (0.37, 0.04), "gp-lstm": (0.25, 0.02),
    },
    ("drives", "autoregression"): {
        "narx": (0.19, 0.03), "rnn": (0.17, 0.04), "lstm": (0.14, 0.02),
        "gp-narx": (0.16, 0.04), "gp-rnn": (0.16, 0.03), "gp-lstm": (0.13, 0.02),
    },
    ("drives", "simulation"): {
        "narx": (0.38, 0.03), "rnn": (0.56, 0.03), "lstm": (0.40, 0.02),
        "gp-narx": (0.28, 0.02), "gp-rnn": (0.45, 0.03), "gp-lstm": (0.32, 0.03),
    },
    ("actuator", "regression"): {
        "narx": (0.49, 0.05), "rnn": (0.56, 0.03), "lstm": (0.40, 0.03),
        "gp-narx": (0.46, 0.03), "gp-rnn": (0.49, 0.02), "gp-lstm": (0.36, 0.01),
    },
    ("actuator", "autoregression"): {
        "narx": (0.18, 0.01), "rnn": (0.17, 0.01), "lstm": (0.19, 0.01),
        "gp-narx": (0.14, 0.01), "gp-rnn": (0.15, 0.01), "gp-lstm": (0.14, 0.01),
    },
    ("actuator", "simulation"): {
        "narx": (0.57, 0.04), "rnn": (0.68, 0.05), "lstm": (0.44, 0.03),
        "gp-narx": (0.63, 0.04), "gp-rnn": (0.55, 0.04), "gp-lstm": (0.43, 0.03),
    },
}  # fmt: skip

RGP_SIMULATION = {"drives": 0.249, "actuator": 0.368}
"""Recurrent GP (Mattos et al. 2016) in free simulation, as the paper quotes it."""

TABLE_3: dict[str, dict[str, tuple[float, float]]] = {
    "gef-power": {"lstm": (0.45, 0.01), "gp-narx": (0.78, 0.03), "gp-lstm": (0.17, 0.02)},
    "gef-wind": {"lstm": (0.77, 0.01), "gp-narx": (0.83, 0.02), "gp-lstm": (0.76, 0.01)},
}
"""Smart grid: test RMSE, mean and standard deviation; which mode it was is not said."""
