"""The options of every model in tables 2 and 3: recipes, which are flat dictionaries.

:func:`paper.models.build` turns a recipe into an estimator. How the options were chosen is described in
``paper/results/README.md``.
"""

from __future__ import annotations

from typing import Any

from paper.tasks import SYSID

__all__ = ["CANDIDATES", "SYSID_BATCH", "Recipe", "common", "parsed", "recipe_of", "shortened"]

Recipe = dict[str, Any]

# Table 2. The options of plain networks are the best on the validation part of ``search-table2``; for
# free simulation plain networks have those of regression. The options of GP models were found one
# cell at a time on the validation part, from a larger set, some carried over from a neighbouring cell;
# two of them (Drives, autoregression, NARX and RNN) by that search too.
_NET: dict[tuple[str, str, str], str] = {
    ("drives", "regression", "narx"): "dropout=0.25 skip=1 weight_decay=0.3",
    ("drives", "regression", "rnn"): "lr=0.003 dropout=0.25 weight_decay=0.3",
    ("drives", "regression", "lstm"): "dropout=0.25 weight_decay=0.3 hidden=16",
    ("drives", "autoregression", "narx"): "lr=0.003 skip=1 weight_decay=0.3",
    ("drives", "autoregression", "rnn"): "dropout=0.25 skip=1",
    ("drives", "autoregression", "lstm"): "dropout=0.25 weight_decay=0.3",
    ("actuator", "regression", "narx"): "dropout=0.25 hidden=16",
    ("actuator", "regression", "rnn"): "lr=0.003 weight_decay=0.3",
    ("actuator", "regression", "lstm"): "skip=1 weight_decay=0.3",
    ("actuator", "autoregression", "narx"): "",
    ("actuator", "autoregression", "rnn"): "lr=0.003 skip=1 weight_decay=0.3",
    ("actuator", "autoregression", "lstm"): "lr=0.003",
}
_NET_RESTARTS = {"regression": 3, "autoregression": 3, "simulation": 2}
SYSID_BATCH = {"drives": 32, "actuator": 64}
_GP: dict[tuple[str, str, str], str] = {
    ("drives", "regression", "narx"): "hidden=8 weight_decay=1 select=rmse",
    ("drives", "regression", "rnn"): "hidden=32",
    ("drives", "regression", "lstm"): "hidden=64 weight_decay=0.3",
    ("drives", "autoregression", "narx"): "lr=0.003 skip=1 hidden=64 epochs=120",
    ("drives", "autoregression", "rnn"): "lr=0.003 skip=1 hidden=64 epochs=120",
    ("drives", "autoregression", "lstm"): "epochs=120",
    ("drives", "simulation", "narx"): "hidden=8 weight_decay=1 select=rmse",
    ("drives", "simulation", "rnn"): "hidden=32",
    ("drives", "simulation", "lstm"): "hidden=64 weight_decay=0.3",
    ("actuator", "regression", "narx"): "lr=0.005 skip=0 dropout=0.25 weight_decay=0.3 restarts=2",
    ("actuator", "regression", "rnn"): "lr=0.005 skip=0",
    ("actuator", "regression", "lstm"): "hidden=64 dropout=0.25 restarts=4",
    ("actuator", "autoregression", "narx"): "dropout=0.25 skip=1",
    ("actuator", "autoregression", "rnn"): "lr=0.005",
    ("actuator", "autoregression", "lstm"): (
        "mean=zero readout=1 hidden=64 batch_size=64 pretrain_epochs=120 pretrain_lr=0.003 epochs=40 "
        "lr=0.001 select=rmse"
    ),
    ("actuator", "simulation", "narx"): "hidden=16",
    ("actuator", "simulation", "rnn"): "lr=0.005 skip=0",
    ("actuator", "simulation", "lstm"): "dropout=0.25 hidden=64",
}
_GP_MODE: dict[tuple[str, str], str] = {
    ("drives", "regression"): "mean=zero skip=1 epochs=150 restarts=3",
    ("drives", "autoregression"): "mean=zero epochs=80 restarts=3",
    ("drives", "simulation"): "mean=zero skip=1 epochs=150 restarts=2",
    ("actuator", "regression"): "mean=zero skip=1 epochs=80 restarts=3",
    ("actuator", "autoregression"): "mean=linear lr=0.003 epochs=80 batch_size=32 restarts=3",
    ("actuator", "simulation"): "mean=zero skip=1 epochs=60 restarts=1",
}

