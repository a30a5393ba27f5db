"""The error bar: what a validation set says of predictions, whatever made them."""

from seqgp.calibration.adaptive import AdaptiveQuantiles, adaptive_quantiles
from seqgp.calibration.calibration import Calibration, Labelled, ranks_kept
from seqgp.calibration.noise_net import NoiseNet
from seqgp.calibration.roughness import roughness, roughness_width
from seqgp.calibration.shift import level_shift

__all__ = [
    "AdaptiveQuantiles",
    "Calibration",
    "Labelled",
    "NoiseNet",
    "adaptive_quantiles",
    "level_shift",
    "ranks_kept",
    "roughness",
    "roughness_width",
]
