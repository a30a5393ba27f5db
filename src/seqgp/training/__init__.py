"""Training: condition, improve θ, improve w."""

from seqgp.training.checkpoint import Checkpoint
from seqgp.training.loop import train
from seqgp.training.parts import (
    ALGORITHMS,
    Ends,
    EpochRecord,
    Layer,
    Part,
    Settings,
    Trained,
    encode,
)
from seqgp.training.schedules import SCHEDULES, make_schedule
from seqgp.training.surrogates import SURROGATES, make_surrogate
from seqgp.training.validation import quieten, score_of

__all__ = [
    "ALGORITHMS",
    "SCHEDULES",
    "SURROGATES",
    "Checkpoint",
    "Ends",
    "EpochRecord",
    "Layer",
    "Part",
    "Settings",
    "Trained",
    "encode",
    "make_schedule",
    "make_surrogate",
    "quieten",
    "score_of",
    "train",
]
