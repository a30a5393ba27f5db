"""Base kernels on the latent space: names for the usual gpytorch kernels, log-parametrised.

Any gpytorch kernel works with exact inference. The names below build the common ones with ARD,
positive parameters on the log scale (so a step of an optimiser is a relative change), and one
independent set of parameters per output.
"""

from __future__ import annotations

from collections.abc import Callable

import gpytorch
import torch
from gpytorch.constraints import GreaterThan, Positive
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel, ScaleKernel, SpectralMixtureKernel
from torch import Tensor

__all__ = ["KERNELS", "build_kernel", "lengthscale", "log_greater_than", "set_signal_variance"]

_INITIAL_LENGTHSCALE = 0.5  # the box is [-1, 1]^d and a fresh head fills about half of it
_MIXTURES = 4


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


def _matern(nu: float) -> Callable[[int, torch.Size], Kernel]:
    def build(dim: int, batch: torch.Size) -> Kernel:
        base = MaternKernel(
            nu=nu, ard_num_dims=dim, batch_shape=batch, lengthscale_constraint=_log_positive()
        )
        return _scaled(base, batch)

    return build


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


KERNELS: dict[str, Callable[[int, torch.Size], Kernel]] = {
    "rbf": _rbf,
    "matern12": _matern(0.5),
    "matern32": _matern(1.5),
    "matern52": _matern(2.5),
    "spectral-mixture": _spectral_mixture,
}


def build_kernel(kernel: str | Kernel, latent_dim: int, outputs: int = 1) -> Kernel:
    """A float64 gpytorch kernel on ``(n, latent_dim)``, by name or as given.

    With several outputs a named kernel has a batch shape ``(outputs,)``: one independent GP each.
    A kernel passed as an object keeps its own batch shape, so an unbatched one is shared.

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
    if not isinstance(kernel, str) or kernel not in KERNELS:
        raise ValueError(
            f"kernel={kernel!r} is not known: use one of {', '.join(KERNELS)} "
            "or a gpytorch.kernels.Kernel object"
        )
    batch = torch.Size([outputs]) if outputs > 1 else torch.Size()
    return KERNELS[kernel](latent_dim, batch).double()


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
        share = weights / weights.sum(-1, keepdim=True)
        kernel.mixture_weights = (share * scale.to(weights)).detach()
