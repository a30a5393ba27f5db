"""The iterative path, for kernels whose rank on the grid is too high for a Cholesky factor.

All eigenvectors are kept, ``K_UU = PPᵀ`` exactly, and ``C = σ²I + PᵀSP`` is only applied. The
leading eigenvectors, those the direct path would have kept, are solved exactly and serve three
times: as a block of the preconditioner (the rest of it is C's own diagonal), as the part of the
log-determinant's slope that needs no sampling, and as the directions in which the variance is
resolved.

References:
    GPyTorch: Blackbox Matrix-Matrix Gaussian Process Inference, Gardner et al. 2018,
    arXiv:1809.11165. Constant-Time Predictive Distributions for Gaussian Processes, Pleiss et al.
    2018, arXiv:1803.06058. The scaled eigenvalues: Thoughts on Massively Scalable Gaussian
    Processes, Wilson, Dann and Nickisch 2015, arXiv:1511.01870.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from .direct import Reduced, trace_slopes
from .eigenbasis import Spectrum
from .interpolation import at_nodes
from .solvers import LogDeterminant, Solution, cholesky, conjugate_gradients, lanczos_logdet
from .statistics import GridStatistics
from .toeplitz import apply_each, bilinear_slopes, diagonal_sums

__all__ = ["IterativeFit", "System", "fit", "scaled_logdet"]


class System:
    """``C = σ²I + PᵀSP`` of one kernel and one σ², as an operator on rows ``(k, components · m)``."""

    def __init__(
        self, spectrum: Spectrum, statistics: GridStatistics, noise: Tensor, leading: Reduced
    ) -> None:
        self.spectrum, self.statistics, self.noise = spectrum, statistics, noise
        self.leading = leading
        self.S = statistics.operator
        roots = spectrum.vectors * spectrum.values.sqrt().unsqueeze(-2)
        self._factors = [list(component) for component in roots]
        self.shape = (len(roots), *(spectrum.size,) * roots.shape[1])
        self.count = math.prod(self.shape)
        places = []
        for q, component in enumerate(leading.basis.components):
            place = torch.full_like(component.index[:, 0], q)
            for j in range(component.index.shape[1]):
                place = place * spectrum.size + component.index[:, j]
            places.append(place)
        self._block = torch.cat(places).to(roots.device)
        C = leading.gram.clone()
        C.diagonal().add_(noise)
        self.cholesky, self.jitter = cholesky(C)
        self._diagonal = noise + self._gram_diagonal()

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

    def solve(
        self, rhs: Tensor, guess: Tensor | None, tolerance: float, max_iterations: int
    ) -> Solution:
        """``C⁻¹`` times rows ``(k, count)``."""
        return conjugate_gradients(
            self.apply, self.precondition, rhs, guess, tolerance, max_iterations
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

    def _gram_diagonal(self) -> Tensor:
        """The diagonal of ``PᵀSP``, exactly: squares of the basis at the nodes, summed."""
        parts = []
        for factors in self._factors:
            squares = [at_nodes(v).square().T for v in factors]
            parts.append(apply_each(squares, self.statistics.nodes))
        return torch.stack(parts).flatten().clamp_min(0.0)


@dataclass(frozen=True)
class IterativeFit:
    """One output's solution on the grid."""

    nlml: Tensor
    mean: Tensor
    """Posterior mean at the grid points, ``(size, …)``."""
    noise_slope: Tensor
    column_slopes: Tensor | None
    """``(components, d, size)``, where asked for."""
    solution: Solution
    sampled: Solution
    """Of the probes; no rows where none were needed."""
    logdet_error: float
    warm: Tensor
    """``β = Wᵀα`` and, with slopes, ``Q`` times each probe: where the next solve can start."""

    def given_slopes(self) -> Tensor:
        """The column slopes, known to have been asked for."""
        if self.column_slopes is None:
            raise RuntimeError("the slopes were not asked for when this was fitted")
        return self.column_slopes


