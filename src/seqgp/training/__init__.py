"""Training: condition, improve θ, improve w."""

from seqgp.training.loop import (
    ALGORITHMS,
    EpochRecord,
    Layer,
    Part,
    Settings,
    Trained,
    encode,
    train,
)
from seqgp.training.schedules import SCHEDULES, make_schedule
from seqgp.training.surrogates import SURROGATES, make_surrogate

__all__ = [
    "ALGORITHMS",
    "SCHEDULES",
    "SURROGATES",
    "EpochRecord",
    "Layer",
    "Part",
    "Settings",
    "Trained",
    "encode",
    "make_schedule",
    "make_surrogate",
    "train",
]