# Table 3. Each row's candidates; the first was the best on validation rows (``search-table3``; those of
# the car with past targets: ``quarters``) and is the table's. What they do not name is in ``common``.
CANDIDATES: dict[tuple[str, str, str], tuple[str, ...]] = {
    ("gef-power", "lstm", "autoregression"): (
        "hidden=128 lr=0.003 weight_decay=0.1 mean=zero",
        "hidden=128 lr=0.003 weight_decay=0.1",
        "hidden=128 lr=0.003 weight_decay=0.1 epochs=90 mean=zero input_dropout=0.05",
        "hidden=128 lr=0.003 weight_decay=0.1 mean=zero input_dropout=0.05",
        "hidden=128 lr=0.003 weight_decay=0.1 mean=zero input_dropout=0.1",
    ),
    ("gef-power", "gp-narx", "autoregression"): ("pretrain_epochs=40 epochs=20 hidden=128",),
    ("gef-power", "gp-lstm", "autoregression"): (
        "lr=0.003 pretrain_epochs=60 epochs=20 hidden=128 weight_decay=0.1 mean=zero "
        "readout=1 pretrain_lr=0.003",
        "lr=0.001 pretrain_epochs=60 epochs=20 hidden=128 weight_decay=0.1 mean=zero "
        "readout=1 pretrain_lr=0.003",
        "lr=0.003 pretrain_epochs=60 epochs=20 hidden=128 weight_decay=0.1 mean=zero "
        "pretrain_lr=0.003",
        "lr=0.001 pretrain_epochs=60 epochs=20 hidden=128 weight_decay=0.1 mean=zero "
        "pretrain_lr=0.003",
        "lr=0.003 pretrain_epochs=60 epochs=20 hidden=128 weight_decay=0.1 readout=1 "
        "pretrain_lr=0.003",
        "lr=0.001 pretrain_epochs=60 epochs=20 hidden=128 weight_decay=0.1 mean=zero "
        "pretrain_lr=0.003 input_dropout=0.05",
        "lr=0.001 pretrain_epochs=60 epochs=20 hidden=128 weight_decay=0.1 mean=zero "
        "pretrain_lr=0.003 input_dropout=0.1",
    ),
    ("gef-power", "lstm", "regression"): (
        "dropout=0.4 weight_decay=0.1 epochs=30 hidden=128 layers=2",
        "dropout=0.4 weight_decay=0.5 epochs=30 hidden=256",
        "dropout=0.4 weight_decay=0.1 epochs=30 hidden=128 layers=2 lr=0.001",
        "dropout=0.4 weight_decay=0.1 epochs=30 hidden=128",
        "dropout=0.25 weight_decay=0.1 epochs=30",
        "dropout=0.4 weight_decay=0.1 epochs=30 hidden=128 layers=2 input_dropout=0.05",
    ),
    ("gef-power", "gp-narx", "regression"): ("dropout=0.25 weight_decay=0.1 epochs=30",),
    ("gef-power", "gp-lstm", "regression"): (
        "dropout=0.4 weight_decay=0.1 epochs=10 readout=1 layers=2 hidden=128 "
        "pretrain_epochs=30 pretrain_lr=0.002 lr=0.0005",
        "dropout=0.4 weight_decay=0.1 epochs=10 readout=1 layers=2 hidden=128 "
        "pretrain_epochs=30 pretrain_lr=0.002 lr=0.0005 select=rmse",
        "dropout=0.4 weight_decay=0.1 epochs=12 layers=2 hidden=128 pretrain_epochs=30 "
        "pretrain_lr=0.002 lr=0.0005 input_dropout=0.05",
        "dropout=0.25 weight_decay=0.1 epochs=30 readout=1",
        "dropout=0.4 weight_decay=0.1 epochs=12 layers=1 hidden=128 pretrain_epochs=30 "
        "pretrain_lr=0.002 lr=0.0005",
        "dropout=0.4 weight_decay=0.1 epochs=12 layers=2 hidden=128 pretrain_epochs=30 "
        "pretrain_lr=0.002 lr=0.0005",
        "dropout=0.4 weight_decay=0.1 epochs=12 layers=2 hidden=128 pretrain_epochs=30 "
        "pretrain_lr=0.002 lr=0.0002 theta_steps=10",
        "dropout=0.25 weight_decay=0.1 epochs=30 pretrain_epochs=15",
        "dropout=0.25 weight_decay=0.1 epochs=30",
        "dropout=0.4 weight_decay=0.1 epochs=30 readout=1 hidden=128 layers=2",
        "dropout=0.25 weight_decay=0.1 epochs=30 lr=0.001 hidden=128",
        "dropout=0.25 weight_decay=0.1 epochs=30 layers=2 hidden=128",
        "dropout=0.4 weight_decay=0.1 epochs=30 hidden=128",
        "dropout=0.25 weight_decay=0.1 epochs=30 hidden=128",
        "dropout=0.4 weight_decay=0.5 epochs=30 hidden=256",
        "dropout=0.25 weight_decay=0.1 epochs=30 skip=1",
    ),
    ("gef-wind", "lstm", "regression"): (
        "batch_size=512 epochs=12 dropout=0.3 weight_decay=0.5 hidden=128",
        "batch_size=512 epochs=12 lr=0.0005 dropout=0.3 weight_decay=0.1",
        "batch_size=512 epochs=12 lr=0.0005 dropout=0.3 weight_decay=0.5 hidden=128",
    ),
    ("gef-wind", "gp-narx", "regression"): (
        "batch_size=512 epochs=12 lr=0.002 dropout=0.3 weight_decay=0.1",
    ),
    ("gef-wind", "gp-lstm", "regression"): (
        "batch_size=512 epochs=12 dropout=0.3 weight_decay=0.5 hidden=128",
        "batch_size=512 epochs=12 dropout=0.3 weight_decay=0.5 hidden=128 readout=1",
        "batch_size=512 epochs=12 lr=0.001 dropout=0.3 weight_decay=1 hidden=128",
        "batch_size=512 epochs=12 lr=0.002 dropout=0.3 weight_decay=0.1",
        "batch_size=512 epochs=12 lr=0.0005 dropout=0.3 weight_decay=0.1 pretrain_epochs=3",
        "batch_size=512 epochs=12 lr=0.0005 dropout=0.3 weight_decay=0.1",
        "batch_size=512 epochs=12 dropout=0.3 weight_decay=0.1 layers=2",
        "batch_size=512 epochs=12 dropout=0.5 weight_decay=0.1 hidden=32",
        "batch_size=512 epochs=12 dropout=0.3 weight_decay=0.1 skip=1",
    ),
    ("gef-wind", "lstm", "autoregression"): (
        "batch_size=512 epochs=12 dropout=0.2 hidden=128 mean=zero",
        "batch_size=512 epochs=12 dropout=0.2 mean=zero",
        "batch_size=512 epochs=12 dropout=0.2 hidden=128",
    ),
    ("gef-wind", "gp-narx", "autoregression"): ("batch_size=512 epochs=12 dropout=0.2",),
    ("gef-wind", "gp-lstm", "autoregression"): (
        "batch_size=512 epochs=6 dropout=0.2 pretrain_epochs=12 lr=0.0005 mean=zero "
        "pretrain_lr=0.002 hidden=128",
        "batch_size=512 epochs=10 dropout=0.2 pretrain_epochs=12 mean=zero readout=1 "
        "pretrain_lr=0.002 hidden=128",
        "batch_size=512 epochs=6 dropout=0.2 pretrain_epochs=12 lr=0.0005 mean=zero readout=1 "
        "pretrain_lr=0.002 hidden=128",
        "batch_size=512 epochs=6 dropout=0.2 pretrain_epochs=12 lr=0.0005 mean=zero "
        "pretrain_lr=0.002",
        "batch_size=512 epochs=6 dropout=0.2 pretrain_epochs=12 lr=0.0005 pretrain_lr=0.002 "
        "hidden=128",
    ),
    ("car-speed", "lstm", "regression"): (
        "dropout=0.5 epochs=40 hidden=512",
        "dropout=0.3 epochs=40 hidden=128",
        "dropout=0.5 epochs=40 hidden=256",
        "dropout=0.3 epochs=40",
        "dropout=0.3 epochs=40 weight_decay=0.5",
        "dropout=0.5 epochs=40 hidden=256 layers=2",
        "dropout=0.3 epochs=40 input_dropout=0.1",
        "dropout=0.1 epochs=40 lr=0.001",
        "dropout=0.5 epochs=40 hidden=256 mean=linear",
    ),
    ("car-speed", "gp-narx", "regression"): ("dropout=0.3 epochs=40",),
    ("car-speed", "gp-lstm", "regression"): (
        "dropout=0.5 hidden=512 epochs=15 pretrain_epochs=40 readout=1 lr=0.0005 "
        "pretrain_lr=0.002 select=rmse",
        "dropout=0.3 epochs=15 pretrain_epochs=40 readout=1 lr=0.0005 hidden=128 "
        "pretrain_lr=0.002 select=rmse",
        "dropout=0.5 hidden=256 epochs=15 pretrain_epochs=40 readout=1 lr=0.0005 "
        "pretrain_lr=0.002 select=rmse",
        "dropout=0.3 epochs=15 pretrain_epochs=40 readout=1 lr=0.0005 hidden=128 pretrain_lr=0.002",
        "dropout=0.5 hidden=256 layers=2 epochs=15 pretrain_epochs=40 readout=1 lr=0.0005 "
        "pretrain_lr=0.002 select=rmse",
        "dropout=0.5 hidden=256 mean=linear epochs=15 pretrain_epochs=40 readout=1 lr=0.0005 "
        "pretrain_lr=0.002 select=rmse",
        "dropout=0.3 epochs=40 weight_decay=0.1",
    ),
    ("car-speed", "lstm", "autoregression"): (
        "epochs=30 lr=0.0005 dropout=0.2 restarts=3",
        "epochs=30 restarts=3",
    ),
    ("car-speed", "gp-narx", "autoregression"): ("epochs=30",),
    ("car-speed", "gp-lstm", "autoregression"): (
        "epochs=10 dropout=0.2 lr=0.001",
        "epochs=10 lr=0.0005 readout=1 pretrain_epochs=30 pretrain_lr=0.002 restarts=3",
    ),
    ("car-yaw", "lstm", "regression"): (
        "dropout=0.5 epochs=40 hidden=512",
        "dropout=0.5 epochs=40 hidden=256",
        "dropout=0.5 epochs=40 hidden=256 layers=2",
        "dropout=0.3 epochs=40 hidden=128",
        "dropout=0.5 epochs=40 hidden=256 mean=linear",
        "dropout=0.3 epochs=40",
        "dropout=0.3 epochs=40 weight_decay=0.5",
        "dropout=0.3 epochs=40 input_dropout=0.1",
        "dropout=0.1 epochs=40 lr=0.001",
    ),
    ("car-yaw", "gp-narx", "regression"): ("dropout=0.3 epochs=40",),
    ("car-yaw", "gp-lstm", "regression"): (
        "dropout=0.5 hidden=512 epochs=15 pretrain_epochs=40 readout=1 lr=0.0005 "
        "pretrain_lr=0.002 select=rmse",
        "dropout=0.5 hidden=256 epochs=15 pretrain_epochs=40 readout=1 lr=0.0005 "
        "pretrain_lr=0.002 select=rmse",
        "dropout=0.5 hidden=256 layers=2 epochs=15 pretrain_epochs=40 readout=1 lr=0.0005 "
        "pretrain_lr=0.002 select=rmse",
        "dropout=0.5 hidden=256 mean=linear epochs=15 pretrain_epochs=40 readout=1 lr=0.0005 "
        "pretrain_lr=0.002 select=rmse",
        "dropout=0.3 epochs=15 pretrain_epochs=40 readout=1 lr=0.0005 hidden=128 "
        "pretrain_lr=0.002 select=rmse",
        "dropout=0.3 epochs=15 pretrain_epochs=40 readout=1 lr=0.0005 hidden=128 pretrain_lr=0.002",
        "dropout=0.3 epochs=40 weight_decay=0.1",
        "dropout=0.3 epochs=40 skip=1",
    ),
    ("car-yaw", "lstm", "autoregression"): ("epochs=30 restarts=3",),
    ("car-yaw", "gp-narx", "autoregression"): ("epochs=30",),
    ("car-yaw", "gp-lstm", "autoregression"): (
        "epochs=10 lr=0.0005 readout=1 pretrain_epochs=30 pretrain_lr=0.002 restarts=3",
    ),
    ("car-lanes", "lstm", "autoregression"): (
        "epochs=30 restarts=3",
        "epochs=30 lr=0.0005 dropout=0.2 restarts=3",
    ),
    ("car-lanes", "gp-narx", "autoregression"): (
        "epochs=20 theta_steps=2 lr=0.001 dropout=0.2 restarts=3",
    ),
    ("car-lanes", "gp-lstm", "autoregression"): (
        "epochs=30 theta_steps=2 readout=1 select=rmse restarts=3",
        "epochs=20 theta_steps=2 lr=0.001 dropout=0.2 readout=1 select=rmse restarts=3",
        "epochs=20 theta_steps=2 lr=0.001 dropout=0.2 select=rmse restarts=3",
    ),
    ("car-lead", "lstm", "autoregression"): (
        "epochs=40 lr=0.0005 dropout=0.2 restarts=3",
        "epochs=40 restarts=3",
    ),
    ("car-lead", "gp-narx", "autoregression"): ("epochs=40 dropout=0.2 lr=0.0003",),
    ("car-lead", "gp-lstm", "autoregression"): ("epochs=10 dropout=0.2 lr=0.001",),
}
_INTEGERS = {
    "epochs",
    "pretrain_epochs",
    "batch_size",
    "hidden",
    "layers",
    "theta_steps",
    "restarts",
}
_FLAGS = {"skip", "readout"}


