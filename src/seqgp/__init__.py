"""seqgp: Gaussian processes with recurrent kernels.

Sequence regression with an honest error bar: a window of a time series goes through a recurrent
network to a latent point, and a Gaussian process maps that point to the target.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from seqgp._version import __version__

if TYPE_CHECKING:
    from seqgp.calibration import AdaptiveQuantiles, Calibration, adaptive_quantiles
    from seqgp.data import Standardizer, WindowSet, split_in_time
    from seqgp.encoders import GRU, LSTM, NARX, RNN, Encoder
    from seqgp.estimators import SequenceGP, SequenceNet
    from seqgp.exceptions import ArtifactError, NotPositiveDefiniteError, TrainingWarning
    from seqgp.fitted import Fitted
    from seqgp.forecasting import Forecaster
    from seqgp.gp import GP
    from seqgp.inference import Posterior
    from seqgp.loading import info, load
    from seqgp.saving import save
    from seqgp.training import Training

# Each name is imported from its room when it is first asked for: torch takes seconds, and
# ``seqgp --help`` does without it.
_HOME = {
    "GP": "gp",
    "GRU": "encoders",
    "LSTM": "encoders",
    "NARX": "encoders",
    "RNN": "encoders",
    "AdaptiveQuantiles": "calibration",
    "ArtifactError": "exceptions",
    "Calibration": "calibration",
    "Encoder": "encoders",
    "Fitted": "fitted",
    "Forecaster": "forecasting",
    "NotPositiveDefiniteError": "exceptions",
    "Posterior": "inference",
    "SequenceGP": "estimators",
    "SequenceNet": "estimators",
    "Standardizer": "data",
    "Training": "training",
    "TrainingWarning": "exceptions",
    "WindowSet": "data",
    "adaptive_quantiles": "calibration",
    "info": "loading",
    "load": "loading",
    "save": "saving",
    "split_in_time": "data",
}

__all__ = [
    "GP",
    "GRU",
    "LSTM",
    "NARX",
    "RNN",
    "AdaptiveQuantiles",
    "ArtifactError",
    "Calibration",
    "Encoder",
    "Fitted",
    "Forecaster",
    "NotPositiveDefiniteError",
    "Posterior",
    "SequenceGP",
    "SequenceNet",
    "Standardizer",
    "Training",
    "TrainingWarning",
    "WindowSet",
    "__version__",
    "adaptive_quantiles",
    "info",
    "load",
    "save",
    "split_in_time",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value  # so that this is asked once
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
