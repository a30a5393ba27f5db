"""Direct grid inference against the dense ``W K_UU Wᵀ + σ²I`` formulas, and GPyTorch's own."""

from __future__ import annotations

import math

import gpytorch
import pytest
import torch

from grid_reference import (
    NOISE,
    Given,
    assert_same_slopes,
    condition,
    dense,
    error,
    grid_axis,
    make_kernel,
    rows,
)
from seqgp.inference.grid import Grid

SIZES = {1: 24, 2: 12, 3: 8}
EXACT = 1e-7

ALL = ["rbf", "matern12", "matern32", "matern52", "spectral-mixture", "periodic"]
CASES = [
    *[(name, dim, 1) for name in ALL for dim in (1, 2, 3)],
    *[(name, 2, 1) for name in ("sum", "per-dimension", "one-dimension", "constant")],
    ("rbf", 2, 3),
    ("sum", 2, 2),
    ("spectral-mixture", 1, 2),
]


@pytest.mark.parametrize(("name", "dim", "outputs"), CASES)
def test_all_quantities_equal_the_dense_formulas(name, dim, outputs):
    H, y = rows(45, dim, outputs)
    H.requires_grad_()
    h = rows(12, dim, seed=1)[0]
    kernel = make_kernel(name, dim, outputs)
    noise = torch.linspace(0.05, 0.2, outputs, dtype=torch.float64).requires_grad_()
    expected = dense(kernel, noise, H, y, SIZES[dim], h)
    post = condition(H, y, kernel, SIZES[dim], noise, squeeze=False, solver="direct")

    assert error(post.nlml, expected.nlml) < EXACT
    assert_same_slopes(post.nlml, expected.nlml, [*kernel.parameters(), noise, H], EXACT)
    mean, variance = post.predict(h)
    assert mean.shape == variance.shape == (12, outputs)
    assert error(mean, expected.mean) < EXACT
    assert error(variance, expected.covariance.diagonal(dim1=-2, dim2=-1).T) < EXACT
    assert error(post.covariance(h), expected.covariance) < EXACT
    assert error(post.prior_covariance(h), expected.prior) < EXACT


def test_four_dimensions():
    H, y = rows(30, 4)
    h = rows(6, 4, seed=1)[0]
    kernel = make_kernel("rbf", 4)
    noise = NOISE.clone().requires_grad_()
    expected = dense(kernel, noise, H, y, 5, h)
    post = condition(H, y, kernel, 5, noise, squeeze=False, solver="direct")
    assert error(post.nlml, expected.nlml) < EXACT
    assert_same_slopes(post.nlml, expected.nlml, [*kernel.parameters(), noise], EXACT)
    assert error(post.variance(h), expected.covariance[0].diagonal().unsqueeze(1)) < EXACT


def test_tiny_noise():
    H, y = rows(60, 2)
    kernel, h = make_kernel("rbf", 2), rows(10, 2, seed=1)[0]
    noise = torch.tensor([1e-6], dtype=torch.float64, requires_grad=True)
    expected = dense(kernel, noise, H, y, 16, h)
    post = condition(H, y, kernel, 16, noise, solver="direct")
    # The problem itself has a condition number of 1e8 here.
    assert error(post.nlml, expected.nlml) < 1e-6
    assert_same_slopes(post.nlml, expected.nlml, [*kernel.parameters(), noise], 1e-5)
    assert bool((post.variance(h) > 0).all())


@pytest.mark.parametrize("dim", [1, 2])
def test_equal_to_gpytorch_grid_interpolation(dim):
    size = SIZES[dim]
    H, y = rows(40, dim)
    kernel = make_kernel("rbf", dim)
    theirs = gpytorch.kernels.GridInterpolationKernel(
        kernel, grid_size=size, num_dims=dim, grid_bounds=[(-1.0, 1.0)] * dim
    ).double()
    theirs.update_grid([grid_axis(size)] * dim)
    K = theirs(H).to_dense() + NOISE * torch.eye(len(H), dtype=torch.float64)
    log_prob = torch.distributions.MultivariateNormal(torch.zeros(len(H), dtype=torch.float64), K)
    post = condition(H, y, kernel, size, solver="direct")
    assert error(post.nlml, -log_prob.log_prob(y[:, 0])) < EXACT
    assert error(post.prior_covariance(H), theirs(H).to_dense().unsqueeze(0)) < EXACT


def test_truncation_error_stays_within_the_tolerance():
    H, y = rows(300, 2)

    def nlml(tolerance):
        post = condition(H, y, solver="direct", tolerance=tolerance)
        return float(post.nlml.detach()), post.diagnostics

    best, full = nlml(1e-14)
    for tolerance in (1e-8, 1e-6, 1e-4):
        value, diagnostics = nlml(tolerance)
        assert diagnostics.rank < full.rank
        assert diagnostics.dropped <= tolerance
        # The bound holds on average over the box; the rows are a sample of it.
        assert abs(value - best) / len(H) <= 2.0 * tolerance


def test_auto_caps_the_rank_when_little_is_lost_and_iterates_when_much_is():
    H, y = rows(200, 2)
    few = condition(H, y, rank_cap=90)
    assert few.diagnostics.method == "grid/direct"
    assert few.diagnostics.rank == 90
    assert 1e-9 < few.diagnostics.dropped < 1e-4
    rough = condition(H, y, make_kernel("matern12", 2), rank_cap=90)
    assert rough.diagnostics.method == "grid/iterative"
    assert abs(float((few.nlml - condition(H, y).nlml).detach())) / 200 < 1e-4


def test_theta_by_lbfgs_on_the_statistics_alone():
    H, y = rows(400, 2)
    kernel = make_kernel("rbf", 2)
    raw = torch.tensor([math.log(0.5)], dtype=torch.float64, requires_grad=True)
    inference = Grid(24)
    stats = inference.statistics(H, y)
    H.zero_()  # the rows are gone: nothing below may look at them
    parameters = [*kernel.parameters(), raw]
    optimiser = torch.optim.LBFGS(parameters, max_iter=40, line_search_fn="strong_wolfe")

    def closure():
        optimiser.zero_grad()
        value = inference.posterior(kernel, Given(raw.exp()), stats).nlml
        value.backward()
        return value

    start = float(closure())
    optimiser.step(closure)
    assert float(closure()) < start - 10
    assert max(float(p.grad.abs().max()) for p in parameters) < 0.1
    assert float(raw.exp().detach()) == pytest.approx(0.09, rel=0.25)  # the noise that was added
