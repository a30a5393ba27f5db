"""What an encoder is: options that build a network from windows to features ``(n, width)``."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod

import torch
from sklearn.base import BaseEstimator
from torch import Tensor, nn

from seqgp.encoders.common import check_rates
from seqgp.options import Registry

__all__ = ["ENCODERS", "Encoder", "Given", "Skip", "as_encoder", "register", "width_of"]


class Encoder(BaseEstimator, ABC):
    """Options of a network; subclass it as a dataclass, and give it a name with :func:`register`.

    Options with values that JSON has (numbers, text, None) can be saved with a model. They are
    checked in :meth:`build`, as scikit-learn's are in ``fit``.

    >>> from dataclasses import dataclass
    >>> @register("average")
    ... @dataclass(repr=False)
    ... class Average(Encoder):
    ...     steps: int = 3
    ...     def build(self, features: int, lag: int) -> nn.Module:
    ...         return nn.Sequential(nn.Flatten(), nn.Linear(lag * features, self.steps))
    >>> as_encoder("average").build(features=2, lag=5)(torch.zeros(4, 5, 2)).shape
    torch.Size([4, 3])
    """

    @abstractmethod
    def build(self, features: int, lag: int) -> nn.Module:
        """A new network ``(n, lag, features) → (n, width)``, its weights drawn from torch's generator.

        Args:
            features: columns of a window.
            lag: steps in a window.
        """


ENCODERS: Registry[type[Encoder]] = Registry(
    "encoder", ", an Encoder, or an nn.Module mapping (n, T, p) to (n, width)"
)
register = ENCODERS.register


class Given(Encoder):
    """An ``nn.Module`` as its owner made it: copied for every training, never changed."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module

    def build(self, features: int, lag: int) -> nn.Module:
        return copy.deepcopy(self.module)


def as_encoder(encoder: str | Encoder | nn.Module) -> Encoder:
    """Options from what a user may give: a registered name, options, or a module."""
    if isinstance(encoder, Encoder):
        return encoder
    if isinstance(encoder, nn.Module):
        return Given(encoder)
    return ENCODERS[encoder]()


class Skip(nn.Module):
    """``(n, T, p) → (n, width + T p)``: an encoder's features, then the flattened window.

    What follows can then use a linear filter of the window, which a recurrent network finds hard to
    imitate over many steps. Dropout on the window shrinks that filter as a ridge penalty would.

    Args:
        encoder: ``(n, T, p) → (n, width)``.
        dropout: on the flattened window.
    """

    def __init__(self, encoder: nn.Module, dropout: float = 0.0) -> None:
        super().__init__()
        check_rates(dropout=dropout)
        self.encoder = encoder
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, T, p) → (n, width + T p)``."""
        return torch.cat([self.encoder(x), self.dropout(x.flatten(1))], dim=1)


def width_of(encoder: nn.Module, sample: Tensor) -> int:
    """The width of ``encoder``, seen by running it once on ``sample`` ``(n, T, p)``.

    It runs in evaluation mode and without gradients; the mode is restored. Modules that create
    their parameters on the first call (lazy torch modules, Keras layers) do so here.

    Raises:
        TypeError: the encoder is no ``nn.Module``, or does not return one floating tensor.
        ValueError: it fails on the sample, or returns another shape, or values that are not finite.
    """
    if not isinstance(encoder, nn.Module):
        raise TypeError(
            f"the encoder is a {type(encoder).__name__}; expected an nn.Module mapping (n, T, p) "
            "to (n, width). Wrap a function in a small module."
        )
    if sample.ndim != 3 or len(sample) == 0:
        raise ValueError(
            f"the sample has shape {tuple(sample.shape)}; expected (n, T, p), n >= 1 windows."
        )
    # One by one, because train() on the whole would also wake parts that the user has frozen.
    modes = [(module, module.training) for module in encoder.modules()]
    encoder.eval()
    try:
        with torch.no_grad():
            out = encoder(sample)
    except RuntimeError as error:
        raise ValueError(
            f"the encoder fails on windows of shape {tuple(sample.shape)}: {error}. Expected a "
            "module for (n, T, p), time second; check its input size, dtype and device."
        ) from error
    finally:
        for module, training in modes:
            module.training = training
    _check_output(out, len(sample))
    return int(out.shape[1])


def _check_output(out: object, n: int) -> None:
    if isinstance(out, tuple | list):
        raise TypeError(
            f"the encoder returns a {type(out).__name__} of {len(out)}; expected one tensor "
            "(n, width). torch's recurrent modules return (output, state): wrap them in a module "
            "whose forward returns the last hidden state, output[:, -1]."
        )
    if not isinstance(out, Tensor):
        raise TypeError(f"the encoder returns {type(out).__name__}; expected a tensor (n, width).")
    if not out.dtype.is_floating_point:
        raise TypeError(f"the encoder returns {out.dtype}; expected a floating dtype.")
    if out.ndim != 2 or out.shape[0] != n or out.shape[1] == 0:
        hint = " Return the last step, output[:, -1]." if out.ndim == 3 else ""
        raise ValueError(
            f"the encoder returns shape {tuple(out.shape)} for {n} windows; expected ({n}, width)."
            + hint
        )
    if not bool(torch.isfinite(out).all()):
        raise ValueError(
            "the encoder returns NaN or infinite values; expected finite numbers. Check its "
            "weights and that the windows are standardised."
        )
