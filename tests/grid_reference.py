"""Grid inference's slow dense twin, ``W K_UU Wᵀ + σ²I`` written out, and what its tests set up."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import gpytorch
import torch
from torch import Tensor

from paper.coregional import Given
from seqgp.inference.grid import Grid
from seqgp.kernels import build_kernel

__all__ = [
    "NOISE",
    "Dense",
    "Given",
    "assert_same_slopes",
    "condition",
    "dense",
    "dense_grid",
    "dense_interp",
    "error",
    "grid_axis",
    "make_kernel",
    "rows",
]

NOISE = torch.tensor([0.1], dtype=torch.float64)


def keys_weight(distance: Tensor) -> Tensor:
    """Cubic convolution kernel of a distance in grid steps (Keys 1981, a = -1/2)."""
    d = distance.abs()
    near = 1.5 * d**3 - 2.5 * d**2 + 1.0
    far = -0.5 * d**3 + 2.5 * d**2 - 4.0 * d + 2.0
    return torch.where(d <= 1, near, torch.where(d <= 2, far, torch.zeros_like(d)))


def grid_axis(size: int) -> Tensor:
    step = 2.0 / (size - 3)
    return -1.0 - step + step * torch.arange(size, dtype=torch.float64)


def dense_interp(h: Tensor, size: int) -> Tensor:
    """W ``(n, size^d)``: all weights of all points, no cells, no stencils."""
    step = 2.0 / (size - 3)
    W = torch.ones(len(h), 1, dtype=torch.float64)
    for j in range(h.shape[1]):
        own = keys_weight((h[:, j, None] - grid_axis(size)) / step)
        W = (W.unsqueeze(-1) * own.unsqueeze(1)).flatten(1)
    return W


def dense_grid(dim: int, size: int) -> Tensor:
    return torch.cartesian_prod(*[grid_axis(size)] * dim).reshape(-1, dim)


@dataclass
class Dense:
    nlml: Tensor
    mean: Tensor
    covariance: Tensor
    prior: Tensor


def dense(kernel, noise: Tensor, H: Tensor, y: Tensor, size: int, h: Tensor) -> Dense:
    """NLML (with its graph), mean ``(n*, outputs)`` and covariance ``(outputs, n*, n*)`` at ``h``."""
    n, outputs = y.shape
    U = dense_grid(H.shape[1], size)
    K_UU = kernel(U).to_dense()
    W, W_star = dense_interp(H, size), dense_interp(h, size)
    K = (W @ K_UU @ W.T).expand(outputs, n, n)
    L = torch.linalg.cholesky(K + noise[:, None, None] * torch.eye(n, dtype=torch.float64))
    alpha = torch.cholesky_solve(y.T.unsqueeze(-1), L)
    nlml = (
        0.5 * (y.T.unsqueeze(-1) * alpha).sum()
        + L.diagonal(dim1=-2, dim2=-1).log().sum()
        + 0.5 * n * outputs * math.log(2.0 * math.pi)
    )
    cross = (W_star @ K_UU @ W.T).expand(outputs, len(h), n)
    prior = (W_star @ K_UU @ W_star.T).expand(outputs, len(h), len(h))
    mean = (cross @ alpha).squeeze(-1).T
    covariance = prior - cross @ torch.cholesky_solve(cross.mT, L)
    return Dense(nlml, mean.detach(), covariance.detach(), prior.detach())


def condition(H, y, kernel=None, size=20, noise=NOISE, squeeze=True, inference=None, **options):
    """The grid's posterior, under an RBF kernel where none is given."""
    inference = inference or Grid(size, **options)
    kernel = kernel or make_kernel("rbf", H.shape[1])
    found = inference.posterior(kernel, Given(noise), inference.statistics(H, y))
    return replace(found, squeeze=squeeze)


def assert_same_slopes(found: Tensor, expected: Tensor, wanted: list[Tensor], tolerance: float):
    """In every wanted tensor, relative to the largest of its slopes."""
    ours, theirs = (torch.autograd.grad(value, wanted) for value in (found, expected))
    for mine, other in zip(ours, theirs, strict=True):
        assert error(mine, other) < tolerance


def error(found: Tensor, expected: Tensor) -> float:
    """Largest difference, relative to the largest expected entry."""
    found, expected = found.detach(), expected.detach()
    return float((found - expected).abs().max() / expected.abs().max())


def rows(n: int, dim: int, outputs: int = 1, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Random rows in the closed box, two of them in its corners, with a smooth noisy target."""
    generator = torch.Generator().manual_seed(seed)
    H = 2.0 * torch.rand(n, dim, dtype=torch.float64, generator=generator) - 1.0
    H[0], H[-1] = 1.0, -1.0
    phase = torch.arange(1.0, outputs + 1.0, dtype=torch.float64)
    y = torch.sin(2.0 * H.sum(1, keepdim=True) * phase)
    return H, y + 0.3 * torch.randn(n, outputs, dtype=torch.float64, generator=generator)


def make_kernel(name: str, dim: int, outputs: int = 1) -> gpytorch.kernels.Kernel:
    if name == "sum":
        return build_kernel("rbf", dim, outputs) + build_kernel(
            "matern52", dim, outputs, product=True
        )
    if name == "per-dimension":
        parts = [
            gpytorch.kernels.MaternKernel(nu=1.5, active_dims=[j]).double() for j in range(dim)
        ]
        product = gpytorch.kernels.ProductKernel(*parts)
        return gpytorch.kernels.ScaleKernel(product).double()
    if name == "one-dimension":  # a kernel that ignores all dimensions but the last
        base = gpytorch.kernels.RBFKernel(active_dims=[dim - 1])
        return gpytorch.kernels.ScaleKernel(base).double()
    if name == "constant":
        return build_kernel("rbf", dim, outputs) + gpytorch.kernels.ConstantKernel().double()
    return build_kernel(name, dim, outputs, product=True)
