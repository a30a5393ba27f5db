"""An epoch of GP-LSTM training against an epoch of the same LSTM on squared errors.

The GP's epoch is all of it: conditioning on every row (with its extra forward pass), the steps on
θ, the tables, and every mini-batch update. The LSTM's is a plain PyTorch loop over the same batches.
Windows are views over one series, so a million of them need the memory of the series.

    python benchmarks/epoch.py --out paper/results/grid             # on the CPU, or on CUDA by --device
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

from seqgp import GP, LSTM, Training, WindowSet
from seqgp.data import TensorWindows
from seqgp.encoders import Head, Network, encode
from seqgp.gp import Statistics
from seqgp.training import Part, train

LAG, FEATURES, HIDDEN = 48, 12, 64


def problem(n: int, device: str) -> tuple[TensorWindows, torch.Tensor]:
    """n windows of noise and a target that depends on them, on the device."""
    rng = np.random.default_rng(0)
    series = rng.standard_normal((n + LAG, FEATURES))
    target = np.tanh(series[:, 0] + 0.5 * np.roll(series[:, 1], 3)) + 0.1 * rng.standard_normal(
        len(series)
    )
    windows = WindowSet(series, target, lag=LAG).subset(slice(0, n)).tensor(device=device)
    return windows, torch.tensor(target[LAG : LAG + n], device=device).reshape(-1, 1)


def synchronise(device: str) -> None:
    """Wait for the GPU, so that the clock reads what was done and not what was asked for."""
    if device == "cuda":
        torch.cuda.synchronize()


def plain_epoch(n: int, batch: int, device: str, epochs: int) -> list[float]:
    """Seconds of each epoch of the LSTM with a linear layer on squared errors."""
    torch.manual_seed(0)
    windows, y = problem(n, device)
    y = y.float()
    net = nn.Sequential(LSTM(HIDDEN).build(FEATURES, LAG), nn.Linear(HIDDEN, 1)).to(device)
    optimiser = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.0)
    seconds = []
    for _ in range(epochs):
        synchronise(device)
        start = time.perf_counter()
        for index in torch.randperm(n, device=device).split(batch):
            loss = (net(windows[index]) - y[index]).square().mean()
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 5.0)
            optimiser.step()
        synchronise(device)
        seconds.append(time.perf_counter() - start)
    return seconds


class TimedGP(GP):
    """Reads the clock when it gathers statistics: once per epoch, so an epoch lies between two readings."""

    def __init__(self, readings: list[float], **options: Any) -> None:
        super().__init__(**options)
        self.readings = readings

    def statistics(self, H: Any, y: Any) -> Statistics:
        """As the GP's own, with the clock read first."""
        synchronise(H.device.type)
        self.readings.append(time.perf_counter())
        return super().statistics(H, y)


def gp_epoch(n: int, batch: int, device: str, epochs: int) -> list[float]:
    """Seconds of each epoch of the GP-LSTM, from one gathering of statistics to the next."""
    torch.manual_seed(0)
    windows, y = problem(n, device)
    head = Head(HIDDEN, 2)
    network = Network(LSTM(HIDDEN).build(FEATURES, LAG), head, None, 1).to(device)
    some = windows.subset(torch.arange(min(n, 4096), device=device))
    features = encode(network, some, features=True).features
    assert features is not None  # asked for
    head.centre(features.float())
    readings: list[float] = []
    gp = TimedGP(readings, inference="grid", latent_dim=2, grid_size=100).to(device)
    gp.initialise(y)
    train(network, gp, Part(windows, y), Training(epochs=epochs, batch_size=batch))
    return list(np.diff(readings))


def main() -> None:
    """Run, print, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sizes", type=int, nargs="+", default=[38_000])
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--scaling", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--scaling-batch", type=int, default=128)
    parser.add_argument("--out", type=Path, default=Path("paper/results/grid"))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    name = (
        torch.cuda.get_device_name()
        if options.device == "cuda"
        else f"CPU, {options.threads} threads"
    )
    rows = []

    def measure(part: str, n: int, batch: int, epochs: int) -> None:
        # The plain LSTM is linear by construction: at the largest size its time on a CPU is not spent.
        known = options.device == "cpu" and n >= 10**6
        plain = np.nan if known else float(np.median(plain_epoch(n, batch, options.device, epochs)))
        gp = float(np.median(gp_epoch(n, batch, options.device, epochs)))
        rows.append(
            {
                "part": part,
                "device": name,
                "n": n,
                "batch": batch,
                "lstm_s": plain,
                "gp_lstm_s": gp,
                "ratio": gp / plain,
            }
        )
        print(
            f"{part} n={n} batch={batch}: LSTM {plain:.2f} s, GP-LSTM {gp:.2f} s, ratio {gp / plain:.2f}",
            flush=True,
        )

    for n in options.sizes:
        measure("ratio", n, options.batch, options.epochs)
    for n in options.scaling:
        measure(
            "scaling",
            n,
            options.scaling_batch,
            1 if n >= 10**5 else options.epochs,
        )
    label = "gpu" if options.device == "cuda" else "cpu"
    path = options.out / f"epoch_{label}.csv"
    table = pd.DataFrame(rows).assign(command=f"python {' '.join(sys.argv)}")
    if path.exists():  # parts that were not measured now stay as they were
        before = pd.read_csv(path)
        table = pd.concat([before[~before.part.isin(table.part)], table])
    table = table.sort_values(["part", "n"])
    options.out.mkdir(parents=True, exist_ok=True)
    table.to_csv(path, index=False, float_format="%.4g")
    text = markdown(table, name)
    path.with_suffix(".md").write_text(text, encoding="utf-8")
    print(text)


def markdown(table: pd.DataFrame, name: str) -> str:
    """The table for people."""
    lines = [
        "# Epoch time: GP-LSTM against the same LSTM",
        "",
        f"{name}; torch {torch.__version__}, Python {platform.python_version()}. LSTM {HIDDEN} units, "
        f"lag {LAG}, {FEATURES} features; grid of 100 × 100; median over epochs.",
        "",
        "| part | n | batch | LSTM, s | GP-LSTM, s | ratio |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {r.part} | {r.n:,} | {r.batch} | {r.lstm_s:.2f} | {r.gp_lstm_s:.2f} | {r.ratio:.2f} |"
        for r in table.itertuples()
    ]
    scaling = table[table.part == "scaling"]
    if len(scaling) > 1:
        exponent = float(np.polyfit(np.log(scaling.n), np.log(scaling.gp_lstm_s), 1)[0])
        lines += ["", f"Epoch time of the GP-LSTM grows as n^{exponent:.2f}."]
    lines += ["", *(f"`{command}`" for command in table.command.unique())]
    return "\n".join(lines).replace("nan", "") + "\n"


if __name__ == "__main__":
    main()
