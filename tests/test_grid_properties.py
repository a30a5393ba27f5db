"""Whatever comes in: finite, symmetric, never a negative variance; or a refusal that says why."""

from __future__ import annotations

import warnings

import gpytorch
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grid_reference import NOISE, condition, make_kernel, rows
from seqgp.exceptions import NotPositiveDefiniteError
from seqgp.inference.grid import Grid, GridSpec, estimate_cost
from seqgp.kernels import build_kernel

SIZES = {1: 16, 2: 9, 3: 6}
LAYOUTS = ["random", "duplicated", "border", "corners", "equal", "line"]


def lay_out(layout: str, n: int, dim: int, generator: torch.Generator) -> torch.Tensor:
    H = 2.0 * torch.rand(n, dim, dtype=torch.float64, generator=generator) - 1.0
    if layout == "duplicated":
        H = H[torch.arange(n) // 3]
    elif layout == "border":
        H[:, 0] = H[:, 0].sign()
    elif layout == "corners":
        H = torch.where(H >= 0, 1.0, -1.0).double()
    elif layout == "equal":
        H = H[:1].expand(n, dim).clone()
    elif layout == "line":
        H = H[:, :1].expand(n, dim).clone()
    return H


@settings(max_examples=150, deadline=None)
@given(
    n=st.integers(1, 60),
    dim=st.integers(1, 3),
    layout=st.sampled_from(LAYOUTS),
    name=st.sampled_from(
        ["rbf", "matern12", "matern32", "matern52", "spectral-mixture", "periodic"]
    ),
    lengthscale=st.floats(0.02, 20.0),
    log_noise=st.floats(-6.0, 1.0),
    scale=st.sampled_from([1e-6, 1.0, 1e4]),
    solver=st.sampled_from(["auto", "direct", "iterative"]),
    seed=st.integers(0, 1000),
)
def test_always_finite_symmetric_and_non_negative(
    n, dim, layout, name, lengthscale, log_noise, scale, solver, seed
):
    generator = torch.Generator().manual_seed(seed)
    H = lay_out(layout, n, dim, generator)
    y = torch.randn(n, 1, dtype=torch.float64, generator=generator)
    kernel = make_kernel(name, dim)
    if name == "spectral-mixture":
        kernel.mixture_weights = torch.full_like(kernel.mixture_weights, 0.25 * scale ** (1 / dim))
    else:
        kernel.base_kernel.lengthscale = lengthscale
        kernel.outputscale = scale
    noise = torch.tensor([1.01 * 10.0**log_noise], dtype=torch.float64, requires_grad=True)
    with warnings.catch_warnings():  # an extreme case may say that it did not converge: it may
        warnings.simplefilter("ignore")
        post = condition(H, y, kernel, SIZES[dim], noise, solver=solver, rank_cap=30)
    slopes = torch.autograd.grad(post.nlml, [*kernel.parameters(), noise])
    assert bool(torch.isfinite(post.nlml))
    assert all(bool(torch.isfinite(s).all()) for s in slopes)
    h = torch.cat(
        [H[:10], lay_out("border", 10, dim, generator), lay_out("random", 10, dim, generator)]
    )
    h.requires_grad_()
    mean, variance = post.predict(h)
    assert bool(torch.isfinite(mean).all())
    assert bool((variance > 0).all())
    loss = post.loss(h, torch.zeros(len(h)))
    assert bool(torch.isfinite(torch.autograd.grad(loss.sum(), h)[0]).all())
    covariance = post.covariance(h)[0].detach()
    assert torch.allclose(covariance, covariance.T, rtol=1e-9, atol=1e-9 * scale)
    prior = post.prior_covariance(h)[0].detach()
    assert torch.allclose(prior, prior.T)
    # Rounding is relative to the signal, and is felt relative to the noise.
    slack = 1e-6 + 1e-14 * n * scale / float(noise.detach())
    assert bool((variance <= prior.diagonal() * (1 + slack) + 1e-9 * scale).all())


@settings(max_examples=25, deadline=None)
@given(dim=st.integers(1, 3), split=st.integers(1, 29), seed=st.integers(0, 100))
def test_statistics_are_a_sum_over_rows(dim, split, seed):
    H, y = rows(30, dim, seed=seed)
    inference = Grid(SIZES[dim])
    order = torch.randperm(30, generator=torch.Generator().manual_seed(seed))
    parts = inference.statistics(H[order[:split]], y[order[:split]]) + inference.statistics(
        H[order[split:]], y[order[split:]]
    )
    whole = inference.statistics(H, y)
    assert torch.allclose(parts.nodes, whole.nodes, atol=1e-12)
    assert torch.allclose(parts.b, whole.b, atol=1e-12)


# Refusals


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (gpytorch.kernels.MaternKernel(nu=2.5), "ProductMatern"),
        (gpytorch.kernels.ScaleKernel(gpytorch.kernels.RQKernel()), "function of the distance"),
        (gpytorch.kernels.LinearKernel(), "not stationary"),
        (gpytorch.kernels.PolynomialKernel(power=2), "inference='exact'"),
        (gpytorch.kernels.RBFKernel() + gpytorch.kernels.LinearKernel(), "not stationary"),
        (gpytorch.kernels.RBFKernelGrad(), "function of the distance"),
    ],
)
def test_kernels_that_are_no_products_are_refused_with_the_reason(kernel, reason):
    H, y = rows(10, 2)
    with pytest.raises(ValueError, match=reason):
        condition(H, y, kernel.double(), 10)


