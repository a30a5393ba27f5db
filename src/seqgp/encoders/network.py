"""From windows to what the GP sees: encoder, head into the latent box, readout beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from seqgp.encoders.common import check_sizes

__all__ = ["Encoded", "Head", "Network", "ScaledLinear", "Windows", "encode"]

# Rows at once in a pass without gradients: what stays in a CPU's cache, and what fills a GPU.
_ENCODE_ROWS = {"cpu": 256, "cuda": 8192}


class Windows(Protocol):
    """Rows of windows: a tensor ``(n, T, p)``, or anything that makes such batches when indexed."""

    @property
    def device(self) -> torch.device: ...

    @property
    def shape(self) -> torch.Size: ...

    def __len__(self) -> int: ...

    def __getitem__(self, index: Any) -> Tensor: ...


class Head(nn.Module):
    """``(n, width) → (n, latent_dim)`` in [-1, 1]: tanh of a linear map with orthogonal rows."""

    #: Spread of the pre-activations after centring: well inside the part where tanh is steep.
    spread = 0.5

    def __init__(self, width: int, latent_dim: int) -> None:
        super().__init__()
        check_sizes(width=width, latent_dim=latent_dim)
        self.linear = nn.Linear(width, latent_dim)
        nn.init.orthogonal_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)
        # In float32 a product of one row rounds otherwise than one of many: 2e-7 of a prediction would
        # depend on which rows are predicted with it.
        self.double()

    def forward(self, features: Tensor) -> Tensor:
        """``(n, width) → (n, latent_dim)``."""
        return torch.tanh(self.linear(features.double()))

    @torch.no_grad()
    def centre(self, features: Tensor) -> None:
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
        weight = self.linear.weight
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
        self.double()  # as in Head

    def forward(self, features: Tensor) -> Tensor:
        """``(n, width) → (n, outputs)``."""
        return super().forward(features.double()) * self.unit

    @torch.no_grad()
    def measure(self, y: Tensor) -> None:
        """Let the unit be the deviation of ``y`` ``(n, outputs)``."""
        self.unit.copy_(y.std(0, correction=0).clamp_min(1e-6))


class Network(nn.Module):
    """Windows ``(n, T, p)`` to latent points ``(n, d)`` and an offset ``(n, outputs)``.

    The offset is a linear readout of the features, part of the mean of the targets; zeros where there is
    no readout. Without a head there are no latent points, ``(n, 0)``: a plain network.

    Args:
        encoder: ``(n, T, p) → (n, width)``.
        head: ``(n, width) → (n, d)`` in the box, or None.
        readout: ``(n, width) → (n, outputs)``, or None.
        outputs: columns of the targets.
    """

    def __init__(
        self,
        encoder: nn.Module,
        head: Head | None,
        readout: ScaledLinear | None,
        outputs: int,
    ) -> None:
        super().__init__()
        self.encoder, self.head, self.readout = encoder, head, readout
        self.outputs = outputs

    @property
    def width(self) -> int:
        """Of the encoder's features."""
        ends = self.readout if self.head is None else self.head.linear
        assert ends is not None  # a network has at least one of them
        return ends.in_features

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Latent points ``(n, d)`` and offset ``(n, outputs)``."""
        return self.ends(self.encoder(x))

    def ends(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Latent points and offset from features ``(n, width)``."""
        features = features.double()
        latent = features[:, :0] if self.head is None else self.head(features)
        if self.readout is None:
            return latent, features.new_zeros(len(features), self.outputs)
        return latent, self.readout(features)


class Encoded(NamedTuple):
    """What a network makes of windows, in float64."""

    latent: Tensor
    """``(n, d)``."""
    offset: Tensor
    """``(n, outputs)``."""
    features: Tensor | None = None
    """``(n, width)``, where they were asked for."""


@torch.no_grad()
def encode(
    network: Network,
    windows: Windows,
    features: bool = False,
    beside: Callable[[Tensor], Tensor] | None = None,
) -> Encoded:
    """Latent points and offsets of all windows, by a network in evaluation mode.

    Args:
        network: in evaluation mode: nothing is switched here, so that threads may share it.
        windows: ``(n, T, p)``.
        features: whether the encoder's features are kept.
        beside: a function of windows ``(n, T, p) → (n, k)`` whose values are kept beside the features.
    """
    size = _ENCODE_ROWS.get(windows.device.type, 1024)
    latent, offset, seen = [], [], []
    for start in range(0, len(windows), size):
        x = windows[slice(start, start + size)]
        found = network.encoder(x)
        h, addition = network.ends(found)
        latent.append(h)
        offset.append(addition)
        if features or beside is not None:
            seen.append((found if beside is None else torch.cat([found, beside(x)], 1)).double())
    return Encoded(torch.cat(latent), torch.cat(offset), torch.cat(seen) if seen else None)
