"""Training: condition, improve θ, improve w."""

from seqgp.training.checkpoint import Checkpoint
from seqgp.training.loop import train
from seqgp.training.messages import progress_bar
from seqgp.training.parts import Ends, EpochRecord, Layer, Part, Trained
from seqgp.training.plain import Plain, PlainPosterior, Residual
from seqgp.training.pretrain import latent_directions, pretrain
from seqgp.training.schedules import SCHEDULES, register_schedule
from seqgp.training.selection import variance_scale
from seqgp.training.settings import Training
from seqgp.training.surrogates import SURROGATES, Surrogate, register_surrogate

__all__ = [
    "SCHEDULES",
    "SURROGATES",
    "Checkpoint",
    "Ends",
    "EpochRecord",
    "Layer",
    "Part",
    "Plain",
    "PlainPosterior",
    "Residual",
    "Surrogate",
    "Trained",
    "Training",
    "latent_directions",
    "pretrain",
    "progress_bar",
    "register_schedule",
    "register_surrogate",
    "train",
    "variance_scale",
]
