"""The head ``(n, width) → (n, latent_dim)``: linear, then squashed into the box [-1, 1]^d."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seqgp.encoders.common import check_sizes

__all__ = ["Head", "ReadoutHead", "ScaledLinear"]


class Head(nn.Module):
    """``(n, width) → (n, latent_dim)`` in [-1, 1]: tanh of a linear map with orthogonal rows."""

    #: Spread of the pre-activations after calibration: well inside the part where tanh is steep.
    spread = 0.5

    def __init__(self, width: int, latent_dim: int) -> None:
        super().__init__()
        check_sizes(width=width, latent_dim=latent_dim)
        self.linear = nn.Linear(width, latent_dim)
        nn.init.orthogonal_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, features: Tensor) -> Tensor:
        """``(n, width) → (n, latent_dim)``."""
        return torch.tanh(self.linear(features))

    @torch.no_grad()
    def calibrate(self, features: Tensor) -> None:
        """Set the linear map from ``features`` ``(n, width)``: mean 0 and deviation 0.5 each.

        The directions of the rows stay; their length and the biases change. A direction along
        which the features do not vary is centred and keeps its length.
        """
        width = self.linear.in_features
        if features.ndim != 2 or features.shape[1] != width or len(features) == 0:
            raise ValueError(
                f"features has shape {tuple(features.shape)}; expected (n, {width}) with n >= 1: "
                "what the encoder returns for some windows."
            )
        if not bool(torch.isfinite(features).all()):
            raise ValueError(
                "features has NaN or infinite values; expected finite numbers. Check the encoder's "
                "inputs and weights."
            )
        exact = features.double()
        weight = self.linear.weight.double()
        centre = exact.mean(0)
        deviation = ((exact - centre) @ weight.t()).square().mean(0).sqrt()
        # Below this the variation is the rounding of the features, and not worth amplifying.
        size = exact.norm(dim=1).amax() * weight.norm(dim=1)
        alive = deviation > 100 * torch.finfo(features.dtype).eps * size
        factor = torch.where(alive, self.spread / deviation, 1.0)
        weight = weight * factor.unsqueeze(1)
        self.linear.weight.copy_(weight)
        self.linear.bias.copy_(-(weight @ centre))

    @torch.no_grad()
    def point(self, directions: Tensor) -> None:
        """Let the rows start along ``directions`` ``(≤ latent_dim, width)``, as unit vectors."""
        rows = directions.to(self.linear.weight)
        self.linear.weight[: len(rows)] = rows / rows.norm(dim=1, keepdim=True).clamp_min(1e-12)


class ScaledLinear(nn.Linear):
    """A linear layer whose outputs are in units of ``unit`` ``(outputs,)``.

    What a mean function leaves of the targets may be a hundredth of them. In that unit a step of the
    optimiser is as large for it as for targets that nothing was taken from.
    """

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__(width, outputs)
        # A parameter that is not trained: saved with the others.
        self.unit = nn.Parameter(torch.ones(outputs), requires_grad=False)

    def forward(self, features: Tensor) -> Tensor:
        """``(n, width) → (n, outputs)``."""
        return super().forward(features) * self.unit

    @torch.no_grad()
    def measure(self, y: Tensor) -> None:
        """Let the unit be the deviation of ``y`` ``(n, outputs)``."""
        self.unit.copy_(y.std(0, correction=0).clamp_min(1e-6))


class ReadoutHead(Head):
    """``(n, width) → (n, latent_dim + outputs)``: the latent point, then a linear readout beside it."""

    def __init__(self, width: int, latent_dim: int, outputs: int) -> None:
        super().__init__(width, latent_dim)
        self.readout = ScaledLinear(width, outputs)
        # A readout that has not been trained says nothing.
        nn.init.zeros_(self.readout.weight)
        nn.init.zeros_(self.readout.bias)

    def forward(self, features: Tensor) -> Tensor:
        """``(n, width) → (n, latent_dim + outputs)``."""
        return torch.cat([super().forward(features), self.readout(features)], 1)