def recipe_of(dataset: str, model: str, mode: str, quick: bool = False) -> Recipe:
    """The options of one model of table 2 or 3.

    Args:
        dataset: name of the recording.
        model: an encoder's name, with ``gp-`` before it for a GP model.
        mode: ``"regression"``, ``"autoregression"`` or ``"simulation"``.
        quick: few epochs, to see that everything runs.
    """
    if dataset in SYSID:
        return _sysid(dataset, model, mode, quick)
    chosen = CANDIDATES[dataset, model, mode][0]
    return shortened(model, common(model, mode) | parsed(chosen), quick)


def _sysid(dataset: str, model: str, mode: str, quick: bool) -> Recipe:
    encoder = model.removeprefix("gp-")
    # Like the paper's models, these are not calibrated on validation rows.
    options: Recipe = {"encoder": encoder, "batch_size": SYSID_BATCH[dataset], "calibrate": False}
    if model.startswith("gp-"):
        options |= {"hidden": 32, "lr": 1e-2, "dropout": 0.1}
        options |= parsed(_GP_MODE[dataset, mode]) | parsed(_GP[dataset, mode, encoder])
    else:
        known = "regression" if mode == "simulation" else mode
        options |= {"hidden": 64, "lr": 1e-2, "dropout": 0.1, "epochs": 120}
        options |= parsed(_NET[dataset, known, encoder]) | {"restarts": _NET_RESTARTS[mode]}
    if quick:
        options |= {"epochs": 15, "restarts": 1}
        options |= {"pretrain_epochs": 15} if "pretrain_epochs" in options else {}
    return options


