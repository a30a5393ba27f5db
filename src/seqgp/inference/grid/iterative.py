"""The iterative path, for kernels whose rank on the grid is too high for a Cholesky factor.

All eigenvectors are kept, ``K_UU = PPᵀ`` exactly, and ``C = σ²I + PᵀSP`` is only applied. The
leading eigenvectors, those the direct path would have kept, are solved exactly and serve three
times: as a block of the preconditioner (the rest of it is C's own diagonal), as the part of the
log-determinant's slope that needs no sampling, and as the directions in which the variance is
resolved.

References:
    GPyTorch: Blackbox Matrix-Matrix Gaussian Process Inference, Gardner et al. 2018,
    arXiv:1809.11165. Constant-Time Predictive Distributions for Gaussian Processes, Pleiss et al.
    2018, arXiv:1803.06058.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from seqgp.inference.grid.direct import Reduced, trace_slopes
from seqgp.inference.grid.interpolation import at_nodes
from seqgp.inference.grid.kernel_matrix import Spectrum, apply_each
from seqgp.inference.grid.posterior import Solved
from seqgp.inference.grid.prior import (
    bilinear_slopes,
    diagonal_sums,
    kronecker_product,
    prior_at_nodes,
)
from seqgp.inference.grid.solvers import (
    Solution,
    conjugate_gradients,
    factorised,
    lanczos_logdet,
)
from seqgp.inference.grid.statistics import GridStatistics, band, band_at_nodes

__all__ = ["LogDeterminant", "ResolvedSpread", "System", "solve", "stochastic_logdet"]

SOLVE_TOLERANCE = 1e-8
"""Relative residual at which conjugate gradients stop."""
MAX_ITERATIONS = 500
"""Of conjugate gradients."""
_LANCZOS_STEPS = 60
_PROBE_TOLERANCE = 1e-4  # the probes' sampling error is far above this
_WORK = 2e9  # multiplications allowed for the band of the resolved variance


class System:
    """``C = σ²I + PᵀSP`` of one output, as an operator on rows ``(k, components · m)``.

    Args:
        spectrum: of the output's kernel; its ``columns`` ``(components, d, size)`` are kept.
        statistics: of the rows.
        leading: the statistics in the kernel's leading eigenvectors.
        noise: the output's σ², a scalar.
        output: which one.
    """

    def __init__(
        self,
        spectrum: Spectrum,
        statistics: GridStatistics,
        leading: Reduced,
        noise: Tensor,
        output: int,
    ) -> None:
        self.columns, self.statistics, self.leading = spectrum.columns, statistics, leading
        self.noise, self.output = noise, output
        self.S = statistics.operator
        roots = spectrum.roots
        self._factors = [list(component) for component in roots]
        self.shape = (len(roots), *(spectrum.size,) * roots.shape[1])
        self.count = math.prod(self.shape)
        # Where the leading eigenvectors stand among all.
        steps = spectrum.size ** torch.arange(roots.shape[1] - 1, -1, -1)
        places = [
            q * spectrum.points + (component.index * steps).sum(1)
            for q, component in enumerate(leading.basis.components)
        ]
        self._block = torch.cat(places).to(roots.device)
        C = leading.gram.clone()
        C.diagonal().add_(noise)
        self.cholesky, _ = factorised(C)
        # The diagonal of PᵀSP, exactly: squares of the basis at the nodes, summed.
        squares = [[at_nodes(v).square().T for v in factors] for factors in self._factors]
        diagonal = torch.stack([apply_each(s, statistics.nodes) for s in squares])
        self._diagonal = noise + diagonal.flatten().clamp_min(0.0)

    def expand(self, x: Tensor) -> Tensor:
        """``Px``: ``(k, count)`` → ``(k, size, …)``."""
        x = x.reshape(-1, *self.shape)
        return torch.stack([apply_each(r, x[:, q]) for q, r in enumerate(self._factors)]).sum(0)

    def project(self, u: Tensor) -> Tensor:
        """``Pᵀu``: ``(k, size, …)`` → ``(k, count)``."""
        parts = [apply_each([v.T for v in r], u) for r in self._factors]
        return torch.stack(parts, 1).flatten(1)

    def apply(self, x: Tensor) -> Tensor:
        """``Cx``."""
        return self.noise * x + self.project(self.S @ self.expand(x))

    def precondition(self, r: Tensor) -> Tensor:
        """``M⁻¹r``: leading block exactly, the rest by the diagonal."""
        z = r / self._diagonal
        z[:, self._block] = torch.cholesky_solve(r[:, self._block].T, self.cholesky).T
        return z

    def whitened(self, z: Tensor) -> Tensor:
        """``F⁻¹CF⁻ᵀz`` with ``M = FFᵀ``: close to the identity, for the log-determinant."""
        return self._halve(self.apply(self._halve(z, transpose=True)), transpose=False)

    def solve(self, u: Tensor, warm: Tensor | None, tolerance: float) -> Solution:
        """``C⁻¹Pᵀu`` for ``u`` ``(k, size, …)``, from ``Pᵀ warm`` where warm has the shape of u."""
        guess = None if warm is None or warm.shape != u.shape else self.project(warm)
        return conjugate_gradients(
            self.apply, self.precondition, self.project(u), guess, tolerance, MAX_ITERATIONS
        )

    def logdet_preconditioner(self) -> Tensor:
        """``log|M|``."""
        inside: Tensor = 2.0 * self.cholesky.diagonal().log().sum()
        return inside + self._diagonal.log().sum() - self._diagonal[self._block].log().sum()

    def _halve(self, z: Tensor, transpose: bool) -> Tensor:
        out = z / self._diagonal.sqrt()
        L = self.cholesky.T if transpose else self.cholesky
        block = torch.linalg.solve_triangular(L, z[:, self._block].T, upper=transpose)
        out[:, self._block] = block.T
        return out


@dataclass(frozen=True)
class LogDeterminant:
    """``log|K|`` of all rows, ``K = WK_UUWᵀ + σ²I``, with its slopes."""

    value: Tensor
    noise_slope: Tensor
    """In σ²; zero where slopes were not asked for."""
    column_slopes: Tensor
    """In the first columns, ``(components, d, size)``; zero where they were not asked for."""
    error: float = 0.0
    """Standard error of the value, where it is stochastic."""
    solutions: tuple[Solution, ...] = ()
    """Of the systems that were solved for it."""


def solve(system: System, logdet: LogDeterminant, warm: Tensor | None) -> tuple[Solved, Tensor]:
    """Condition one output.

    Args:
        system: of the output.
        logdet: its log-determinant.
        warm: where to start: what the last call returned next to its result.
    """
    statistics, noise, columns = system.statistics, system.noise, system.columns
    n, b = statistics.n, statistics.b[system.output]
    yy = statistics.yy[system.output, system.output]
    solution = system.solve(b.unsqueeze(0), warm, SOLVE_TOLERANCE)
    mean = system.expand(solution.value)
    image = (system.S @ mean)[0]
    mean = mean[0]
    beta = ((b - image) / noise).unsqueeze(0)
    misfit = (yy - (b * mean).sum()) / noise
    alpha2 = (yy - 2.0 * (b * mean).sum() + (mean * image).sum()) / noise**2
    solved = Solved(
        nlml=0.5 * (misfit + logdet.value + n * math.log(2.0 * math.pi)),
        mean=mean,
        spread=ResolvedSpread(system),
        noise_slope=0.5 * (logdet.noise_slope - alpha2),
        column_slopes=lambda: 0.5 * (logdet.column_slopes - bilinear_slopes(columns, beta, beta)),
        rank=system.leading.basis.rank,
        solutions=(solution, *logdet.solutions),
        logdet_error=0.5 * logdet.error,
    )
    return solved, beta


def stochastic_logdet(
    system: System, probes: int, seed: int, slopes: bool, warm: Tensor | None
) -> tuple[LogDeterminant, Tensor | None]:
    """``log|K|`` by Lanczos quadrature, its slopes by solves on random signs.

    Args:
        system: of one output.
        probes: how many random vectors.
        seed: of the random vectors.
        slopes: whether slopes are asked for.
        warm: where to start: what the last call with slopes returned next to its result.
    """
    statistics, noise, columns = system.statistics, system.noise, system.columns
    n, b = statistics.n, statistics.b
    generator = torch.Generator().manual_seed(seed)
    signs = _signs((probes if slopes else 0, *b.shape[1:]), generator, b)
    # Of the preconditioner exactly, of the rest by Lanczos quadrature.
    rest, error = lanczos_logdet(
        system.whitened, _signs((probes, system.count), generator, b), _LANCZOS_STEPS
    )
    value = system.logdet_preconditioner() + rest + (n - system.count) * noise.log()
    if not slopes:
        none = torch.zeros_like(noise), torch.zeros_like(columns)
        return LogDeterminant(value, *none, error), warm
    rows = system.S @ signs
    solution = system.solve(rows, warm, _PROBE_TOLERANCE)
    lead = system.leading.basis
    trace = trace_slopes(system.leading, columns, noise, system.cholesky)
    near = lead.expand(torch.cholesky_solve(lead.project(rows).T, system.cholesky).T)
    images = system.S @ system.expand(solution.value)
    # What the leading eigenvectors miss of tr(SPC⁻¹PᵀS ∂K_UU), all that is left to sample.
    missed = _leading_slopes(system.leading, system.S @ near, signs)
    missed = missed - bilinear_slopes(columns, images, signs)
    trace = trace + missed / (probes * noise)
    # σ²K⁻¹ = I - K⁻¹WK_UUWᵀ, and K_UU is linear in each component's first factor.
    trace_inverse = (n - (trace[:, 0] * columns[:, 0]).sum()) / noise
    found = LogDeterminant(value, trace_inverse, trace, error, (solution,))
    return found, (rows - images) / noise


def _leading_slopes(leading: Reduced, x: Tensor, y: Tensor) -> Tensor:
    """``bilinear_slopes`` where the factors not differentiated are those of the leading basis.

    That is what ``trace_slopes`` has, so the two cancel in expectation.
    """
    components = leading.basis.components
    out = []
    for q in range(len(components)):
        for j in range(len(components[q].vectors)):
            left, right = leading.facing(q, j, x), leading.facing(q, j, y)
            pairs = left.movedim(1, 0).flatten(1) @ right.movedim(1, 0).flatten(1).T
            out.append(diagonal_sums(pairs))
    return torch.stack(out).reshape(len(components), -1, x.shape[1])


def _signs(shape: tuple[int, ...], generator: torch.Generator, like: Tensor) -> Tensor:
    """±1 with equal chances; drawn on the CPU, so that a seed means the same on any device."""
    signs: Tensor = 2.0 * torch.randint(0, 2, shape, generator=generator) - 1.0
    return signs.to(like)


@dataclass(frozen=True)
class ResolvedSpread:
    """Prior minus what some directions of the data resolve: never below the true variance.

    The directions are orthonormal combinations of the rows; conditioning on them alone is
    conditioning on less, so that nothing is claimed that the data do not say.
    """

    system: System

    @cached_property
    def factor(self) -> Tensor:
        """``F`` ``(directions, size, …)`` with posterior covariance ``⪯ K_UU - FᵀF`` on the grid.

        With ``B`` such that the columns of ``WB`` are orthonormal, the numbers ``BᵀWᵀy`` are noisy
        observations of f with noise σ²; conditioning on them alone leaves
        ``K_UU - K_UU SB (BᵀSK_UUSB + σ²I)⁻¹ BᵀS K_UU``. Made at first use.
        """
        system = self.system
        with torch.no_grad():
            value, vector = torch.linalg.eigh(system.leading.gram)
            dim, points = len(system.shape) - 1, math.prod(system.shape[1:])
            limit = max(16, int(_WORK / (4 * 7 ** (dim - 1) * points)))
            keep = value > 1e-12 * value[-1].clamp_min(1e-300)  # of the rest the data say nothing
            keep[: max(0, len(keep) - limit)] = False
            directions = (vector[:, keep] / value[keep].sqrt()).T
            seen = system.S @ system.leading.basis.expand(directions)  # (directions, size, …)
            image = torch.stack([kronecker_product(c, seen) for c in system.columns]).sum(0)
            R = seen.flatten(1) @ image.flatten(1).T
            R = 0.5 * (R + R.T)
            R.diagonal().add_(system.noise)
            L, _ = factorised(R)  # jitter resolves less: it errs on the safe side
            factor: Tensor = torch.linalg.solve_triangular(L, image.flatten(1), upper=False)
            return factor.reshape(seen.shape)

    def at_nodes(self) -> Tensor:
        """Variance at all nodes, ``(nodes,) * d``."""
        resolved = band_at_nodes(band(self.factor))
        return prior_at_nodes(self.system.columns, len(resolved)) - resolved

    def covariance(self, rows: list[Tensor], prior: Tensor) -> Tensor:
        """Joint covariance ``(n, n)``."""
        f = torch.einsum("ng,kg...->nk...", rows[0], self.factor)
        for row in rows[1:]:
            f = torch.einsum("ng,nkg...->nk...", row, f)
        return prior - f @ f.T
