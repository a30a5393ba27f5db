"""How training converges: the paper's figure on Actuator, with the frozen posterior beside it.

Panels: test RMSE and training NLML against epochs, full batch and mini-batches, 16 and 64 units; test RMSE
against the number of units; test RMSE after training against the delay between two refreshes and the
learning rate, once with the paper's linearised updates (``gradient``) and once with the frozen posterior.
The test part is evaluated at every epoch but nothing is selected by it: each number is that of the last
epoch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from paper.models import build, fit
from paper.recipes import Recipe
from paper.runner import Cell, Experiment, Row
from paper.tasks import parts

__all__ = ["EXPERIMENT"]

KEYS = ("panel", "algorithm", "surrogate", "units", "refresh", "lr", "seed")
_UNITS = (2, 4, 8, 16, 32)
_DELAYS = (5, 14, 35, 70)  # mini-batches; an epoch has 14
_RATES = (1e-3, 3e-3, 1e-2, 3e-2)
_EPOCHS = {"convergence": 80, "units": 50, "delay": 40}
_COMMON: Recipe = {
    "encoder": "lstm",
    "mean": "zero",
    "batch_size": 32,
    "calibrate": False,  # nothing is selected here
}


def cells(seeds: int, quick: bool = False) -> list[Cell]:
    """All runs of the figure."""
    found: list[Cell] = []
    for seed in range(seeds):
        for algorithm in ("full", "delayed"):
            for panel, units in (("convergence", (16, 64)), ("units", _UNITS)):
                found += [(panel, algorithm, "posterior", k, 14, 1e-2, seed) for k in units]
        found += [
            ("delay", "delayed", surrogate, 16, delay, lr, seed)
            for surrogate in ("gradient", "posterior")
            for delay in _DELAYS
            for lr in _RATES
        ]
    return found[::7] if quick else found


def settings(cell: Cell, quick: bool = False) -> Recipe:
    """The recipe."""
    panel, algorithm, surrogate, units, refresh, lr, _ = cell
    return _COMMON | {
        "algorithm": algorithm,
        "surrogate": surrogate,
        "hidden": int(units),
        "refresh": int(refresh),
        "lr": float(lr),
        "epochs": 4 if quick else _EPOCHS[panel],
    }


def scores(cell: Cell, quick: bool = False) -> Row:
    """Train once; the test part is in the place of the validation part, and selects nothing."""
    train, _, test = parts("actuator", "regression", "gp-lstm")
    recipe = settings(cell, quick)
    curve = fit(build("gp-lstm", recipe, cell[-1], "cpu"), train, test).history_
    reached = len(curve) == recipe["epochs"]  # otherwise it diverged
    return {
        "rmse_z": float(curve.val_rmse.iloc[-1]) if reached else np.inf,
        "nlml": float(curve.nlml.iloc[-1]) if reached else np.inf,
        "rmse_curve": " ".join(f"{v:.4g}" for v in curve.val_rmse),
        "nlml_curve": " ".join(f"{v:.4g}" for v in curve.nlml),
    }


def draw(table: pd.DataFrame, path: Path) -> None:
    """The figure as PNG."""
    figure = Figure(figsize=(13, 7.5), layout="constrained")
    axes = figure.subplots(2, 3)
    _convergence(table[table.panel == "convergence"], axes[0, 0], axes[0, 1])
    _units(table[table.panel == "units"], axes[0, 2])
    delays = table[table.panel == "delay"]
    for axis, surrogate, title in (
        (axes[1, 0], "gradient", "the paper's linearised updates"),
        (axes[1, 1], "posterior", "frozen posterior (seqgp's default)"),
    ):
        image = _delays(delays[delays.surrogate == surrogate], axis, title)
    if image is not None:
        figure.colorbar(image, ax=axes[1, :2], label="test RMSE (z) after training")
    axes[1, 2].axis("off")
    axes[1, 2].text(
        0, 0.95,
        "GP-LSTM on Actuator, pressure from valve\nposition; means over seeds. In the squares, the\n"
        "longer the posterior is kept between two\nrefreshes, and the higher the learning rate, the\n"
        "more outdated it is. Linearised updates then\nfail (dark); the frozen posterior is a bound on\n"
        "the likelihood and goes on descending.",
        va="top", fontsize=10.5,
    )  # fmt: skip
    figure.savefig(path, dpi=110)


def _mean_curve(rows: pd.DataFrame, column: str) -> Any:
    curves = [np.array(text.split(), float) for text in rows[column]]
    shortest = min(len(curve) for curve in curves)
    return np.mean([curve[:shortest] for curve in curves], axis=0)


def _convergence(table: pd.DataFrame, error: Any, likelihood: Any) -> None:
    names = {"full": "full batch", "delayed": "mini-batches"}
    for (algorithm, units), rows in table.groupby(["algorithm", "units"]):
        style = {"ls": "--" if algorithm == "full" else "-", "color": "C0" if units == 16 else "C1"}
        label = f"{names[str(algorithm)]}, {units} units"
        for axis, column in ((error, "rmse_curve"), (likelihood, "nlml_curve")):
            curve = _mean_curve(rows, column)
            axis.plot(np.arange(1, len(curve) + 1), curve, label=label, **style)
    error.set(xlabel="epoch", ylabel="test RMSE (z)", title="convergence: error")
    likelihood.set(
        xlabel="epoch", ylabel="training NLML, nats per row", title="convergence: likelihood"
    )
    error.legend(fontsize=8)


def _units(table: pd.DataFrame, axis: Any) -> None:
    for algorithm, name in (("full", "full batch"), ("delayed", "mini-batches")):
        rows = table[table.algorithm == algorithm].groupby("units").rmse_z.mean()
        axis.plot(rows.index, rows, "o--" if algorithm == "full" else "o-", label=name)
    axis.set(xlabel="LSTM units", ylabel="test RMSE (z)", title="size of the network", xscale="log")
    axis.set_xticks(_UNITS, [str(u) for u in _UNITS])
    axis.minorticks_off()
    axis.legend(fontsize=8)


def _delays(table: pd.DataFrame, axis: Any, title: str) -> Any:
    if table.empty:
        return None
    square = table.groupby(["lr", "refresh"]).rmse_z.mean().unstack()
    image = axis.imshow(
        square.clip(upper=1.0), vmin=0.3, vmax=1.0, cmap="viridis_r", origin="lower"
    )
    for i, row in enumerate(square.to_numpy()):
        for j, value in enumerate(row):
            text = f"{value:.2f}" if np.isfinite(value) else "∞"
            axis.text(
                j, i, text, ha="center", va="center", color="white" if value > 0.7 else "black"
            )
    axis.set_xticks(range(square.shape[1]), [str(v) for v in square.columns])
    axis.set_yticks(range(square.shape[0]), [f"{v:g}" for v in square.index])
    axis.set(xlabel="mini-batches between refreshes", ylabel="learning rate", title=title)
    return image


EXPERIMENT = Experiment(
    "fig-optimization", KEYS, cells, settings, scores, figures={"fig_optimization": draw}
)
