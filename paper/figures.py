"""Figures on the tasks of table 3, whose models these are, but trained once.

``fig-performance``: GEF-power with past load; error against the number of training rows, error and
likelihood against the number of units. The training rows left out are the oldest.

``fig-car``: lanes and the vehicle ahead, seen from above, with their uncertainty. The frames shown are
spread evenly over the test drives, not selected.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse

from paper.models import Persistence, RidgeModel, build, fit, predicted, scores
from paper.recipes import recipe_of
from paper.runner import Cell, Experiment, Row
from paper.tasks import lag_of, parts
from seqgp.metrics import rmse

__all__ = ["CAR", "FRAMES", "PERFORMANCE"]

_MODE = "autoregression"
_MODELS = ("lstm", "gp-lstm")
_DATASET = "gef-power"
_ROWS = (1_000, 2_500, 5_000, 10_000, 21_000)
_UNITS = (8, 16, 32, 64, 128)
_BASELINES: dict[str, Any] = {"persistence": Persistence, "ridge": RidgeModel}
_TICKS = (30, 50, 100, 200, 300)  # MW
FRAMES = {"car-lanes": 3, "car-lead": 8}
"""How many are drawn."""
_AHEAD = np.linspace(0.0, 30.0, 7)  # metres, where the lane points are
_BAND = 1.96
_PLANE = 2.45  # deviations: 95% of a Gaussian in the plane


def performance_cells(seeds: int, quick: bool = False) -> list[Cell]:
    """Both panels."""
    found: list[Cell] = []
    for seed in range(seeds):
        for model in _MODELS:
            found += [("rows", model, rows, 64, seed) for rows in _ROWS]
            found += [("units", model, _ROWS[-1], units, seed) for units in _UNITS]
    found += [("rows", model, rows, 0, 0) for model in _BASELINES for rows in _ROWS]
    return found[::7] if quick else found


def performance_settings(cell: Cell, quick: bool = False) -> dict[str, Any]:
    """The recipe, and the number of rows."""
    _, model, rows, units, _ = cell
    if model in _BASELINES:
        return {"rows": int(rows)}
    recipe = recipe_of(_DATASET, model, _MODE, quick)
    return recipe | {"rows": int(rows), "hidden": int(units)}


def performance_scores(cell: Cell, quick: bool = False) -> Row:
    """Train on the newest ``rows`` training windows, and test."""
    _, model, rows, units, seed = cell
    train, validation, test = parts(_DATASET, _MODE, model)
    scale = float(train.union(validation).y.std())
    train = train.subset(slice(max(0, len(train) - int(rows)), None))
    nlml = np.nan
    if model in _BASELINES:
        fitted: Any = fit(_BASELINES[model](), train, validation)
    else:
        recipe = recipe_of(_DATASET, model, _MODE, quick) | {"hidden": int(units)}
        fitted = fit(build(model, recipe, seed), train, validation)
        record = fitted.fitted_.members[0].record
        best = record.history[record.history.epoch == record.best_epoch]
        nlml = float(best.nlml.iloc[0]) if len(best) else np.nan
    return {**scores(predicted(fitted, test), test.y, scale), "nlml": nlml}


def draw_performance(table: pd.DataFrame, path: Path) -> None:
    """The figure as PNG: mean over seeds, with the range of seeds."""
    figure = Figure(figsize=(13, 4), layout="constrained")
    axes = figure.subplots(1, 3)
    table = table.assign(rmse=table.rmse / 1000.0)
    panels = (
        (axes[0], "rows", "rows", "rmse", "test RMSE, MW", "training windows, the newest"),
        (axes[1], "units", "units", "rmse", "test RMSE, MW", "LSTM units, all training windows"),
        (axes[2], "units", "units", "nlml", "training NLML, nats per row", "LSTM units"),
    )
    for model, style in zip(_BASELINES, (":", "--"), strict=True):
        line = table[table.model == model].set_index("rows").rmse.sort_index()
        axes[0].plot(line, style, color="grey", label=model)
    axes[0].set(yscale="log")
    axes[0].set_yticks(_TICKS, [f"{tick}" for tick in _TICKS])
    for axis, panel, x, y, ylabel, xlabel in panels:
        for model, colour in zip(_MODELS, ("C1", "C0"), strict=True):
            if y == "nlml" and model == "lstm":
                continue  # a plain network has none
            rows = table[(table.panel == panel) & (table.model == model)].groupby(x)[y]
            axis.plot(rows.mean(), "o-", color=colour, label=model.upper())
            axis.fill_between(rows.min().index, rows.min(), rows.max(), color=colour, alpha=0.2)
        axis.set(xlabel=xlabel, ylabel=ylabel, xscale="log")
        ticks = _ROWS if x == "rows" else _UNITS
        axis.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axis.minorticks_off()
        axis.legend()
    figure.suptitle(
        "GEF-power, load one hour ahead, with past load; bands: lowest and highest seed"
    )
    figure.savefig(path, dpi=110)


PERFORMANCE = Experiment(
    "fig-performance",
    ("panel", "model", "rows", "units", "seed"),
    performance_cells,
    performance_settings,
    performance_scores,
    figures={"fig_performance": draw_performance},
)


def car_cells(seeds: int, quick: bool = False) -> list[Cell]:
    """Both tasks, both models; a picture has one seed."""
    return [(dataset, model, 0) for dataset in FRAMES for model in _MODELS]


def car_settings(cell: Cell, quick: bool = False) -> dict[str, Any]:
    """Those of table 3, without the second training."""
    dataset, model, _ = cell
    return {"lag": lag_of(dataset, _MODE), **recipe_of(dataset, model, _MODE, quick)}


def car_scores(cell: Cell, quick: bool = False) -> Row:
    """Train, and keep the predictions of the frames to be drawn."""
    dataset, model, seed = cell
    train, validation, test = parts(dataset, _MODE, model)
    recipe = recipe_of(dataset, model, _MODE, quick)
    found = predicted(fit(build(model, recipe, seed), train, validation), test)
    shown = np.linspace(0, len(test) - 1, FRAMES[dataset] + 2).round().astype(int)[1:-1]
    scale = train.y.std(0)
    return {
        "rmse_z": rmse(test.y / scale, found.mean / scale),
        **{
            name: json.dumps(np.round(values[shown], 4).tolist())
            for name, values in (("truth", test.y), ("mean", found.mean), ("std", found.std))
        },
    }


def draw_car(table: pd.DataFrame, path: Path) -> None:
    """Three frames of lanes, and the vehicle ahead in eight frames."""
    figure = Figure(figsize=(13, 5.5), layout="constrained")
    axes = figure.subplots(1, 4, width_ratios=(1, 1, 1, 1.8))
    rows = {(row["dataset"], row["model"]): row for row in table.to_dict("records")}
    for frame, axis in enumerate(axes[:3]):
        _lanes(axis, rows, frame)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower left", ncols=4)
    _lead(axes[3], rows)
    figure.suptitle("One step (0.1 s) ahead, seen from above; the car is at (0, 0) and drives up")
    figure.savefig(path, dpi=110)


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


def _grouped(truth: Any) -> dict[int, list[int]]:
    """Groups of frames within a quarter of a metre of their first, which get one label."""
    found: dict[int, list[int]] = {}
    for k in range(len(truth)):
        first = next((j for j in found if abs(truth[j] - truth[k]).max() < 0.25), k)
        found.setdefault(first, []).append(k)
    return found


def _lead(axis: Any, rows: dict[Any, Any]) -> None:
    truth, mean, std = _values(rows["car-lead", "gp-lstm"])
    plain = _values(rows["car-lead", "lstm"])[1]
    for k in range(len(truth)):
        (x, y), (sx, sy) = mean[k], std[k]
        size = 2 * _PLANE * sy, 2 * _PLANE * sx
        axis.add_patch(Ellipse((y, x), *size, color="C0", alpha=0.3, lw=0))
    for first, frames in _grouped(truth).items():
        text = ", ".join(str(k + 1) for k in frames)
        axis.annotate(text, (truth[first, 1], truth[first, 0]), xytext=(6, 4),
                      textcoords="offset points", fontsize=8)  # fmt: skip
    axis.plot(mean[:, 1], mean[:, 0], "C0+", ms=8, label="GP-LSTM, 95% ellipse")
    axis.plot(plain[:, 1], plain[:, 0], "C1x", ms=6, label="LSTM")
    axis.plot(truth[:, 1], truth[:, 0], "k.", label="measured")
    axis.invert_xaxis()
    axis.set(xlabel="metres to the left", ylabel="metres ahead", title="vehicle ahead, 8 frames")
    axis.legend(fontsize=8)


CAR = Experiment(
    "fig-car",
    ("dataset", "model", "seed"),
    car_cells,
    car_settings,
    car_scores,
    figures={"fig_car": draw_car},
)
