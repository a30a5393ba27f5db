"""Mini-batch stand-ins for the NLML as a function of the latent points, given a frozen posterior."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from torch import Tensor

from seqgp.inference import Posterior
from seqgp.options import Registry

__all__ = ["SURROGATES", "FrozenPosterior", "Surrogate", "register_surrogate"]


class Surrogate(Protocol):
    """A loss on a batch, good until the posterior it was made from is replaced."""

    def loss(self, h: Tensor, y: Tensor, index: Tensor) -> Tensor:
        """One number whose gradient estimates that of ``NLML / n``.

        Args:
            h: latent points ``(b, d)`` of the batch, as they are now.
            y: targets ``(b, outputs)``.
            index: which of the training rows they are, ``(b,)``.
        """
        ...


SURROGATES: Registry[Callable[[Posterior, Tensor, Tensor], Surrogate]] = Registry("surrogate")
"""Each is made from a posterior and the ``H`` ``(n, d)`` and ``y`` ``(n, outputs)`` conditioned on."""
register_surrogate = SURROGATES.register


@register_surrogate("posterior")
class FrozenPosterior:
    """Expected loss under the frozen posterior, an upper bound; see :meth:`seqgp.Posterior.loss`.

    Args:
        posterior: frozen.
        H: latent points ``(n, d)`` at the conditioning.
        y: targets ``(n, outputs)``.
    """

    def __init__(self, posterior: Posterior, H: Tensor, y: Tensor) -> None:
        self.posterior = posterior

    def loss(self, h: Tensor, y: Tensor, index: Tensor) -> Tensor:
        """Mean over the batch of the posterior's own loss."""
        return self.posterior.loss(h, y).mean()
