"""What training and prediction see of grid inference: identities, bounds, closeness to exact."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, replace

import pytest
import torch

import seqgp.inference.grid.tables as tables_module
from grid_reference import (
    NOISE,
    Given,
    assert_same_slopes,
    condition,
    dense,
    error,
    make_kernel,
    rows,
)
from seqgp.inference import Exact
from seqgp.inference.grid import Grid, interpolation


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("name", ["rbf", "matern52", "spectral-mixture"])
def test_fisher_identity(dim, name):
    size = {1: 20, 2: 12, 3: 8}[dim]
    H, y = rows(40, dim)
    H.requires_grad_()
    kernel = make_kernel(name, dim)
    expected = torch.autograd.grad(dense(kernel, NOISE, H, y, size, H).nlml, H)[0]
    post = condition(H.detach(), y, kernel, size, solver="direct")
    found = torch.autograd.grad(post.loss(H, y).sum(), H)[0]
    assert error(found, expected) < 1e-7


@pytest.mark.parametrize("name", ["rbf", "matern32"])
def test_the_loss_bounds_the_nlml_and_touches_it_where_conditioned(name):
    H, y = rows(60, 2)
    kernel = make_kernel(name, 2)
    with torch.no_grad():
        post = condition(H, y, kernel, solver="direct")
        constant = post.nlml - post.loss(H, y).sum()
        generator = torch.Generator().manual_seed(3)
        for scale in (1e-3, 1e-2, 1e-1, 1.0):
            for _ in range(5):
                step = scale * torch.randn(H.shape, dtype=torch.float64, generator=generator)
                moved = (H + step).clamp(-1, 1)
                bound = post.loss(moved, y).sum() + constant
                value = condition(moved, y, kernel, solver="direct").nlml
                assert float(value) <= float(bound) + 1e-8
                assert float(bound - value) > 0 or scale < 1e-2


def test_nlml_carries_its_gradient_to_rows_and_targets():
    H, y = rows(30, 2)
    H.requires_grad_()
    y.requires_grad_()
    kernel = make_kernel("rbf", 2)
    post = condition(H, y, kernel, 14)
    assert_same_slopes(post.nlml, dense(kernel, NOISE, H, y, 14, H.detach()).nlml, [H, y], 1e-7)
    assert float(post.nlml.detach()) == float(
        condition(H.detach(), y.detach(), kernel, 14).nlml.detach()
    )


def test_nlml_of_combined_statistics_reaches_all_their_rows():
    H, y = rows(40, 2)
    first, second = H[:25].clone().requires_grad_(), H[25:].clone().requires_grad_()
    inference, kernel = Grid(14), make_kernel("rbf", 2)
    stats = inference.statistics(first, y[:25]) + inference.statistics(second, y[25:])
    found = torch.autograd.grad(
        inference.posterior(kernel, Given(NOISE), stats).nlml, [first, second]
    )
    H.requires_grad_()
    expected = torch.autograd.grad(dense(kernel, NOISE, H, y, 14, H.detach()).nlml, H)[0]
    assert error(torch.cat(found), expected) < 1e-7
    # A row that is removed again has no slope left.
    gone = inference.statistics(first, y[:25]) - inference.statistics(first[:5], y[:5])
    slope = torch.autograd.grad(inference.posterior(kernel, Given(NOISE), gone).nlml, first)[0]
    assert float(slope[:5].abs().max()) < 1e-9 * float(slope.abs().max())


@pytest.mark.parametrize("name", ["rbf", "matern52"])
def test_close_to_the_exact_gp_and_closer_on_a_finer_grid(name):
    H, y = rows(300, 2)
    kernel = make_kernel(name, 2)
    with torch.no_grad():
        exact = Exact().posterior(kernel, Given(NOISE), Exact().statistics(H, y))
        exact = replace(exact, squeeze=True)
        off = [
            abs(float(condition(H, y, kernel, size, solver="direct").nlml - exact.nlml)) / len(H)
            for size in (12, 20, 36)
        ]
    assert off[2] < 1e-3
    assert off[2] < 0.5 * off[1] < 0.25 * off[0]
    if name == "rbf":
        post = condition(H, y, kernel, 36)
        h = rows(50, 2, seed=9)[0]
        assert error(post.mean(h), exact.mean(h)) < 1e-3
        assert error(post.variance(h), exact.variance(h)) < 1e-2


def test_predictions_do_not_depend_on_what_else_is_asked(monkeypatch):
    H, y = rows(200, 2)
    post = condition(H, y)
    h = rows(500, 2, seed=2)[0]
    mean, variance = post.predict(h)
    alone = [post.predict(h[i : i + 1]) for i in range(0, 500, 50)]
    assert torch.allclose(torch.cat([m for m, _ in alone]), mean[::50], rtol=1e-13, atol=1e-14)
    assert torch.allclose(torch.cat([v for _, v in alone]), variance[::50], rtol=1e-12, atol=0)
    monkeypatch.setattr(tables_module, "chunk_rows", lambda *_: 64)
    again = post.predict(h)
    assert torch.allclose(again[0], mean, rtol=1e-13, atol=1e-14)
    assert torch.allclose(again[1], variance, rtol=1e-12, atol=0)
    assert torch.allclose(post.mean(h), mean, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_slopes_in_h_are_those_of_the_values(dim):
    H, y = rows(50, dim, outputs=2)
    noise = torch.tensor([0.1, 0.2], dtype=torch.float64)
    post = condition(H, y, size=9, noise=noise, squeeze=False, kernel=make_kernel("rbf", dim, 2))
    h = (0.9 * rows(6, dim, seed=4)[0]).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: post.predict(x), (h,))
    assert torch.autograd.gradcheck(lambda x: post.mean(x), (h,))


def test_slopes_at_the_border_and_between_cells_are_one_sided_limits():
    H, y = rows(50, 1)
    post = condition(H, y, size=9)
    at = torch.tensor([[1.0], [-1.0], [0.0], [1.0 / 3.0]], dtype=torch.float64, requires_grad=True)
    near = (at.detach() * (1 - 1e-7)).requires_grad_()
    near.data[2] = 1e-7
    slopes = [torch.autograd.grad(sum(p.sum() for p in post.predict(x)), x)[0] for x in (at, near)]
    assert torch.allclose(*slopes, rtol=1e-5)


def test_float32_points_keep_their_gradient():
    H, y = rows(50, 2)
    post = condition(H, y)
    h = H[:5].float().requires_grad_()
    post.loss(h, y[:5, 0]).sum().backward()
    assert h.grad is not None
    assert h.grad.dtype == torch.float32
    assert bool((h.grad != 0).any())
    slope = torch.autograd.grad(post.mean(h).sum(), h)[0]
    exact = h.detach().double().requires_grad_()
    expected = torch.autograd.grad(post.mean(exact).sum(), exact)[0]
    assert torch.equal(slope, expected.float())


def test_independent_outputs_are_independent():
    H, y = rows(60, 2, outputs=2)
    noise = torch.tensor([0.1, 0.3], dtype=torch.float64)
    kernel = make_kernel("rbf", 2, 2)
    kernel.base_kernel.lengthscale = torch.tensor([[[0.4, 0.6]], [[0.8, 0.5]]])
    both = condition(H, y, kernel, noise=noise, squeeze=False)
    total = 0.0
    for o in range(2):
        alone = make_kernel("rbf", 2)
        alone.base_kernel.lengthscale = kernel.base_kernel.lengthscale[o].detach()
        single = condition(H, y[:, o : o + 1], alone, noise=noise[o : o + 1])
        total += single.nlml.detach()
        assert error(both.mean(H)[:, o], single.mean(H)) < 1e-9
        assert error(both.variance(H)[:, o], single.variance(H)) < 1e-9
    assert error(both.nlml, total) < 1e-10


def test_posterior_is_frozen_and_survives_a_copy():
    H, y = rows(50, 2)
    kernel = make_kernel("rbf", 2)
    with torch.no_grad():
        post = condition(H, y, kernel)
    before = post.mean(H)
    kernel.outputscale = 7.0
    H0 = H.clone()
    H.zero_()
    assert torch.equal(post.mean(H0), before)
    for again in (copy.deepcopy(post), pickle.loads(pickle.dumps(post)), replace(post)):
        assert torch.equal(again.mean(H0), before)
        assert torch.equal(again.variance(H0), post.variance(H0))
    with pytest.raises(FrozenInstanceError):
        post.noise = post.noise


def test_inference_mode_first_does_not_break_training_later():
    interpolation.basis.cache_clear()
    interpolation.node_weights.cache_clear()
    H, y = rows(30, 2)
    with torch.inference_mode():
        condition(H, y).predict(H)
    h = H[:4].clone().requires_grad_()
    post = condition(H, y)
    post.loss(h, y[:4, 0]).sum().backward()
    post.prior_covariance(h).sum().backward()
    assert bool(torch.isfinite(h.grad).all())
