"""Golden numbers: tiny fits through every part of the package, written down once.

``python tests/golden.py`` compares with tests/golden.json bit for bit, for changes that only move or
rename; ``python tests/golden.py --write`` writes the file anew, which a commit must give a reason for.
The test in test_golden.py allows for the rounding of another processor.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import torch

import paper.peephole
import paper.schedules
import paper.surrogates
from paper.coregional import CorrelatedGP
from seqgp import GP, GRU, LSTM, NARX, RNN, Forecaster, SequenceGP, SequenceNet, Training, WindowSet

FILE = Path(__file__).with_name("golden.json")


def series(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """An input ``(n, 2)`` and a target ``(n, 2)`` that follows it with a delay."""
    rng = np.random.default_rng(seed)
    t = np.arange(n)
    u = np.stack([np.sin(t / 5.0) + 0.3 * rng.standard_normal(n), np.cos(t / 9.0)], 1)
    y = np.stack([np.roll(u[:, 0], 2) ** 2 + 0.5 * u[:, 1], np.tanh(u[:, 0] + u[:, 1])], 1)
    return u, y + 0.1 * (1.0 + np.abs(u[:, :1])) * rng.standard_normal((n, 2))


def windows(n: int, outputs: int = 1) -> WindowSet:
    u, y = series(n)
    return WindowSet(u, y[:, 0] if outputs == 1 else y, lag=6, mode="autoregression")


def of_layer(inference: str, kernel: str, outputs: int, d: int = 2) -> Iterator[float]:
    rng = np.random.default_rng(1)
    H = torch.as_tensor(rng.uniform(-0.9, 0.9, (60, d))).requires_grad_(inference == "exact")
    y = torch.sin(3 * H.detach()).sum(1, keepdim=True) * torch.linspace(1, 2, outputs).double()
    y = y + 0.1 * torch.as_tensor(rng.standard_normal((60, outputs)))
    gp = GP(kernel, inference=inference, latent_dim=d, outputs=outputs)
    gp.initialise(y)
    post = gp.condition(H, y)
    post.nlml.backward()
    yield float(post.nlml.detach())
    for parameter in [*gp.likelihood.parameters(), *gp.kernel.parameters()]:
        yield float(parameter.grad.sum())
    h = torch.as_tensor(rng.uniform(-0.9, 0.9, (5, d))).requires_grad_(True)
    mean, variance = post.predict(h)
    loss = post.loss(h, y[:5])
    (slope,) = torch.autograd.grad(loss.sum(), h)
    yield from (float(v.detach().sum()) for v in (mean, variance, loss, slope))


def of_fit(model: SequenceGP | SequenceNet, data: WindowSet) -> Iterator[float]:
    n = len(data)
    train, test = data.subset(slice(0, n - 30)), data.subset(slice(n - 30, n))
    model.fit(train)
    mean, std = model.predict(test, return_std=True)
    nlml = model.fitted_.members[0].posterior.nlml
    yield from (float(mean.sum()), float(std.sum()), float(nlml))
    yield float(model.history_["val_nlpd"].iloc[-1])


def of_forecaster() -> Iterator[float]:
    u, y = series(400)
    time = pd.date_range("2024-01-01", periods=400, freq="h", name="time")
    frame = pd.DataFrame({"load": y[:, 0], "warm": u[:, 0]}, time)
    model = SequenceGP(LSTM(hidden=4), training=Training(epochs=2), random_state=0, progress=False)
    forecaster = Forecaster("load", inputs=["warm"], lag=12, calendar=["hour"], model=model)
    forecaster.fit(frame.iloc[:350])
    found = forecaster.evaluate(frame.iloc[350:])
    yield from found.metrics["load"].loc[["model", "ridge", "persistence"], "rmse"]
    ahead = forecaster.forecast(5, future=frame[["warm"]].iloc[350:355], samples=20).frame
    yield from ahead.sum()
    forecaster.update(frame.iloc[350:370])
    ahead = forecaster.forecast(3, future=frame[["warm"]].iloc[370:373], samples=20).frame
    yield from ahead.sum()


def numbers() -> dict[str, list[str]]:
    """Every number by name, in hexadecimal: no digit is lost."""
    torch.set_num_threads(1)
    few = {"random_state": 0, "progress": False}

    def gp(encoder: object = None, **options: object) -> SequenceGP:
        training = Training(epochs=3, **options.pop("training", {}))
        encoder = LSTM(hidden=4) if encoder is None else encoder
        return SequenceGP(encoder, training=training, **few, **options)

    one, two, many = windows(260), windows(260, 2), windows(2400)
    sources: dict[str, Iterator[float]] = {
        f"layer {name} {kernel} {outputs} {d}": of_layer(name, kernel, outputs, d)
        for name, kernel, outputs, d in [
            ("exact", "rbf", 1, 2),
            ("exact", "matern32", 2, 2),
            ("exact", "spectral-mixture", 1, 1),
            ("grid", "rbf", 1, 2),
            ("grid", "matern52", 2, 2),
            ("grid", "rbf", 1, 3),
        ]
    }
    stale = {"algorithm": "alternating", "surrogate": "gradient"}
    block = {"surrogate": "block", "refresh": 2, "schedule": "theorem"}
    noisy = LSTM(hidden=4, recurrent_dropout=0.1, input_dropout=0.1)
    peephole = paper.peephole.LSTMPeephole(hidden=4, skip=True)
    fits = {
        "lstm": (gp(), one),
        "two outputs": (gp(GRU(hidden=4, dropout=0.1)), two),
        "grid": (gp(gp=GP(inference="grid"), mean="zero"), one),
        "many": (gp(NARX(hidden=4)), many),
        "full": (gp(RNN(hidden=4), training={"algorithm": "full"}), one),
        "alternating": (gp(training=stale), one),
        "block": (gp(training=block), one),
        "pretrained": (gp(readout=True, mean="zero", training={"pretrain_epochs": 2}), one),
        "peephole": (gp(peephole), one),
        "net": (SequenceNet(noisy, training=Training(epochs=3), **few), one),
        "restarts": (gp(members=2, training={"weight_decay": 0.01, "schedule": "cosine"}), one),
        "correlated": (gp(gp=CorrelatedGP()), two),
    }
    sources |= {f"fit {name}": of_fit(*fit) for name, fit in fits.items()}
    sources["forecaster"] = of_forecaster()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: [float(v).hex() for v in values] for name, values in sources.items()}


def stored() -> dict[str, list[str]]:
    found: dict[str, list[str]] = json.loads(FILE.read_text())
    return found


def main() -> int:
    if "--write" in sys.argv:
        FILE.write_text(json.dumps(numbers(), indent=1) + "\n")
        return 0
    then, now = stored(), numbers()
    differ = [name for name in then | now if then.get(name) != now.get(name)]
    for name in differ:
        print(f"{name}: was {then.get(name)}, is {now.get(name)}")
    print(f"{len(now) - len(differ)} of {len(then)} groups are bit-equal")
    return len(differ) > 0


if __name__ == "__main__":
    sys.exit(main())
