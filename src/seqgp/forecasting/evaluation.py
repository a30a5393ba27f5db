"""Scores of a forecaster beside persistence and ridge, on the same rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from seqgp.forecasting.baselines import newest_known
from seqgp.forecasting.results import Evaluation
from seqgp.forecasting.running import Predicted
from seqgp.forecasting.state import ForecasterState
from seqgp.forecasting.table import Layout, Table
from seqgp.metrics import LEVELS, pit, scores, share_error

__all__ = ["evaluation", "persistence"]

Array = NDArray[np.float64]


def persistence(
    table: Table, layout: Layout, state: ForecasterState, rows: NDArray[np.int64]
) -> Predicted:
    """The newest target known at the time of each prediction, deviating as it did in training.

    In simulation mode it is that at the start of the run, and the deviation grows as that of a
    random walk.
    """
    mean = newest_known(table.targets(layout), layout.horizon)[rows]
    grown = np.ones((len(rows), 1))
    if layout.mode == "simulation" and len(rows):
        mean = np.broadcast_to(mean[0], mean.shape)
        grown = np.sqrt(rows - rows[0] + 1.0)[:, None]
    return Predicted(rows, mean, state.persistence_std * grown)


def evaluation(
    frame: pd.DataFrame,
    table: Table,
    layout: Layout,
    state: ForecasterState,
    model: Predicted,
    ridge: Predicted,
    intervals: dict[float, Array] | None = None,
) -> Evaluation:
    """Scores of predictions for the same rows of the table, where the truth is known.

    ``frame`` has the model's predictions for the table's own rows; the truth is put beside them.
    ``intervals`` are the model's by level, ``(2, n, outputs)`` with lower and upper ends, where they
    are not those of its distribution.
    """
    truth = table.targets(layout)
    rivals = {
        "model": model,
        "persistence": persistence(table, layout, state, model.rows),
        "ridge": ridge,
    }
    metrics, transforms = {}, {}
    for j, target in enumerate(layout.targets):
        frame[target] = truth[table.own, j]
        y = truth[model.rows, j]
        scored = np.isfinite(y) & np.isfinite(rivals["persistence"].mean[:, j])
        if not scored.any():
            raise ValueError(
                f"no row has both a prediction and a true value of {target!r} to compare it with: give "
                f"rows with the target, and at least {layout.need + 1} of them in a row"
            )
        said = {
            name: (y[scored], each.mean[scored, j], each.std[scored, j], _tails(each, j))
            for name, each in rivals.items()
        }
        transforms[target] = pit(*said["model"])
        found = {}
        for name, (truths, mean, std, dof) in said.items():
            own = None
            if name == "model" and intervals is not None:
                own = {level: ends[:, scored, j] for level, ends in intervals.items()}
            found[name] = scores(truths, mean, std, state.target_std[j], dof)
            found[name] |= _shares(truths, pit(truths, mean, std, dof), own)
        columns = [*found["persistence"]]
        metrics[target] = pd.DataFrame(found).T[columns].astype({"n": int})
    return Evaluation(frame, metrics, transforms)


def _shares(y: Array, where: Array, intervals: dict[float, Array] | None) -> dict[str, float]:
    """Sampling errors of coverage; coverage and width too of intervals of their own."""
    found = {}
    for level in LEVELS:
        name = f"{100 * level:.0f}"
        inside = np.abs(where - 0.5) <= level / 2.0
        if intervals is not None:
            low, high = intervals[level]
            inside = (low <= y) & (y <= high)
            found[f"cov{name}"] = float(inside.mean())
            found[f"width{name}"] = float(np.mean(high - low))
        found[f"cov{name}_error"] = share_error(inside, level)
    return found


def _tails(found: Predicted, output: int) -> float:
    return float(np.broadcast_to(found.dof, found.mean.shape[1:])[output])
