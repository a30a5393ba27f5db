"""The error bar: what a validation set says of predictions, whatever made them."""

from seqgp.calibration.adaptive import AdaptiveQuantiles, adaptive_quantiles
from seqgp.calibration.calibration import Calibration, Labelled, ranks_kept
from seqgp.calibration.corrections import level_shift
from seqgp.calibration.noise_net import NoiseNet, roughness, roughness_width

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