def fit(
    system: System,
    output: int,
    logdet: str,
    probes: int,
    seed: int,
    tolerance: float,
    max_iterations: int,
    slopes: bool,
    warm: Tensor | None,
) -> IterativeFit:
    """NLML of one output, its mean on the grid and, with ``slopes``, all derivatives.

    ``logdet`` is ``"lanczos"`` (stochastic, as are then the slopes, on the same seed) or
    ``"scaled-eigenvalues"`` (a deterministic approximation of another kind).
    """
    statistics, noise, columns = system.statistics, system.noise, system.spectrum.columns
    n, yy, b = statistics.n, statistics.yy[output, output], statistics.b[output]
    generator = torch.Generator().manual_seed(seed)
    stochastic = logdet == "lanczos"
    signs = _signs((probes if slopes and stochastic else 0, *b.shape), generator, b)
    rows = torch.cat([b.unsqueeze(0), system.S @ signs])
    rhs = system.project(rows)
    usable = warm is not None and warm.shape == rows.shape
    guess = system.project(warm) if warm is not None and usable else None
    solution = system.solve(
        rhs[:1], None if guess is None else guess[:1], tolerance, max_iterations
    )
    # The probes' sampling error is far above this.
    loose = max(tolerance, _PROBE_TOLERANCE)
    sampled = system.solve(rhs[1:], None if guess is None else guess[1:], loose, max_iterations)
    mean = system.expand(solution.value)
    image = (system.S @ mean)[0]
    mean = mean[0]
    beta = (b - image) / noise
    misfit = (yy - (b * mean).sum()) / noise
    alpha2 = (yy - 2.0 * (b * mean).sum() + (mean * image).sum()) / noise**2
    if stochastic:
        whole = _stochastic_logdet(system, probes, generator)
        volume, error = whole.value + (n - system.count) * noise.log(), whole.error
    else:
        volume, error = scaled_logdet(system.spectrum, n, noise)[0], 0.0
    column_slopes, trace_inverse = None, torch.zeros_like(noise)
    warm_rows = beta.unsqueeze(0)
    if slopes:
        if stochastic:
            lead = system.leading.basis
            trace = trace_slopes(system.leading, columns, noise, system.cholesky)
            near = lead.expand(torch.cholesky_solve(lead.project(rows[1:]).T, system.cholesky).T)
            images = system.S @ system.expand(sampled.value)
            # What the leading eigenvectors miss of tr(SPC⁻¹PᵀS ∂K_UU), all that is left to sample.
            missed = _leading_slopes(system.leading, system.S @ near, signs)
            missed = missed - bilinear_slopes(columns, images, signs)
            trace = trace + missed / (probes * noise)
            # σ²K⁻¹ = I - K⁻¹WK_UUWᵀ, and K_UU is linear in each component's first factor.
            trace_inverse = (n - (trace[:, 0] * columns[:, 0]).sum()) / noise
            warm_rows = torch.cat([warm_rows, (rows[1:] - images) / noise])
        else:
            _, trace, trace_inverse = scaled_logdet(system.spectrum, n, noise)
        outer = bilinear_slopes(columns, beta.unsqueeze(0), beta.unsqueeze(0))
        column_slopes = 0.5 * (trace - outer)
    return IterativeFit(
        nlml=0.5 * (misfit + volume + n * math.log(2.0 * math.pi)),
        mean=mean,
        noise_slope=0.5 * (trace_inverse - alpha2),
        column_slopes=column_slopes,
        solution=solution,
        sampled=sampled,
        logdet_error=0.5 * error,
        warm=warm_rows,
    )


_LANCZOS_STEPS = 60
_PROBE_TOLERANCE = 1e-4


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


def _stochastic_logdet(system: System, probes: int, generator: torch.Generator) -> LogDeterminant:
    """``log|C|``: of the preconditioner exactly, of the rest by Lanczos quadrature."""
    signs = _signs((probes, system.count), generator, system.noise)
    rest = lanczos_logdet(system.whitened, signs, _LANCZOS_STEPS)
    return LogDeterminant(system.logdet_preconditioner() + rest.value, rest.error)


def _signs(shape: tuple[int, ...], generator: torch.Generator, like: Tensor) -> Tensor:
    """±1 with equal chances; drawn on the CPU, so that a seed means the same on any device."""
    signs: Tensor = 2.0 * torch.randint(0, 2, shape, generator=generator) - 1.0
    return signs.to(like)


def scaled_logdet(spectrum: Spectrum, n: int, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """``Σ log(n/m λ_i + σ²)`` over the n largest eigenvalues, and its slopes in columns and σ².

    The approximation of the log-determinant by the eigenvalues of K_UU alone: cheap and
    deterministic, good where the rows fill the box evenly.
    """
    values = spectrum.values[0]  # (d, size)
    product = values[0]
    for v in values[1:]:
        product = product.unsqueeze(-1) * v
    m = product.numel()
    kept = torch.zeros(m, dtype=torch.bool, device=product.device)
    kept[product.flatten().topk(min(n, m)).indices] = True
    kept = kept.reshape(product.shape)
    shifted = n / m * product + noise
    total = torch.where(kept, shifted.log(), 0.0).sum() + max(0, n - m) * noise.log()
    weight = torch.where(kept, 1.0 / shifted, 0.0)
    slopes = torch.empty_like(spectrum.columns)
    for j in range(len(values)):
        others: list[Tensor | None] = [v.unsqueeze(0) for v in values]
        others[j] = None
        coefficient = n / m * apply_each(others, weight).flatten()
        vectors = spectrum.vectors[0, j]
        slopes[0, j] = diagonal_sums((vectors * coefficient) @ vectors.T)
    return total, slopes, weight.sum() + max(0, n - m) / noise
