"""The grid's own loss against the general one, by autograd through means and variances."""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from grid_reference import condition, error, make_kernel, rows
from paper.coregional import CorrelatedGP, decoupled
from seqgp.inference.grid import GridSpec, interpolation, tables
from seqgp.inference.posterior import Posterior

SIZE = {1: 15, 2: 11, 3: 8}


@pytest.fixture(params=["cpu", "cuda"])
def path(request, monkeypatch):
    """Both ways of contracting rows, on the CPU: what a GPU takes is arithmetic like any other."""
    if request.param == "cuda":
        monkeypatch.setattr(
            tables,
            "_with_slopes",
            lambda own, h, y, weight: tables._combine(
                *tables._one_contraction(own, h), y, own.floor, weight
            ),
        )
    return request.param


def make(dim, outputs):
    H, y = rows(60, dim, outputs)
    noise = 0.05 * torch.arange(1.0, outputs + 1.0, dtype=torch.float64)
    kernel = make_kernel("rbf", dim, outputs)
    return condition(H, y, kernel, SIZE[dim], noise, squeeze=False), H, y


def points(dim, n=40):
    """Inside, in corners, on borders of cells, and where both meet."""
    h = rows(n, dim, seed=5)[0]
    borders = -1.0 + 2.0 * torch.arange(SIZE[dim] - 2, dtype=torch.float64) / (SIZE[dim] - 3)
    on = borders.clamp(-1.0, 1.0).unsqueeze(1).repeat(1, dim)
    mixed = on.clone()
    mixed[:, 0] = h[: len(on), 0]
    return torch.cat([h, on, -on.flip(0), mixed])


def with_slope(loss, h, y):
    h = h.clone().requires_grad_()
    found = loss(h, y)
    weights = torch.linspace(0.5, 2.0, len(h), dtype=torch.float64)
    return found.detach(), torch.autograd.grad((weights * found).sum(), h)[0]


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("outputs", [1, 3])
def test_equals_the_general_loss(dim, outputs, path):
    post, _, _ = make(dim, outputs)
    h = points(dim)
    y = torch.linspace(-2.0, 2.0, len(h) * outputs, dtype=torch.float64).reshape(-1, outputs)
    value, slope = with_slope(post.loss, h, y)
    expected, expected_slope = with_slope(lambda x, t: Posterior.loss(post, x, t), h, y)
    assert value.shape == (len(h),)
    assert torch.allclose(value, expected, rtol=1e-12, atol=0)
    assert error(slope, expected_slope) < 1e-12


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_slopes_are_those_of_the_values(dim, path):
    post, _, _ = make(dim, 2)
    h = (0.9 * rows(6, dim, seed=4)[0]).requires_grad_()
    y = rows(6, dim, 2, seed=6)[1]
    assert torch.autograd.gradcheck(lambda x: post.loss(x, y), (h,))


def test_in_chunks(path, monkeypatch):
    post, H, y = make(2, 2)
    whole = with_slope(post.loss, H, y)
    monkeypatch.setattr(tables, "chunk_rows", lambda *_: 7)
    for found, expected in zip(with_slope(post.loss, H, y), whole, strict=True):
        assert error(found, expected) < 1e-13
    h, t = H.clone().requires_grad_(), y.clone().requires_grad_()
    slope = torch.autograd.grad(post.loss(h, t).sum(), t)[0]
    assert error(slope, (y - post.mean(H)) / post.noise) < 1e-12


def test_a_variance_below_its_bound_counts_as_the_bound(path):
    post, H, y = make(2, 1)
    post.tables.floor.fill_(10.0)
    value, slope = with_slope(post.loss, H, y)
    expected, expected_slope = with_slope(lambda x, t: Posterior.loss(post, x, t), H, y)
    assert torch.allclose(value, expected, rtol=1e-12, atol=0)
    assert error(slope, expected_slope) < 1e-12


def test_float32_points_and_flat_targets(path):
    H, y = rows(50, 2)
    post = condition(H, y)
    value, slope = with_slope(post.loss, H.float(), y[:, 0].float())
    exact, exact_slope = with_slope(post.loss, H.float().double(), y.float())
    assert (value.dtype, slope.dtype) == (torch.float64, torch.float32)
    assert torch.equal(value, exact)
    assert torch.equal(slope, exact_slope.float())


def test_no_rows():
    post, _, _ = make(2, 1)
    value, slope = with_slope(
        post.loss, torch.zeros(0, 2, dtype=torch.float64), torch.zeros(0, 1, dtype=torch.float64)
    )
    assert (value.shape, slope.shape) == ((0,), (0, 2))


