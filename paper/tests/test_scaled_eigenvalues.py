"""The log-determinant by scaled eigenvalues against its formula written out densely."""

from __future__ import annotations

import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import seqgp
from paper.coregional import Given
from paper.scaled_eigenvalues import ScaledEigenvalueGrid
from seqgp.inference import register
from seqgp.inference.grid import Grid
from seqgp.kernels import build_kernel

SIZE = 12


def rows(n: int, dim: int = 2, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Random rows in the closed box, two of them in its corners, with a smooth noisy target."""
    generator = torch.Generator().manual_seed(seed)
    H = 2.0 * torch.rand(n, dim, dtype=torch.float64, generator=generator) - 1.0
    H[0], H[-1] = 1.0, -1.0
    y = torch.sin(2.0 * H.sum(1, keepdim=True))
    return H, y + 0.3 * torch.randn(n, 1, dtype=torch.float64, generator=generator)


def tensor(value: float) -> torch.Tensor:
    return torch.tensor([value], dtype=torch.float64, requires_grad=True)


def condition(H, y, kernel, noise, **options):
    inference = ScaledEigenvalueGrid(options.pop("grid_size", SIZE), **options)
    return inference.posterior(kernel, Given(noise), inference.statistics(H, y))


def dense(kernel, noise, H, y):
    """The NLML with ``W K_UU Wᵀ`` and all eigenvalues of K_UU written out."""
    step = 2.0 / (SIZE - 3)
    axis = -1.0 + step * (torch.arange(SIZE, dtype=torch.float64) - 1.0)
    d = ((H.unsqueeze(-1) - axis) / step).abs()  # Keys' cubic convolution, (n, 2, size)
    far = torch.where(d <= 2, -0.5 * d**3 + 2.5 * d**2 - 4.0 * d + 2.0, 0.0)
    weights = torch.where(d <= 1, 1.5 * d**3 - 2.5 * d**2 + 1.0, far)
    W = (weights[:, 0, :, None] * weights[:, 1, None, :]).flatten(1)
    K_UU = kernel(torch.cartesian_prod(axis, axis)).to_dense()
    n, m = W.shape
    K = W @ K_UU @ W.T + noise * torch.eye(n, dtype=torch.float64)
    fit = y[:, 0] @ torch.linalg.solve(K, y[:, 0])
    values = torch.linalg.eigvalsh(K_UU)[-min(n, m) :]
    logdet = (n / m * values + noise).log().sum() + max(0, n - m) * noise.log().sum()
    return 0.5 * (fit + logdet + n * torch.tensor(2.0 * torch.pi).double().log())


def error(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float(((found - expected).abs().max() / expected.abs().max()).detach())


@pytest.mark.parametrize("n", [300, 60])  # more rows than grid points, and fewer
def test_the_nlml_and_its_slopes_are_those_of_the_formula(n):
    H, y = rows(n)
    kernel, noise = build_kernel("rbf", 2), tensor(0.1)
    post, expected = condition(H, y, kernel, noise), dense(kernel, noise, H, y)
    assert post.diagnostics.method == "grid/iterative"
    assert post.diagnostics.logdet_error == 0.0
    assert error(post.nlml, expected) < 1e-7
    wanted = [*kernel.parameters(), noise]
    found = torch.autograd.grad(post.nlml, wanted)
    for mine, theirs in zip(found, torch.autograd.grad(expected, wanted), strict=True):
        assert error(mine, theirs) < 1e-6


def test_close_to_the_log_determinant_itself_where_rows_fill_the_box():
    H, y = rows(2000)
    kernel, noise = build_kernel("rbf", 2), tensor(0.1)
    with torch.no_grad():
        exact = Grid(SIZE, solver="direct")
        expected = exact.posterior(kernel, Given(noise), exact.statistics(H, y))
        found = condition(H, y, kernel, noise)
    assert float((found.nlml - expected.nlml).abs()) / len(H) < 0.02
    assert error(found.mean(H), expected.mean(H)) < 1e-6  # only the log-determinant is another
    torch.testing.assert_close(found.variance(H), expected.variance(H), rtol=0, atol=1e-6)


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 60),
    dim=st.integers(1, 3),
    name=st.sampled_from(["rbf", "matern12", "matern52", "spectral-mixture", "periodic"]),
    log_noise=st.floats(-6.0, 1.0),
    seed=st.integers(0, 1000),
)
def test_always_finite(n, dim, name, log_noise, seed):
    H, y = rows(n, dim, seed)
    kernel, noise = build_kernel(name, dim, product=True), tensor(1.01 * 10.0**log_noise)
    with warnings.catch_warnings():  # an extreme case may say that it did not converge: it may
        warnings.simplefilter("ignore")
        post = condition(H, y, kernel, noise, grid_size={1: 16, 2: 9, 3: 6}[dim], rank_cap=30)
    slopes = torch.autograd.grad(post.nlml, [*kernel.parameters(), noise])
    assert bool(torch.isfinite(post.nlml))
    assert all(bool(torch.isfinite(s).all()) for s in slopes)
    mean, variance = post.predict(H)
    assert bool(torch.isfinite(mean).all())
    assert bool((variance > 0).all())


def test_a_sum_of_products_is_refused():
    H, y = rows(20)
    kernel = build_kernel("rbf", 2) + build_kernel("matern52", 2, product=True)
    with pytest.raises(ValueError, match="one product"):
        condition(H, y, kernel, tensor(0.1))


@register("grid-scaled-low-rank")
class LowRank(ScaledEigenvalueGrid):
    def __init__(self, grid_size=None):
        super().__init__(grid_size, rank_cap=20)


def test_it_conditions_a_layer():
    H, y = rows(200)
    layer = seqgp.GP("matern12", inference="grid-scaled-low-rank", latent_dim=2, grid_size=SIZE)
    first = layer.condition(H, y[:, 0])
    first.nlml.backward()
    assert all(p.grad is not None for p in layer.parameters())
    again = layer.condition(H, y[:, 0])  # starts from where the first solve ended
    assert again.diagnostics.iterations < first.diagnostics.iterations
    assert error(again.mean(H), first.mean(H)) < 1e-6