def common(model: str, mode: str) -> Recipe:
    """Options that all rows of table 3 share, unless a candidate says otherwise.

    Args:
        model: an encoder's name, with ``gp-`` before it for a GP model.
        mode: ``"regression"`` or ``"autoregression"``.
    """
    options: Recipe = {
        "encoder": model.removeprefix("gp-"),
        "hidden": 64,
        "batch_size": 256,
        "lr": 2e-3,
        "schedule": "cosine",
        "epochs": 60,
        "mean": "linear" if mode == "autoregression" else "zero",
    }
    if model.startswith("gp-"):
        options |= {"inference": "grid", "theta_steps": 5}
    return options


def shortened(model: str, options: Recipe, quick: bool) -> Recipe:
    """The options of table 3, with two epochs where ``quick``.

    Args:
        model: its name in the table.
        options: a recipe.
        quick: whether to shorten it.
    """
    if not quick:
        return options
    return options | {"epochs": 2} | ({"pretrain_epochs": 0} if model.startswith("gp-") else {})


def parsed(options: str) -> Recipe:
    """The options that a text such as ``"lr=0.003 readout=1"`` names.

    >>> parsed("mean=zero hidden=128 lr=0.003 readout=1")
    {'mean': 'zero', 'hidden': 128, 'lr': 0.003, 'readout': True}
    """
    return dict(_option(*part.split("=")) for part in options.split())


def _option(name: str, value: str) -> tuple[str, Any]:
    if name in {"mean", "select"}:
        return name, value
    if name in _INTEGERS:
        return name, int(value)
    return name, bool(int(value)) if name in _FLAGS else float(value)
