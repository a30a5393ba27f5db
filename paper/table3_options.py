"""Options of table 3's rows: the first of each was the best on validation rows, and is the table's.

``search-table3`` compares them, and ``quarters`` those of the car with past targets.
What they do not say is in ``table3.common``.
"""

from __future__ import annotations

from typing import Any

__all__ = ["CANDIDATES", "parsed"]

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
_WHOLE = {"epochs", "pretrain_epochs", "batch_size", "hidden", "layers", "theta_steps", "restarts"}
_FLAGS = {"skip", "readout"}


def parsed(options: str) -> dict[str, Any]:
    """The estimator's arguments that a text such as ``"lr=0.003 readout=1"`` has.

    >>> parsed("mean=zero hidden=128 lr=0.003 readout=1")
    {'mean': 'zero', 'hidden': 128, 'lr': 0.003, 'readout': True}
    """
    return dict(_option(*part.split("=")) for part in options.split())


def _option(name: str, value: str) -> tuple[str, Any]:
    if name in {"mean", "select"}:
        return name, value
    if name in _WHOLE:
        return name, int(value)
    return name, bool(int(value)) if name in _FLAGS else float(value)
