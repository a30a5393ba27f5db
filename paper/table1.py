"""Statistics of the data sets: the paper's table 1, for the recordings that are available."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, KFold

from paper import datasets
from paper.runner import Cell, Experiment, Row, table_lines
from paper.tasks import SYSID
from seqgp import WindowSet

__all__ = ["EXPERIMENT"]

_STEPS = 32
# Figures of the paper, arXiv:1610.08936: absolute correlation and signal-to-noise ratio. They stand
# here as printed, with the rows of Drives and Actuator swapped.
_PAPER = {"drives": (0.7994, 25.72), "actuator": (0.0938, 12.47)}


def cells(seeds: int, quick: bool = False) -> list[Cell]:
    """One for each recording."""
    return [(name,) for name in SYSID]


def settings(cell: Cell, quick: bool = False) -> dict[str, Any]:
    """Steps of the window that the smoother sees."""
    return {"steps": _STEPS}


def scores(cell: Cell, quick: bool = False) -> Row:
    """Steps, dimensions, mean |correlation| of inputs and targets, and signal-to-noise ratio.

    As in the paper, kernel ridge regression with an RBF kernel predicts the target from the input
    series, and its residual is called noise. The paper does not say how much of the series it sees, nor
    how it is tuned; here it is the last 32 steps, tuned by cross-validation over blocks.
    """
    data = datasets.load(cell[0])
    y = data.targets.reshape(len(data.targets), -1)
    pairs = [
        abs(np.corrcoef(u, v)[0, 1]) for u in data.inputs.T for v in y.T if u.std() and v.std()
    ]
    windows = WindowSet(data.inputs, y, lag=_STEPS)
    X, target = _standardised(windows[:].reshape(len(windows), -1)), _standardised(windows.y)
    grid = {"alpha": np.logspace(-3, 1, 5), "gamma": np.logspace(-4, -1, 7)}
    search = GridSearchCV(KernelRidge(kernel="rbf"), grid, cv=KFold(5))
    fitted = search.fit(X, target).predict(X).reshape(target.shape)
    noise = target - fitted
    return {
        "steps": len(y),
        "inputs": data.inputs.shape[1],
        "outputs": y.shape[1],
        "abs_corr": float(np.mean(pairs)),
        "snr": float(fitted.var() / noise.var()),
    }


def _standardised(values: NDArray[np.float64]) -> NDArray[np.float64]:
    scaled: NDArray[np.float64] = (values - values.mean(0)) / values.std(0)
    return scaled


def markdown(table: pd.DataFrame) -> str:
    """Ours beside the paper's."""
    lines = [
        "# Data (the paper's table 1)",
        "",
        "Correlation is the mean absolute correlation of inputs and targets at the same step. The "
        "paper's values for Drives and Actuator are swapped: ours show which is which. Its "
        "signal-to-noise ratio depends on what the smoother sees and how it is tuned, which it does not "
        "say; ours (32 steps of input, cross-validated over blocks in time) is not comparable in size.",
        "",
    ]
    rows = []
    for row in table.to_dict("records"):
        correlation, ratio = _PAPER[row["dataset"]]
        rows.append(
            [
                row["dataset"],
                f"{row['steps']:,}",
                row["inputs"],
                row["outputs"],
                f"{row['abs_corr']:.4f}",
                f"{correlation:.4f}",
                f"{row['snr']:.2f}",
                f"{ratio:.2f}",
            ]
        )
    columns = ["data", "steps", "inputs", "outputs", "corr.", "paper", "SNR", "paper"]
    return "\n".join([*lines, *table_lines(columns, rows)]) + "\n"


EXPERIMENT = Experiment("table1", ("dataset",), cells, settings, scores, markdown, threads=None)