@pytest.mark.parametrize("outputs", [1, 3])
def test_slope_in_the_targets(outputs, path):
    """Of each row its own, the same as by autograd through the mean, and of finite differences."""
    post, _, _ = make(2, outputs)
    h = points(2)
    y = torch.linspace(-2.0, 2.0, len(h) * outputs, dtype=torch.float64).reshape(-1, outputs)
    weights = torch.linspace(0.5, 2.0, len(h), dtype=torch.float64)

    def slopes(loss):
        at = [h.clone().requires_grad_(), y.clone().requires_grad_()]
        return torch.autograd.grad((weights * loss(*at)).sum(), at)

    found, expected = slopes(post.loss), slopes(lambda x, t: Posterior.loss(post, x, t))
    for ours, theirs in zip(found, expected, strict=True):
        assert error(ours, theirs) < 1e-12
    inside = (0.9 * rows(6, 2, seed=4)[0]).requires_grad_()
    assert torch.autograd.gradcheck(post.loss, (inside, y[:6].clone().requires_grad_()))


def test_slope_in_the_targets_leaves_the_one_in_the_points_alone(path):
    """It is worked out when asked for only; through an offset, and in float32, it reaches a network."""
    post, H, y = make(2, 2)
    alone = with_slope(post.loss, H, y)
    both = with_slope(lambda h, t: post.loss(h, t.clone().requires_grad_()), H, y)
    for ours, theirs in zip(both, alone, strict=True):
        assert torch.equal(ours, theirs)
    h, offset = H.clone().requires_grad_(), torch.full((len(H), 2), 0.3, requires_grad=True)
    found = torch.autograd.grad(post.loss(h, y - offset).sum(), offset)[0]
    assert found.dtype == torch.float32
    assert error(found, -(y - 0.3 - post.mean(H)) / post.noise) < 1e-6
    fixed = torch.autograd.grad(post.loss(H, y - offset).sum(), offset)[0]  # points without a graph
    assert error(fixed, found) < 1e-6


def test_correlated_outputs_have_it_too(path):
    H, y = rows(60, 2, 2)
    post = CorrelatedGP(inference="grid", latent_dim=2, grid_size=11, outputs=2).condition(H, y)
    independent, targets = decoupled(post, y)
    assert not targets.requires_grad
    found = with_slope(post.loss, H, y)
    expected = with_slope(lambda x, t: Posterior.loss(independent, x, t), H, targets)
    for ours, theirs in zip(found, expected, strict=True):
        assert error(ours, theirs) < 1e-12


def test_wrong_points_are_named():
    post, H, y = make(2, 1)
    with pytest.raises(ValueError, match="expected points inside the box"):
        post.loss((2.0 * H).requires_grad_(), y)
    with pytest.raises(ValueError, match=r"expected \(n, 2\)"):
        post.loss(H[:, :1].clone().requires_grad_(), y)


@pytest.mark.parametrize("cells", [1, 2, 7, 97])
def test_a_search_finds_the_cells_that_arithmetic_finds(cells):
    spec = GridSpec(1, cells + 3)
    inside = torch.rand(500, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    h = torch.cat([2.0 * inside - 1.0, torch.tensor([[1.0], [-1.0]], dtype=torch.float64)])
    cell, s = spec.locate(h)
    x = cells * (h + 1.0) - 1.0
    assert torch.equal(
        torch.bucketize(x, interpolation._sequence(1, 2 * cells - 1, 2, x.device), right=True), cell
    )
    assert float(s.abs().max()) <= 1.0 + 1e-13
    assert torch.allclose((cell + 0.5 + 0.5 * s) * spec.spacing - 1.0, h, rtol=0, atol=1e-14)
    assert (int(cell[-2]), float(s[-2])) == (cells - 1, 1.0)
    assert (int(cell[-1]), float(s[-1])) == (0, -1.0)


class _Kernels(TorchDispatchMode):
    """Counts operations that compute; on a GPU each is a launch."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name
        self.count += not (func.is_view or "empty" in name or "_unsafe_view" in name)
        return func(*args, **(kwargs or {}))


def test_few_kernels(path):
    """A mini-batch on a GPU takes as long as it takes to launch them."""
    post, H, y = make(2, 1)
    h = H.float().requires_grad_()
    post.loss(h, y).mean().backward()
    with _Kernels() as forward:
        found = post.loss(h, y).mean()
    with _Kernels() as backward:
        found.backward()
    assert forward.count <= 27
    assert backward.count <= 4  # with the ones it starts from, and the sum into h.grad
