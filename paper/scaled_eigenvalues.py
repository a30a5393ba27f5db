"""Grid inference with a deterministic log-determinant: the eigenvalues of K_UU, scaled.

The n largest eigenvalues of ``W K_UU Wᵀ`` are close to those of ``K_UU``, a matrix on m grid points,
times n/m, where the rows fill the box evenly:

    log|W K_UU Wᵀ + σ²I| ≈ Σ_i log(n/m λ_i + σ²) + max(0, n - m) log σ².

The eigenvalues of a Kronecker product are the products of its factors' eigenvalues. The fit to the
targets stays exact, by conjugate gradients.

References:
    Thoughts on Massively Scalable Gaussian Processes, Wilson, Dann and Nickisch 2015,
    arXiv:1511.01870.
"""

from __future__ import annotations

import torch
from torch import Tensor

from seqgp.inference import register
from seqgp.inference.grid import Grid, LogDeterminant, System

__all__ = ["ScaledEigenvalueGrid", "scaled_logdet"]


@register("grid-scaled-eigenvalues")
class ScaledEigenvalueGrid(Grid):
    """:class:`seqgp.inference.grid.Grid` with the log-determinant of Wilson et al.

    Args:
        grid_size: points per dimension; by default chosen by the number of dimensions.
        rank_cap: size of the exact block of the preconditioner of conjugate gradients.
    """

    def __init__(self, grid_size: int | None = None, rank_cap: int = 512) -> None:
        super().__init__(grid_size, solver="iterative", rank_cap=rank_cap)

    def log_determinant(self, system: System, slopes: bool) -> LogDeterminant:
        """``log|K|`` of one output and its slopes, which cost next to nothing: always there.

        Raises:
            ValueError: when the kernel is a sum of products, whose eigenvalues are not known.
        """
        if len(system.columns) > 1:
            raise ValueError(
                "scaled eigenvalues are those of K_UU, which a sum of products does not give: use "
                "seqgp.inference.grid.Grid, or a kernel that is one product"
            )
        with torch.enable_grad():
            columns = system.columns.detach().requires_grad_()
            noise = system.noise.detach().requires_grad_()
            value = scaled_logdet(columns[0], system.statistics.n, noise)
            column_slopes, noise_slope = torch.autograd.grad(value, (columns, noise))
        return LogDeterminant(value.detach(), noise_slope, column_slopes)


def scaled_logdet(columns: Tensor, n: int, noise: Tensor) -> Tensor:
    """The sum above over the n largest eigenvalues, differentiable in columns and noise.

    Args:
        columns: first columns of the Toeplitz factors, ``(d, size)``.
        n: rows.
        noise: σ², a scalar.
    """
    place = torch.arange(columns.shape[1], device=columns.device)
    factors = columns[:, (place - place.unsqueeze(1)).abs()]  # (d, size, size)
    product = columns.new_ones(())
    for values in torch.linalg.eigvalsh(factors):
        product = product.unsqueeze(-1) * values
    m = product.numel()
    largest = product.flatten().topk(min(n, m)).values
    return (n / m * largest + noise).log().sum() + max(0, n - m) * noise.log()