def test_a_radial_kernel_is_fine_in_one_dimension():
    H, y = rows(20, 1)
    radial = condition(H, y, build_kernel("matern52", 1))
    product = condition(H, y, build_kernel("matern52", 1, product=True))
    assert float(radial.nlml.detach()) == pytest.approx(float(product.nlml.detach()), rel=1e-10)


def test_too_many_dimensions_and_too_large_grids_are_refused_before_allocation():
    H, y = rows(10, 5)
    with pytest.raises(ValueError, match=r"1 to 4 latent dimensions, got 5.*inference='exact'"):
        Grid().statistics(H, y)
    with pytest.raises(ValueError, match=r"GiB.*smaller grid_size.*fewer latent dimensions"):
        Grid(60).statistics(*rows(10, 4))
    with pytest.raises(ValueError, match="GiB"):
        Grid(4000).statistics(*rows(10, 2))


def test_default_grids_pass_their_own_estimate():
    for dim in range(1, 5):
        stats = Grid().statistics(*rows(5, dim))
        assert stats.spec.dim == dim
        cost = estimate_cost(dim, stats.spec.size)
        assert 8 * stats.nodes.numel() < cost.bytes < 2**31


def test_estimates_grow_with_everything():
    base = estimate_cost(2, 50)
    assert estimate_cost(2, 100).bytes > base.bytes
    assert estimate_cost(3, 50).flops > base.flops
    assert estimate_cost(2, 50, outputs=4).bytes > base.bytes
    assert estimate_cost(2, 50, rank=800).flops > base.flops


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"solver": "magic"}, "magic.*iterative"),
        ({"grid_size": 3}, "too small"),
        ({"probes": 1}, "at least 2"),
        ({"tolerance": 0.0}, "above 0"),
    ],
)
def test_bad_options_are_refused(options, reason):
    with pytest.raises(ValueError, match=reason):
        Grid(**options)


def test_bad_specs_points_and_kernels_are_refused():
    with pytest.raises(ValueError, match="does not exist"):
        GridSpec(2, 3)
    H, y = rows(10, 2)
    with pytest.raises(ValueError, match=r"H reaches 2.*box"):
        Grid(10).statistics(2.0 * H, y)
    post = condition(H, y, size=10)
    with pytest.raises(ValueError, match=r"h reaches 1\.5.*box"):
        post.predict(torch.tensor([[0.0, 1.5]]))
    with pytest.raises(ValueError, match="h reaches nan"):
        post.mean(torch.tensor([[0.0, float("nan")]]))
    with pytest.raises(ValueError, match=r"expected \(n, 2\)"):
        post.mean(torch.zeros(3, 1))
    broken = build_kernel("rbf", 2)
    broken.raw_outputscale.data.fill_(float("nan"))
    with pytest.raises(NotPositiveDefiniteError, match="not finite"):
        condition(H, y, broken, 10)
    assert post.mean(torch.zeros(0, 2)).shape == (0,)


def test_an_unresolved_lengthscale_is_reported():
    H, y = rows(30, 2)
    step = 2.0 / 17.0
    for factor, resolved in ((1.9, False), (2.1, True)):
        kernel = build_kernel("rbf", 2)
        kernel.base_kernel.lengthscale = torch.tensor([[1.0, factor * step]])
        diagnostics = condition(H, y, kernel).diagnostics
        assert diagnostics.resolved is resolved
        assert diagnostics.status.endswith("unresolved") is not resolved
        assert diagnostics.grid_size == 20
        assert diagnostics.n == 30


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device at hand")
def test_cuda_gives_the_same_numbers():
    H, y = rows(500, 2)
    kernel = build_kernel("rbf", 2)
    for solver in ("direct", "iterative"):
        found = []
        for device in ("cpu", "cuda"):
            own, s2 = kernel.to(device), NOISE.to(device).clone().requires_grad_()
            on = H.to(device), y.to(device)
            post = condition(*on, own, noise=s2, solver=solver, rank_cap=30)
            slopes = torch.autograd.grad(post.nlml, [*own.parameters(), s2])
            h = H[:50].to(device)
            parts = [post.nlml, *slopes, *post.predict(h), post.covariance(h)]
            found.append([p.detach().cpu() for p in parts])
        for mine, theirs in zip(*found, strict=True):
            assert torch.allclose(mine, theirs, rtol=1e-6, atol=1e-8)
