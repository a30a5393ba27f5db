"""How training and prediction scale: the paper's figure, at the size of its car recordings.

932,939 windows of 128 steps, 6 inputs and one target, 2 × 64 LSTM, grids of 100, 200 and 400 points per
dimension. Time does not depend on the values in the windows, so they are cut from random numbers: the
paper's recording is not public, and no public one has as many rows. One epoch of the GP-LSTM (passing
over the data for the posterior, θ, tables, and every mini-batch) is compared with one of the same LSTM on
squared errors, and a prediction with the LSTM's own forward pass.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from paper.runner import Cell, Experiment, Row, table_lines
from seqgp import GP, Training
from seqgp.data import TensorWindows
from seqgp.encoders import LSTM, Head, Network, ScaledLinear, encode
from seqgp.gp import Statistics
from seqgp.training import Part, train

__all__ = ["EXPERIMENT"]

KEYS = ("windows", "grid", "model", "seed")
WINDOWS, LAG, INPUTS, UNITS, LAYERS, BATCH = 932_939, 128, 6, 64, 2, 1024
FRACTIONS = (0.1, 0.2, 0.4, 0.8, 1.0)
GRIDS = (100, 200, 400)
_QUICK = 4000
_PREDICTED = 65_536  # rows in a timed forward pass
# Latent points in a timed prediction (these rows' repeated), and calls timed. On a GPU fewer points would
# measure the time of launching kernels.
_POINTS = {"cpu": 1, "cuda": 2**19}
_CALLS = {"cpu": 5, "cuda": 25}


def cells(seeds: int, quick: bool = False) -> list[Cell]:
    """Fractions of the data on the default grid, and larger grids on a tenth of it."""
    total = _QUICK if quick else WINDOWS
    sizes = [round(share * total) for share in FRACTIONS]
    return [
        cell
        for seed in range(seeds)
        for cell in (
            *((n, 0, "lstm", seed) for n in sizes),
            *((n, GRIDS[0], "gp-lstm", seed) for n in sizes),
            *((sizes[0], grid, "gp-lstm", seed) for grid in GRIDS[1:]),
        )
    ]


def settings(cell: Cell, quick: bool = False) -> dict[str, Any]:
    """What was timed, and on what."""
    return {
        "lag": LAG,
        "inputs": INPUTS,
        "units": UNITS,
        "layers": LAYERS,
        "batch_size": BATCH,
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU",
    }


def scores(cell: Cell, quick: bool = False) -> Row:
    """Seconds of an epoch (the second of two), and microseconds of a prediction per row."""
    n, grid, model, seed = cell
    torch.manual_seed(seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    series = torch.randn(n + LAG, INPUTS, device=device)
    part = Part(
        TensorWindows(series, torch.arange(n, device=device), LAG),
        torch.tanh(series[LAG - 1 : LAG - 1 + n].double().sum(1, keepdim=True)),
    )
    encoder = LSTM(UNITS, LAYERS).build(INPUTS, LAG).to(device)
    rows = part.windows[slice(0, _PREDICTED)]
    timed = _plain(encoder, part) if model == "lstm" else _gp(encoder, part, int(grid))
    with torch.no_grad():
        latent = encode(timed.network, rows).latent
        points = latent.repeat(math.ceil(_POINTS[device.type] / len(latent)), 1)
        return {
            "epoch_seconds": timed.epoch,
            "predict_us": 1e6 * _seconds(lambda: timed.predict(points), device) / len(points),
            "encode_us": 1e6 * _seconds(lambda: encode(timed.network, rows), device) / len(rows),
        }


@dataclass(frozen=True)
class _Timed:
    network: Network
    predict: Callable[[Tensor], Any]
    """What follows the network."""
    epoch: float


def _plain(encoder: nn.Module, part: Part) -> _Timed:
    """An ordinary PyTorch loop on squared errors."""
    device, y = part.y.device, part.y.float()
    linear = nn.Linear(UNITS, 1).to(device)
    network = nn.Sequential(encoder, linear)
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=0.0)
    times = []
    for _ in range(2):
        _wait(device)
        times.append(time.perf_counter())
        for index in torch.randperm(len(y), device=device).split(BATCH):
            loss = (network(part.windows[index]) - y[index]).square().mean()
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 5.0)
            optimiser.step()
    _wait(device)
    epoch = time.perf_counter() - times[-1]
    readout = ScaledLinear(UNITS, 1).to(device)
    readout.load_state_dict(linear.state_dict(), strict=False)  # the unit stays 1
    return _Timed(Network(encoder, None, readout, 1).eval(), lambda h: h, epoch)


class _Clocked(GP):
    """Records when it gathers statistics: once an epoch, so an epoch lies between two records."""

    def __init__(self, times: list[float], **options: Any) -> None:
        super().__init__(**options)
        self.times = times

    def statistics(self, H: Any, y: Any) -> Statistics:
        _wait(H.device)
        self.times.append(time.perf_counter())
        return super().statistics(H, y)


def _gp(encoder: nn.Module, part: Part, grid: int) -> _Timed:
    """The library's own loop: conditioning, θ, tables, and every mini-batch."""
    device = part.y.device
    head = Head(UNITS, 2).to(device)
    network = Network(encoder, head, None, 1)
    first = encode(network, part.windows[slice(0, 4096)], features=True).features
    assert first is not None  # asked for
    head.centre(first.float())
    times: list[float] = []
    gp = _Clocked(times, inference="grid", latent_dim=2, grid_size=grid).to(device)
    gp.initialise(part.y)
    train(network, gp, part, Training(epochs=2, batch_size=BATCH))
    epoch = times[-1] - times[-2]
    with torch.no_grad():
        posterior = gp.condition(encode(network, part.windows).latent, part.y)
    return _Timed(network, posterior.predict, epoch)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def _seconds(call: Any, device: torch.device) -> float:
    """Median over calls, after one that is not timed: it allocates the memory."""
    call()
    found = []
    for _ in range(_CALLS[device.type]):
        _wait(device)
        start = time.perf_counter()
        call()
        _wait(device)
        found.append(time.perf_counter() - start)
    return float(np.median(found))


