"""Grid inference: statistics once, then a posterior for any θ at a cost free of n."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from seqgp.exceptions import TrainingWarning
from seqgp.inference.grid import iterative
from seqgp.inference.grid.cost import DEFAULT_SIZES, MAX_DIM, check_cost
from seqgp.inference.grid.direct import Reduced, solve
from seqgp.inference.grid.interpolation import GridSpec
from seqgp.inference.grid.iterative import LogDeterminant, System
from seqgp.inference.grid.kernel_matrix import Spectrum, toeplitz_columns
from seqgp.inference.grid.posterior import GridDiagnostics, GridPosterior, Solved, attach
from seqgp.inference.grid.prior import trace
from seqgp.inference.grid.statistics import GridStatistics, accumulate
from seqgp.inference.posterior import Inference, Take, register
from seqgp.likelihoods import Likelihood

__all__ = ["Grid"]

SOLVERS = ("auto", "direct", "iterative")
_ACCEPTABLE = 1e-4
"""Loss of prior variance, as a share of σ², that "auto" takes at its rank cap before it turns to
the iterative path: at most 5e-5 nats per point, less than the noise of a stochastic log-determinant
and a twentieth of what a resolved grid itself is off the exact GP."""
_NEIGHBOURS = math.exp(-1.0 / 8.0)  # correlation of grid neighbours under an RBF of two grid steps


@register("grid")
class Grid(Inference):
    """Inference on a regular grid over the box ``[-1, 1]^d``, d ≤ 4.

    Args:
        grid_size: points per dimension; by default 256, 100, 40 and 14 for d = 1 to 4.
        solver: ``"direct"`` (a Cholesky factor in the kernel's rank), ``"iterative"`` (conjugate
            gradients and a stochastic log-determinant) or ``"auto"``: direct where the rank allows.
        rank_cap: the highest rank that ``"auto"`` solves directly, and the size of the
            preconditioner's exact block on the iterative path.
        tolerance: prior variance the direct path may leave out, as a share of σ²; half of it
            bounds the error of the NLML in nats per point.
        probes: of the stochastic log-determinant and its slopes.
        seed: of the probes.

    References:
        Kernel Interpolation for Scalable Structured Gaussian Processes, Wilson and Nickisch 2015,
        arXiv:1503.01057. Thoughts on Massively Scalable Gaussian Processes, Wilson, Dann and
        Nickisch 2015, arXiv:1511.01870.
    """

    def __init__(
        self,
        grid_size: int | None = None,
        solver: str = "auto",
        rank_cap: int = 512,
        tolerance: float = 1e-9,
        probes: int = 16,
        seed: int = 0,
    ) -> None:
        if solver not in SOLVERS:
            raise ValueError(f"solver={solver!r} is not known: use one of {', '.join(SOLVERS)}")
        if grid_size is not None and grid_size < 4:
            raise ValueError(f"grid_size={grid_size} is too small: use 4 or more points")
        if rank_cap < 1 or probes < 2 or tolerance <= 0:
            raise ValueError(
                f"rank_cap={rank_cap} must be at least 1, probes={probes} at least 2 and "
                f"tolerance={tolerance} above 0"
            )
        super().__init__(grid_size)
        self.solver = solver
        self.rank_cap = rank_cap
        self.tolerance = tolerance
        self.probes = probes
        self.seed = seed
        # Per output, where the next iterative solves start: of the mean, and of the probes.
        self._warm: dict[int, Tensor] = {}
        self._warm_probes: dict[int, Tensor] = {}

    def statistics(self, H: Tensor, y: Tensor) -> GridStatistics:
        """One pass over the rows; statistics add up.

        Where ``H`` or ``y`` carries a graph, the posterior's ``nlml`` reaches it: to first order,
        and in H as exactly as the variance is known (exactly, but on the iterative path).

        Args:
            H: latent points in the box, ``(n, d)``.
            y: targets, ``(n, outputs)``.
        """
        dim = H.shape[1]
        spec = GridSpec(dim, self.size(dim))
        check_cost(spec, y.shape[1])
        spec.require_inside(H, "H")
        return accumulate(spec, H, y)

    def size(self, latent_dim: int) -> int:
        """Grid points per latent dimension."""
        return self.grid_size or DEFAULT_SIZES[min(latent_dim, MAX_DIM)]

    def arrays(self, statistics: GridStatistics) -> dict[str, Tensor]:
        """Node weights, ``Wᵀy`` and ``yᵀy``."""
        return {"nodes": statistics.nodes, "b": statistics.b, "yy": statistics.yy}

    def from_arrays(self, take: Take, n: int, latent_dim: int, outputs: int) -> GridStatistics:
        """Statistics on the grid of this inference."""
        if self.grid_size is None or latent_dim > MAX_DIM:
            raise ValueError(
                f"there is no grid of {self.grid_size} points in {latent_dim} dimensions"
            )
        spec = GridSpec(latent_dim, self.grid_size)
        nodes = take("nodes", (spec.nodes,) * latent_dim)
        b = take("b", (outputs, *(spec.size,) * latent_dim))
        return GridStatistics(spec, nodes, b, take("yy", (outputs, outputs)), n)

    def posterior(
        self, kernel: Kernel, likelihood: Likelihood, statistics: GridStatistics
    ) -> GridPosterior:
        """The posterior of all outputs; no pass over the rows.

        Args:
            kernel: a sum of stationary products, for all outputs or with one of its own for each.
            likelihood: whose noise is conditioned with.
            statistics: of the rows.

        Raises:
            ValueError: when the kernel is not a sum of stationary products.
        """
        if statistics.n < 1:
            raise ValueError("no rows are left in the statistics: add rows before conditioning")
        graph = toeplitz_columns(kernel, statistics.spec, statistics.nodes.device)
        noise = likelihood.noise
        columns, sigma2 = graph.detach(), noise.detach().to(graph)
        results: list[Solved] = []
        slopes = torch.is_grad_enabled() and (graph.requires_grad or noise.requires_grad)
        with torch.no_grad():
            for k, own in enumerate(columns):
                outputs = list(range(statistics.outputs)) if len(columns) == 1 else [k]
                results += self._condition(own, sigma2, statistics, outputs, slopes)
            traces = torch.stack([trace(c, statistics.nodes) for c in columns]).clamp_min(0.0)
        posterior = GridPosterior(
            nlml=attach(graph, noise, results),
            noise=sigma2,
            likelihood=likelihood.frozen(),
            diagnostics=_diagnostics(columns, statistics, results),
            spec=statistics.spec,
            columns=columns,
            mean_grid=torch.stack([r.mean for r in results]),
            spreads=tuple(r.spread for r in results),
            shrinkage=sigma2 / (sigma2 + traces),
        )
        if not statistics.rows or not torch.is_grad_enabled():
            return posterior
        # Fisher's identity: the frozen posterior's loss has the slope of the NLML in the rows.
        loss = torch.stack([s * posterior.loss(H, y).sum() for H, y, s in statistics.rows]).sum()
        reaching = replace(posterior, nlml=posterior.nlml + (loss - loss.detach()))
        reaching.__dict__["tables"] = posterior.tables  # made for the loss: keep them
        return reaching

    def log_determinant(self, system: System, slopes: bool) -> LogDeterminant:
        """``log|K|`` of one output on the iterative path, ``K = WK_UUWᵀ + σ²I``, and its slopes.

        The rest of the NLML is solved exactly, to a tolerance: a subclass may override this method
        to estimate the log-determinant in another way.

        Args:
            system: what is known of K: the kernel's Toeplitz ``columns`` ``(components, d, size)``,
                the ``statistics`` of the rows, and σ² ``noise``, a scalar.
            slopes: whether slopes are asked for.
        """
        found, warm = iterative.stochastic_logdet(
            system, self.probes, self.seed, slopes, self._warm_probes.get(system.output)
        )
        if warm is not None:
            self._warm_probes[system.output] = warm
        return found

    def restart(self) -> None:
        """Forget where iterative solves ended: the next begins as the first did."""
        self._warm.clear()
        self._warm_probes.clear()

    def _condition(
        self,
        columns: Tensor,
        noise: Tensor,
        statistics: GridStatistics,
        outputs: list[int],
        slopes: bool,
    ) -> list[Solved]:
        """Condition the outputs that share one kernel, columns ``(components, d, size)``."""
        spectrum = Spectrum(columns)
        least = float(noise[outputs].min())
        rank, tail = spectrum.rank(self.tolerance * least)
        capped = min(rank, self.rank_cap)
        if self.solver == "auto" and float(tail[capped]) <= _ACCEPTABLE * least:
            rank = capped
        elif self.solver != "direct":
            return self._iterate(spectrum, noise, statistics, outputs, slopes)
        check_cost(statistics.spec, statistics.outputs, rank)
        reduced = Reduced(spectrum.basis(rank), statistics)
        return [solve(reduced, columns, o, noise[o], float(tail[rank])) for o in outputs]

    def _iterate(
        self,
        spectrum: Spectrum,
        noise: Tensor,
        statistics: GridStatistics,
        outputs: list[int],
        slopes: bool,
    ) -> list[Solved]:
        check_cost(statistics.spec, statistics.outputs, self.rank_cap, iterative=True)
        leading = Reduced(spectrum.basis(self.rank_cap), statistics)
        results = []
        for o in outputs:
            system = System(spectrum, statistics, leading, noise[o], o)
            logdet = self.log_determinant(system, slopes)
            result, self._warm[o] = iterative.solve(system, logdet, self._warm.get(o))
            for found in result.solutions:
                if not found.converged:
                    warnings.warn(
                        f"conjugate gradients stopped after {found.iterations} iterations at a "
                        f"relative residual of {found.residual:.1e}: the posterior is not exact. "
                        "Raise rank_cap, or the noise",
                        TrainingWarning,
                        stacklevel=4,
                    )
            results.append(result)
        return results


def _diagnostics(
    columns: Tensor, statistics: GridStatistics, results: list[Solved]
) -> GridDiagnostics:
    solutions = [s for r in results for s in r.solutions]
    status = "ok"
    if solutions:
        status = "converged" if all(s.converged for s in solutions) else "max iterations"
    close = columns[..., 1] >= _NEIGHBOURS * (1.0 - 1e-9) * columns[..., 0]
    resolved = bool(close.all())
    return GridDiagnostics(
        method="grid/iterative" if solutions else "grid/direct",
        n=statistics.n,
        jitter=max(r.jitter for r in results),
        status=status if resolved else status + "; unresolved",
        grid_size=statistics.spec.size,
        rank=max(r.rank for r in results),
        dropped=max(r.dropped for r in results),
        iterations=max((s.iterations for s in solutions), default=0),
        residual=max((r.solutions[0].residual for r in results if r.solutions), default=0.0),
        logdet_error=math.sqrt(sum(r.logdet_error**2 for r in results)),
        resolved=resolved,
    )
