"""What a grid would cost, before anything is allocated."""

from __future__ import annotations

from dataclasses import dataclass

from seqgp.inference.grid.interpolation import NODES, STENCIL, GridSpec

__all__ = ["DEFAULT_SIZES", "MAX_DIM", "Cost", "check_cost", "estimate_cost"]

DEFAULT_SIZES = {1: 256, 2: 100, 3: 40, 4: 14}
"""Grid points per dimension by latent dimension: about a second or less for one evaluation."""
MAX_DIM = 4
MAX_BYTES = 8 * 2**30
MAX_FLOPS = 1e13


@dataclass(frozen=True)
class Cost:
    """Of statistics, one NLML with its slopes, and the tables."""

    bytes: int
    flops: float


def estimate_cost(
    dim: int, grid_size: int, outputs: int = 1, rank: int = 200, iterative: bool = False
) -> Cost:
    """Peak memory and operations of grid inference, roughly.

    Args:
        dim: latent dimensions.
        grid_size: points per dimension.
        outputs: targets of a row.
        rank: of the kernel on the grid: what the direct path keeps, or the size of the iterative
            path's preconditioner.
        iterative: whether it is the iterative path.

    >>> estimate_cost(dim=2, grid_size=100).bytes < 2**25 < estimate_cost(dim=3, grid_size=40).bytes
    True
    """
    spec = GridSpec(dim, grid_size)
    cells, nodes, points = spec.cells**dim, spec.nodes**dim, spec.size**dim
    rows = cells * (NODES**dim + outputs * STENCIL**dim)  # while the statistics are gathered
    tables = cells * outputs * (NODES**dim + STENCIL**dim)
    each = min(grid_size, max(2, round(2.0 * rank ** (1.0 / dim))))  # eigenvectors a dimension
    pairs = each * (each + 1) / 2
    work = min(grid_size * each ** (dim - 1), 4 * points) * rank
    numbers = max(rows + nodes, nodes * 2 + tables + work)
    flops = 2.0 * (2 + outputs) * nodes * (pairs if dim > 1 else each)
    flops += 10.0 * dim * grid_size**3 / 4.0 + dim * outputs * float(work) * rank
    if iterative:  # S as a sparse matrix, and 16 probes with 60 Lanczos vectors each
        numbers += points * (1.5 * NODES**dim + 16 * 60)
        flops += 2.0 * 16 * 60 * points * (NODES**dim + 2 * dim * grid_size)
    return Cost(int(8 * numbers), flops)


def check_cost(spec: GridSpec, outputs: int, rank: int = 200, iterative: bool = False) -> None:
    """Refuse a grid that takes too much memory or time; see :func:`estimate_cost`.

    Raises:
        ValueError: with the estimate and the alternatives.
    """
    if spec.dim > MAX_DIM:
        even = DEFAULT_SIZES[MAX_DIM]
        raise ValueError(
            f"grid inference works in 1 to {MAX_DIM} latent dimensions, got {spec.dim}: a grid of "
            f"even {even} points per dimension would have {even**spec.dim:.1e} points. Use "
            f"latent_dim ≤ {MAX_DIM}, or inference='exact'"
        )
    cost = estimate_cost(spec.dim, spec.size, outputs, rank, iterative)
    if cost.bytes > MAX_BYTES or cost.flops > MAX_FLOPS:
        raise ValueError(
            f"a grid of {spec.size} points in each of {spec.dim} dimensions with {outputs} output(s) "
            f"would need about {cost.bytes / 2**30:.1f} GiB and {cost.flops:.0e} operations "
            f"at rank {rank} (limits: {MAX_BYTES / 2**30:.0f} GiB, {MAX_FLOPS:.0e}). Use a smaller "
            f"grid_size (the default for {spec.dim} dimensions is {DEFAULT_SIZES[spec.dim]}), fewer "
            "latent dimensions, or inference='exact'"
        )