def markdown(table: pd.DataFrame) -> str:
    """The table for people, with the two claims: linear in rows, flat in prediction."""
    columns = ["epoch_seconds", "predict_us", "encode_us"]
    means = table.groupby(["model", "grid", "windows"], sort=False)[columns].mean().reset_index()
    heads = ["model", "grid", "windows", "epoch, s", "forward, µs/row", "prediction, µs/row"]
    rows = [
        [
            row["model"],
            row["grid"] or "",
            f"{row['windows']:,}",
            f"{row['epoch_seconds']:.2f}",
            f"{row['encode_us']:.3f}",
            f"{row['predict_us']:.4f}" if row["grid"] else "",
        ]
        for row in means.to_dict("records")
    ]
    lines = [
        "# Scalability (the paper's car experiment, its size)",
        "",
        f"LSTM {LAYERS} × {UNITS}, {LAG} steps of {INPUTS} inputs, batches of {BATCH}; mean over "
        f"{table.seed.nunique()} run(s). A prediction is the GP's own part, a forward pass the network's.",
        "",
        *table_lines(heads, rows),
    ]
    gp = table[(table.model == "gp-lstm") & (table.grid == GRIDS[0])]
    plain = table[table.model == "lstm"]
    if len(gp) > 1 and len(plain):
        exponent = float(np.polyfit(np.log(gp.windows), np.log(gp.epoch_seconds), 1)[0])
        most = gp.windows.max()
        ratio = (
            gp[gp.windows == most].epoch_seconds.mean()
            / plain[plain.windows == most].epoch_seconds.mean()
        )
        flat = table[table.model == "gp-lstm"].predict_us
        lines += [
            "",
            f"An epoch of the GP-LSTM grows as n^{exponent:.2f} and takes {ratio:.2f} times the LSTM's "
            f"at {most:,} windows; slowest over fastest prediction: {flat.max() / flat.min():.2f}.",
        ]
    return "\n".join(lines) + "\n"


def draw(table: pd.DataFrame, path: Path) -> None:
    """Epoch time and prediction time, against rows and against the grid."""
    figure = Figure(figsize=(13, 4), layout="constrained")
    axes = figure.subplots(1, 3)
    for model, style in (("lstm", "s--"), ("gp-lstm", "o-")):
        rows = table[(table.model == model) & table.grid.isin([0, GRIDS[0]])].groupby("windows")
        axes[0].plot(rows.epoch_seconds.mean(), style, label=model.upper())
    axes[0].set(xlabel="training windows", ylabel="seconds per epoch", ylim=0, title="an epoch")
    axes[0].legend()
    gp = table[table.model == "gp-lstm"]
    rows = gp[gp.grid == GRIDS[0]].groupby("windows")
    axes[1].plot(rows.encode_us.mean(), "s--", label="the LSTM's forward pass")
    axes[1].plot(rows.predict_us.mean(), "o-", label="the GP's mean and variance")
    axes[1].set(xlabel="training windows", ylabel="µs per row", yscale="log", title="a prediction")
    axes[1].legend()
    rows = gp[gp.windows == gp.windows.min()].groupby("grid")
    axes[2].plot(rows.epoch_seconds.mean(), "o-", label="seconds per epoch")
    axes[2].plot(100 * rows.predict_us.mean(), "^-", label="prediction, µs per 100 rows")
    axes[2].set(xlabel="grid points per dimension", ylim=0, title=f"{gp.windows.min():,} windows")
    axes[2].legend()
    figure.savefig(path, dpi=110)


EXPERIMENT = Experiment(
    "fig-scalability",
    KEYS,
    cells,
    settings,
    scores,
    markdown,
    {"fig_scalability": draw},
    threads=None,
)
