"""Base kernels on the latent space: names for the usual gpytorch kernels, log-parametrised.

Any gpytorch kernel works with exact inference. The names below build the common ones with ARD,
positive parameters on the log scale (so a step of an optimiser is a relative change), and one
independent set of parameters per output.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import gpytorch
import torch
from gpytorch.constraints import GreaterThan, Positive
from gpytorch.kernels import (
    Kernel,
    MaternKernel,
    PeriodicKernel,
    RBFKernel,
    ScaleKernel,
    SpectralMixtureKernel,
)
from torch import Tensor

from seqgp.options import Registry

__all__ = [
    "KERNELS",
    "ProductMatern",
    "build_kernel",
    "lengthscale",
    "log_greater_than",
    "register",
    "set_signal_variance",
]

_INITIAL_LENGTHSCALE = 0.5  # the box is [-1, 1]^d and a fresh head fills about half of it
_MIXTURES = 4


class ProductMatern(Kernel):
    """Matérn kernel as a product over dimensions, ``Π_j k_ν(|x_j - x'_j| / ℓ_j)``.

    The usual Matérn kernel is a function of the distance and does not factor over a grid; this one
    does. In one dimension they are the same.

    Args:
        nu: smoothness, 0.5, 1.5 or 2.5.
        **kwargs: of :class:`gpytorch.kernels.Kernel`: ``ard_num_dims``, ``batch_shape``, …

    >>> ProductMatern(nu=1.5, ard_num_dims=2)(torch.zeros(3, 2)).to_dense().shape
    torch.Size([3, 3])
    """

    has_lengthscale = True
    is_product = True

    def __init__(self, nu: float = 2.5, **kwargs: Any) -> None:
        if nu not in (0.5, 1.5, 2.5):
            raise ValueError(f"nu={nu} is not one of 0.5, 1.5 and 2.5")
        super().__init__(**kwargs)
        self.nu = nu

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        """Kernel values ``(…, n1, n2)``, or ``(…, n)`` with ``diag``."""
        x1, x2 = x1 / self.lengthscale, x2 / self.lengthscale
        difference = x1 - x2 if diag else x1.unsqueeze(-2) - x2.unsqueeze(-3)
        r = difference.abs() * math.sqrt(2.0 * self.nu)
        if self.nu == 0.5:
            return torch.exp(-r.sum(-1))
        polynomial = 1.0 + r if self.nu == 1.5 else 1.0 + r + r.square() / 3.0
        return polynomial.prod(-1) * torch.exp(-r.sum(-1))


def _log_positive() -> Positive:
    return Positive(transform=torch.exp, inv_transform=torch.log)


def log_greater_than(floor: float) -> GreaterThan:
    """A lower bound whose distance to the value is log-parametrised."""
    return GreaterThan(floor, transform=torch.exp, inv_transform=torch.log)


def _scaled(base: Kernel, batch: torch.Size) -> ScaleKernel:
    base.lengthscale = _INITIAL_LENGTHSCALE
    kernel = ScaleKernel(base, batch_shape=batch, outputscale_constraint=_log_positive())
    kernel.outputscale = 1.0
    return kernel


def _rbf(dim: int, batch: torch.Size) -> Kernel:
    base = RBFKernel(ard_num_dims=dim, batch_shape=batch, lengthscale_constraint=_log_positive())
    return _scaled(base, batch)


def _matern(nu: float, kind: type[Kernel]) -> Callable[[int, torch.Size], Kernel]:
    def build(dim: int, batch: torch.Size) -> Kernel:
        base = kind(
            nu=nu, ard_num_dims=dim, batch_shape=batch, lengthscale_constraint=_log_positive()
        )
        return _scaled(base, batch)

    return build


def _periodic(dim: int, batch: torch.Size) -> Kernel:
    base = PeriodicKernel(
        ard_num_dims=dim,
        batch_shape=batch,
        lengthscale_constraint=_log_positive(),
        period_length_constraint=_log_positive(),
    )
    base.period_length = 2.0  # the box once around
    return _scaled(base, batch)


def _spectral_mixture(dim: int, batch: torch.Size) -> Kernel:
    kernel = SpectralMixtureKernel(
        num_mixtures=_MIXTURES,
        ard_num_dims=dim,
        batch_shape=batch,
        mixture_weights_constraint=_log_positive(),
        mixture_means_constraint=_log_positive(),
        mixture_scales_constraint=_log_positive(),
    )
    # gpytorch starts all components equal, and equal components stay equal under gradient steps.
    # Spread the mean frequencies: the first component is close to an RBF of the usual lengthscale.
    spread = torch.linspace(0.05, 1.5, _MIXTURES).reshape(_MIXTURES, 1, 1)
    kernel.mixture_means = spread.expand_as(kernel.mixture_means)
    width = 1.0 / (2.0 * torch.pi * _INITIAL_LENGTHSCALE)
    kernel.mixture_scales = torch.full_like(kernel.mixture_scales, width)
    kernel.mixture_weights = torch.full_like(kernel.mixture_weights, 1.0 / _MIXTURES)
    return kernel


Builder = Callable[[int, torch.Size], Kernel]
"""From the latent dimension and the batch shape to a kernel."""

KERNELS: Registry[Builder] = Registry("kernel", ", or a gpytorch kernel")
register = KERNELS.register
for _name, _builder in {
    "rbf": _rbf,
    "matern12": _matern(0.5, MaternKernel),
    "matern32": _matern(1.5, MaternKernel),
    "matern52": _matern(2.5, MaternKernel),
    "spectral-mixture": _spectral_mixture,
    "periodic": _periodic,
}.items():
    register(_name)(_builder)
# Matérn kernels are functions of the distance; a grid needs products over dimensions.
_PRODUCTS: dict[str, Builder] = {
    "matern12": _matern(0.5, ProductMatern),
    "matern32": _matern(1.5, ProductMatern),
    "matern52": _matern(2.5, ProductMatern),
}


def build_kernel(
    kernel: str | Kernel, latent_dim: int, outputs: int = 1, product: bool = False
) -> Kernel:
    """A float64 gpytorch kernel on ``(n, latent_dim)``, by name or as given.

    Args:
        kernel: a registered name, or a gpytorch kernel, which keeps its own batch shape: an unbatched
            one is shared by all outputs.
        latent_dim: d.
        outputs: a named kernel has the batch shape ``(outputs,)``, where they are several: one
            independent GP each.
        product: ask for a product over dimensions, as a grid needs it; a difference to the Matérn
            kernels only, which are functions of the distance otherwise.

    >>> build_kernel("rbf", latent_dim=2).base_kernel.lengthscale.shape
    torch.Size([1, 2])
    >>> build_kernel("matern52", latent_dim=2, outputs=3).outputscale.shape
    torch.Size([3])
    """
    if isinstance(kernel, gpytorch.kernels.Kernel):
        if tuple(kernel.batch_shape) not in {(), (outputs,)}:
            raise ValueError(
                f"the kernel has batch shape {tuple(kernel.batch_shape)}, but the GP has {outputs} "
                f"output(s): give it batch_shape=torch.Size([{outputs}]) for independent parameters "
                "per output, or no batch shape to share them"
            )
        return kernel.double()
    batch = torch.Size([outputs]) if outputs > 1 else torch.Size()
    builder = KERNELS[kernel]
    if product:
        builder = _PRODUCTS.get(kernel, builder)
    return builder(latent_dim, batch).double()


def lengthscale(kernel: Kernel) -> Tensor | None:
    """The lengthscales ``(outputs or 1, d)`` of a kernel that has them, else None."""
    base = getattr(kernel, "base_kernel", kernel)
    if not getattr(base, "has_lengthscale", False):
        return None
    value: Tensor = base.lengthscale.detach()
    return value.reshape(-1, value.shape[-1])


def set_signal_variance(kernel: Kernel, variance: Tensor) -> None:
    """Start the kernel's own variance at ``variance`` ``(outputs,)``, where it has such a parameter.

    Kernels of another build are left as their owner made them.
    """
    if isinstance(kernel, ScaleKernel):
        target = variance if kernel.outputscale.ndim else variance.mean()
        kernel.outputscale = target.to(kernel.outputscale)
    elif isinstance(kernel, SpectralMixtureKernel):
        weights = kernel.mixture_weights
        scale = variance.reshape(-1, 1) if weights.ndim > 1 else variance.mean()
        # gpytorch multiplies one mixture per dimension, so the weights' sum counts d times.
        scale = scale ** (1.0 / kernel.ard_num_dims)
        share = weights / weights.sum(-1, keepdim=True)
        kernel.mixture_weights = (share * scale.to(weights)).detach()
