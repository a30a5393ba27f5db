"""The car's pictures: lanes and the vehicle ahead, seen from above, with their uncertainty drawn.

Models and split are table 3's; the frames shown are spread evenly over the test drives, not chosen.
"""

from __future__ import annotations

import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from paper import table3
from seqgp.exceptions import TrainingWarning
from seqgp.metrics import rmse

__all__ = ["KEYS", "cells", "draw", "run_cell", "settings"]

KEYS = ("dataset", "model", "seed")
MODELS = ("lstm", "gp-lstm")
FRAMES = {"car-lanes": 3, "car-lead": 8}
_MODE = "autoregression"
_AHEAD = np.linspace(0.0, 30.0, 7)  # metres, where the lane points are
_BAND = 1.96


def cells(seeds: int, quick: bool = False) -> list[tuple[Any, ...]]:
    """Both tasks, both models; a picture has one seed."""
    return [(dataset, model, 0) for dataset in FRAMES for model in MODELS]


def settings(cell: tuple[Any, ...], quick: bool = False) -> dict[str, Any]:
    """Those of table 3, but that nothing is trained again on validation rows."""
    dataset, model, seed = cell
    found = table3.settings((dataset, model, _MODE, seed), quick)
    found.pop("refit", None)
    return found


def run_cell(cell: tuple[Any, ...], quick: bool = False) -> dict[str, Any]:
    """Train, and keep the predictions of the frames to be drawn."""
    torch.set_num_threads(1)
    start = time.perf_counter()
    dataset, model, seed = cell
    train, validation, test = table3.parts(dataset, _MODE, model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)
        estimator = table3.estimator((dataset, model, _MODE, int(seed)), quick)
        estimator.fit(train, validation=validation)
    mean, std = estimator.predict(test, return_std=True)
    shown = np.linspace(0, len(test) - 1, FRAMES[dataset] + 2).round().astype(int)[1:-1]
    scale = train.y.std(0)
    return {
        **dict(zip(KEYS, cell, strict=True)),
        "rmse_z": rmse(test.y / scale, mean / scale),
        "seconds": time.perf_counter() - start,
        **{
            name: json.dumps(np.round(values[shown], 4).tolist())
            for name, values in (("truth", test.y), ("mean", mean), ("std", std))
        },
    }


def draw(table: pd.DataFrame, path: Path) -> None:
    """Three frames of lanes, and the vehicle ahead in eight frames."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        1, 4, figsize=(13, 5.5), layout="constrained", width_ratios=(1, 1, 1, 1.8)
    )
    rows = {(row["dataset"], row["model"]): row for row in table.to_dict("records")}
    for frame, axis in enumerate(axes[:3]):
        _lanes(axis, rows, frame)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower left", ncols=4)
    _lead(axes[3], rows)
    figure.suptitle("One step (0.1 s) ahead, seen from above; the car is at (0, 0) and drives up")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _values(row: Any) -> tuple[Any, Any, Any]:
    """Truth, mean and deviation of the frames shown, ``(frames, outputs)`` each."""
    truth, mean, std = (np.array(json.loads(row[name])) for name in ("truth", "mean", "std"))
    return truth, mean, std


def _lanes(axis: Any, rows: dict[Any, Any], frame: int) -> None:
    """Left and right border: y to the left, so the axis runs backwards."""
    truth, mean, std = (v[frame].reshape(2, 7) for v in _values(rows["car-lanes", "gp-lstm"]))
    plain = _values(rows["car-lanes", "lstm"])[1][frame].reshape(2, 7)
    for side in range(2):
        first = side == 0
        half = _BAND * std[side]
        axis.fill_betweenx(
            _AHEAD, mean[side] - half, mean[side] + half, color="C0", alpha=0.25,
            label="GP-LSTM, 95%" if first else None,
        )  # fmt: skip
        axis.plot(mean[side], _AHEAD, color="C0", label="GP-LSTM" if first else None)
        axis.plot(plain[side], _AHEAD, "--", color="C1", label="LSTM" if first else None)
        axis.plot(truth[side], _AHEAD, "k.", label="measured" if first else None)
    axis.plot(0, 0, "^", color="grey", ms=12)
    axis.set(xlim=(6, -6), xlabel="metres to the left", title=f"lane borders, frame {frame + 1}")
    axis.set_ylabel("metres ahead" if frame == 0 else "")


def _standing(truth: Any) -> dict[int, list[int]]:
    """Frames by the first of those that are within a quarter of a metre of it: one label for all."""
    found: dict[int, list[int]] = {}
    for k in range(len(truth)):
        first = next((j for j in found if abs(truth[j] - truth[k]).max() < 0.25), k)
        found.setdefault(first, []).append(k)
    return found


def _lead(axis: Any, rows: dict[Any, Any]) -> None:
    from matplotlib.patches import Ellipse

    truth, mean, std = _values(rows["car-lead", "gp-lstm"])
    plain = _values(rows["car-lead", "lstm"])[1]
    for k in range(len(truth)):
        (x, y), (sx, sy) = mean[k], std[k]
        size = (
            2 * 2.45 * sy,
            2 * 2.45 * sx,
        )  # 95% of a Gaussian in the plane lies in 2.45 deviations
        axis.add_patch(Ellipse((y, x), *size, color="C0", alpha=0.3, lw=0))
    for first, frames in _standing(truth).items():
        text = ", ".join(str(k + 1) for k in frames)
        axis.annotate(text, (truth[first, 1], truth[first, 0]), xytext=(6, 4),
                      textcoords="offset points", fontsize=8)  # fmt: skip
    axis.plot(mean[:, 1], mean[:, 0], "C0+", ms=8, label="GP-LSTM, 95% ellipse")
    axis.plot(plain[:, 1], plain[:, 0], "C1x", ms=6, label="LSTM")
    axis.plot(truth[:, 1], truth[:, 0], "k.", label="measured")
    axis.invert_xaxis()
    axis.set(xlabel="metres to the left", ylabel="metres ahead", title="vehicle ahead, 8 frames")
    axis.legend(fontsize=8)
