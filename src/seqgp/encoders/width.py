"""The width of any encoder, found by running it once on a sample ``(n, T, p)``."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["width_of"]


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
