"""Linear algebra that says how it went: Cholesky, conjugate gradients and Lanczos quadrature."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from seqgp.exceptions import NotPositiveDefiniteError
from seqgp.inference.cholesky import cholesky

__all__ = ["Solution", "conjugate_gradients", "factorised", "lanczos_logdet"]

Operator = Callable[[Tensor], Tensor]
_JITTERS = (0.0, 1e-14, 1e-12, 1e-10)  # relative to the largest diagonal entry


def factorised(C: Tensor) -> tuple[Tensor, float]:
    """Lower factor of ``C = σ²I + A``, and the jitter it took.

    C is positive definite by construction; but A comes from a sum of signed numbers, and may round
    below zero by 1e-16 of its largest entry, which can be more than a tiny σ².
    """
    largest = float(C.diagonal().max())
    L, jitter = cholesky(C, largest, _JITTERS)
    if L is None:
        raise NotPositiveDefiniteError(
            f"the grid's system of rank {len(C)} could not be factorised even with jitter of "
            f"{_JITTERS[-1]:g} times its largest entry {largest:.1e}: the signal is too many times "
            "the noise. Raise the noise, or lower the kernel's variance"
        )
    return L, jitter


@dataclass(frozen=True)
class Solution:
    """What an iterative solve returns."""

    value: Tensor
    """``(k, n)``, a row per right-hand side."""
    iterations: int
    residual: float
    """Largest of ``‖b - Cx‖ / ‖b‖``, recomputed at the end from its definition."""
    converged: bool


def conjugate_gradients(
    apply: Operator,
    precondition: Operator,
    rhs: Tensor,
    guess: Tensor | None,
    tolerance: float,
    max_iterations: int,
) -> Solution:
    """Solve ``C x = b`` for rows ``rhs`` ``(k, n)``, C symmetric positive definite.

    Args:
        apply: products with C.
        precondition: products with an approximation of its inverse.
        rhs: right-hand sides.
        guess: where to start, in the rows where that beats zero.
        tolerance: relative residual at which to stop.
        max_iterations: at which to give up.

    References:
        Methods of Conjugate Gradients for Solving Linear Systems, Hestenes and Stiefel 1952.
    """
    scale = rhs.norm(dim=1, keepdim=True)
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))
    x, r = torch.zeros_like(rhs), rhs.clone()
    if guess is not None:
        start = rhs - apply(guess)
        better = start.norm(dim=1, keepdim=True) < scale
        x, r = torch.where(better, guess, x), torch.where(better, start, r)
    z = precondition(r)
    p = z.clone()
    rz = (r * z).sum(1, keepdim=True)
    iterations = 0
    while iterations < max_iterations and bool(
        (r.norm(dim=1, keepdim=True) > tolerance * scale).any()
    ):
        iterations += 1
        Cp = apply(p)
        pCp = (p * Cp).sum(1, keepdim=True)
        step = torch.where(pCp > 0, rz / pCp, torch.zeros_like(rz))  # a solved row stays put
        x = x + step * p
        r = r - step * Cp
        z = precondition(r)
        new = (r * z).sum(1, keepdim=True)
        p = z + torch.where(rz > 0, new / rz, torch.zeros_like(rz)) * p
        rz = new
    residual = float(((rhs - apply(x)).norm(dim=1, keepdim=True) / scale).max())
    # The recurrence's residual drifts from the true one by rounding: allow it a factor.
    return Solution(x, iterations, residual, residual <= 10.0 * tolerance)


def lanczos_logdet(apply: Operator, probes: Tensor, max_steps: int) -> tuple[Tensor, float]:
    """``log|B|`` of a symmetric positive definite B, and its standard error over the probes.

    Stops when three more steps change the estimate by less than a hundredth of its own standard
    error over the probes.

    References:
        Fast Estimation of tr(f(A)) via Stochastic Lanczos Quadrature, Ubaru, Chen and Saad 2017.
    """
    n = probes.shape[1]
    q = probes / n**0.5
    basis = [q]
    alphas: list[Tensor] = []
    betas: list[Tensor] = []
    last: Tensor | None = None
    most = min(max_steps, n)
    for step in range(1, most + 1):
        w = apply(q)
        alphas.append((w * q).sum(1))
        for v in basis:  # against all: otherwise rounding brings back directions already seen
            w = w - (w * v).sum(1, keepdim=True) * v
        beta = w.norm(dim=1)
        exhausted = bool((beta <= 1e-10 * alphas[0].abs()).all())
        if exhausted or step % 3 == 0 or step == most:
            estimates = n * _quadrature(alphas, betas)
            error = estimates.std() / len(estimates) ** 0.5
            change = math.inf if last is None else float((estimates - last).mean().abs())
            if exhausted or change <= 0.01 * float(error) + 1e-9:
                break
            last = estimates
        betas.append(beta)
        q = w / beta.clamp_min(1e-300).unsqueeze(1)
        basis.append(q)
    return estimates.mean().to(probes), float(error)


def _quadrature(alphas: list[Tensor], betas: list[Tensor]) -> Tensor:
    """``e₁ᵀ log(T) e₁`` of the tridiagonal matrices, one per probe."""
    T = torch.diag_embed(torch.stack(alphas, 1))
    if len(alphas) > 1:
        side = torch.diag_embed(torch.stack(betas[: len(alphas) - 1], 1), offset=1)
        T = T + side + side.mT
    value, vector = torch.linalg.eigh(T.cpu())  # small: a GPU would only wait
    smallest = torch.finfo(value.dtype).tiny
    estimates: Tensor = (vector[:, 0].square() * value.clamp_min(smallest).log()).sum(1)
    return estimates
