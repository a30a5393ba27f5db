"""seqgp: Gaussian processes with recurrent kernels.

Sequence regression with an honest error bar: a window of a time series goes through a recurrent
network to a latent point, and a Gaussian process maps that point to the target.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from seqgp._version import __version__

if TYPE_CHECKING:
    from seqgp.adaptive import AdaptiveQuantiles, adaptive_quantiles
    from seqgp.artifact import load, save
    from seqgp.data import Standardizer, WindowSet, split_in_time
    from seqgp.estimator import SequenceGP, SequenceNet
    from seqgp.exceptions import ArtifactError, NotPositiveDefiniteError, TrainingWarning
    from seqgp.forecasting import Forecaster
    from seqgp.gp import GP
    from seqgp.inference import Posterior

__all__ = [
    "GP",
    "AdaptiveQuantiles",
    "ArtifactError",
    "Forecaster",
    "NotPositiveDefiniteError",
    "Posterior",
    "SequenceGP",
    "SequenceNet",
    "Standardizer",
    "TrainingWarning",
    "WindowSet",
    "__version__",
    "adaptive_quantiles",
    "load",
    "save",
    "split_in_time",
]

# Each name is imported when it is first asked for: torch takes seconds, and ``seqgp --help`` does
# without it; model files need pydantic, and nothing else does.
_HOME = {
    "GP": "gp",
    "AdaptiveQuantiles": "adaptive",
    "ArtifactError": "exceptions",
    "Forecaster": "forecasting",
    "NotPositiveDefiniteError": "exceptions",
    "Posterior": "inference",
    "SequenceGP": "estimator",
    "SequenceNet": "estimator",
    "Standardizer": "data",
    "TrainingWarning": "exceptions",
    "WindowSet": "data",
    "adaptive_quantiles": "adaptive",
    "load": "artifact",
    "save": "artifact",
    "split_in_time": "data",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value  # so that this is asked once
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
