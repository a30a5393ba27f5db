"""The iterative path: to its tolerance, and honest about it."""

from __future__ import annotations

import warnings

import pytest
import torch

from grid_reference import NOISE, condition, dense, error, make_kernel, rows
from seqgp.exceptions import TrainingWarning
from seqgp.inference.grid import Grid, iterative
from seqgp.inference.grid.solvers import conjugate_gradients, lanczos_logdet

SIZES = {1: 40, 2: 14, 3: 8}
CAPS = {1: 20, 2: 80, 3: 200}


def spd(n: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    F = torch.randn(n, n, dtype=torch.float64, generator=generator)
    return F @ F.T / n + 0.5 * torch.eye(n, dtype=torch.float64)


def test_conjugate_gradients_solve_and_say_when_they_did_not():
    C = spd(60)
    b = torch.randn(3, 60, dtype=torch.float64)
    b[1] = 0.0
    solution = conjugate_gradients(lambda x: x @ C, lambda r: r, b, None, 1e-10, 200)
    assert solution.converged
    assert 0 < solution.iterations < 200
    assert error(solution.value, torch.linalg.solve(C, b.T).T) < 1e-8
    short = conjugate_gradients(lambda x: x @ C, lambda r: r, b, None, 1e-10, 3)
    assert not short.converged
    assert short.iterations == 3
    assert short.residual > 1e-9
    # A good guess saves work; a bad one is not taken.
    warm = conjugate_gradients(lambda x: x @ C, lambda r: r, b, solution.value, 1e-8, 200)
    assert warm.iterations == 0
    bad = conjugate_gradients(lambda x: x @ C, lambda r: r, b, 1e6 * b, 1e-10, 200)
    assert bad.iterations == solution.iterations


def test_lanczos_log_determinant():
    C = spd(60)
    generator = torch.Generator().manual_seed(1)
    signs = 2.0 * torch.randint(0, 2, (64, 60), generator=generator) - 1.0
    found, spread = lanczos_logdet(lambda x: x @ C, signs.double(), max_steps=60)
    assert abs(float(found - torch.logdet(C))) < 4.0 * spread
    assert 0.0 < spread < 2.0
    # Of a multiple of the identity there is nothing to estimate.
    plain, spread = lanczos_logdet(lambda x: 2.0 * x, signs.double(), max_steps=60)
    assert float(plain) == pytest.approx(60 * 0.6931471805599453)
    assert spread < 1e-9


@pytest.mark.parametrize(
    ("name", "dim", "outputs"),
    [
        ("rbf", 1, 1),
        ("matern12", 1, 1),
        ("matern32", 2, 1),
        ("rbf", 2, 2),
        ("sum", 2, 1),
        ("matern52", 3, 1),
    ],
)
def test_iterative_equals_dense_to_its_tolerance(name, dim, outputs):
    H, y = rows(300, dim, outputs)
    h = rows(20, dim, seed=1)[0]
    kernel = make_kernel(name, dim, outputs)
    noise = torch.full((outputs,), 0.1, dtype=torch.float64, requires_grad=True)
    expected = dense(kernel, noise, H, y, SIZES[dim], h)
    options = {"solver": "iterative", "rank_cap": CAPS[dim], "probes": 64}
    post = condition(H, y, kernel, SIZES[dim], noise, squeeze=False, **options)
    diagnostics = post.diagnostics
    assert diagnostics.method == "grid/iterative"
    assert diagnostics.status.startswith("converged")
    assert diagnostics.iterations > 0
    assert diagnostics.residual <= 1e-7
    assert error(post.mean(h), expected.mean) < 1e-6
    off = abs(float((post.nlml - expected.nlml).detach()))
    assert off < 4.0 * diagnostics.logdet_error + 1e-6
    assert diagnostics.logdet_error / len(H) < 0.01
    # The stochastic slopes: each to a fraction of the size that the trace alone has.
    wanted = [*kernel.parameters(), noise]
    scale = trace_slopes_size(kernel, noise, H, SIZES[dim], wanted)
    found = torch.autograd.grad(post.nlml, wanted)
    for mine, theirs, size in zip(
        found, torch.autograd.grad(expected.nlml, wanted), scale, strict=True
    ):
        assert float((mine - theirs).abs().max()) < 0.2 * size
    variance = expected.covariance.diagonal(dim1=-2, dim2=-1).T
    assert bool((post.variance(h) >= variance - 1e-9).all())  # never claims more than the data say
    assert bool((post.variance(h) <= expected.prior.diagonal(dim1=-2, dim2=-1).T + 1e-9).all())
    own = post.covariance(h).diagonal(dim1=-2, dim2=-1).T
    assert error(post.variance(h), own) < 1e-9


def trace_slopes_size(kernel, noise, H, size, wanted) -> list[float]:
    """Largest slopes of ``½ log|K|``: the natural unit of the sampling error."""
    zero = torch.zeros(len(H), len(noise), dtype=torch.float64)
    slopes = torch.autograd.grad(dense(kernel, noise, H, zero, size, H[:1]).nlml, wanted)
    return [float(s.abs().max()) for s in slopes]


@pytest.mark.parametrize(("name", "dim"), [("sum", 2), ("matern52", 3)])
def test_stochastic_slopes_are_unbiased(name, dim):
    H, y = rows(200, dim)
    kernel, noise = make_kernel(name, dim), NOISE.clone().requires_grad_()
    wanted = [*kernel.parameters(), noise]
    size = SIZES[dim] - 2
    exact = torch.autograd.grad(dense(kernel, noise, H, y, size, H[:1]).nlml, wanted)
    samples = []
    for seed in range(12):
        post = condition(H, y, kernel, size, noise, solver="iterative", rank_cap=40, seed=seed)
        samples.append(torch.cat([g.flatten() for g in torch.autograd.grad(post.nlml, wanted)]))
    found = torch.stack(samples)
    off = found.mean(0) - torch.cat([g.flatten() for g in exact])
    assert bool((off.abs() < 4.0 * found.std(0) / 12**0.5).all())


def test_more_directions_resolve_more_variance():
    H, y = rows(300, 2)
    h = rows(30, 2, seed=1)[0]
    kernel = make_kernel("matern32", 2)
    with torch.no_grad():
        truth = dense(kernel, NOISE, H, y, 14, h).covariance[0].diagonal()
        gaps = []
        for cap in (10, 40, 150):
            post = condition(H, y, kernel, 14, solver="iterative", rank_cap=cap)
            gaps.append(float((post.variance(h) - truth).mean()))
    assert gaps[0] > gaps[1] > gaps[2] > 0
    assert gaps[2] < 0.1 * float(truth.mean())


def test_the_same_seed_gives_the_same_numbers_and_another_does_not():
    H, y = rows(200, 2)
    kernel = make_kernel("matern12", 2)

    def nlml(seed):
        with torch.no_grad():
            post = condition(H, y, kernel, 14, solver="iterative", rank_cap=20, seed=seed)
        return float(post.nlml)

    assert nlml(0) == nlml(0)
    assert nlml(0) != nlml(1)


def test_a_refresh_starts_from_the_last_solution():
    H, y = rows(300, 2)
    kernel = make_kernel("matern12", 2)
    inference = Grid(16, solver="iterative", rank_cap=20)
    cold = condition(H, y, kernel, inference=inference)
    moved = (H + 1e-4 * torch.randn_like(H)).clamp(-1, 1)
    warm = condition(moved, y, kernel, inference=inference)
    again = condition(moved, y, kernel, 16, solver="iterative", rank_cap=20)
    assert warm.diagnostics.iterations < again.diagnostics.iterations
    assert error(warm.mean(H), again.mean(H)) < 1e-6
    assert error(cold.mean(H), again.mean(H)) > 1e-6  # the first posterior did not change
    inference.restart()
    anew = condition(moved, y, kernel, inference=inference)
    assert torch.equal(anew.nlml, again.nlml)


def test_no_convergence_is_not_silent(monkeypatch):
    H, y = rows(300, 2)
    kernel = make_kernel("matern12", 2)
    monkeypatch.setattr(iterative, "MAX_ITERATIONS", 2)
    with pytest.warns(TrainingWarning, match="stopped after 2 iterations"):
        post = condition(H, y, kernel, 16, solver="iterative", rank_cap=5)
    assert post.diagnostics.status.startswith("max iterations")
    assert post.diagnostics.residual > 1e-7
    assert post.diagnostics.iterations == 2
    monkeypatch.undo()
    with warnings.catch_warnings():
        warnings.simplefilter("error", TrainingWarning)
        condition(H, y, kernel, 16, solver="iterative", rank_cap=5)
