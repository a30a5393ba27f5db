"""Interpolation, streaming statistics, and the tables they end in."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest
import torch

from grid_reference import (
    NOISE,
    Given,
    condition,
    dense_interp,
    error,
    grid_axis,
    make_kernel,
    rows,
)
from seqgp.inference.grid import Grid, GridSpec, statistics
from seqgp.inference.grid.interpolation import at_nodes, from_nodes, interp, weights
from seqgp.inference.grid.kernel_matrix import eigenpairs, toeplitz
from seqgp.inference.grid.prior import bilinear_slopes, diagonal_sums, kronecker_product
from seqgp.inference.grid.statistics import Stencil, band, band_at_nodes

SIZES = {1: 17, 2: 10, 3: 7, 4: 5}


def full(S: Stencil, size: int, dim: int) -> torch.Tensor:
    """A dense matrix by products with unit vectors."""
    eye = torch.eye(size**dim, dtype=torch.float64).reshape(-1, *(size,) * dim)
    return (S @ eye).flatten(1)


@pytest.mark.parametrize("dim", [1, 2, 3, 4])
def test_statistics_are_the_dense_products(dim):
    H, y = rows(60, dim, outputs=2)
    stats = Grid(SIZES[dim]).statistics(H, y)
    W = dense_interp(H, SIZES[dim])
    assert error(full(stats.operator, SIZES[dim], dim), W.T @ W) < 1e-12
    assert error(stats.b.flatten(1), (W.T @ y).T) < 1e-12
    assert error(stats.yy, y.T @ y) < 1e-12
    assert stats.n == 60


def test_interpolation_matrix_is_exact_at_grid_points_and_sums_to_one():
    axis = grid_axis(13)[1:-1].unsqueeze(1)  # those in the box
    at_points = interp(GridSpec(1, 13), axis)[0]
    assert error(at_points, torch.eye(13, dtype=torch.float64)[1:-1]) < 1e-12
    h = rows(50, 1)[0]
    assert error(interp(GridSpec(1, 13), h)[0].sum(1), torch.ones(50)) < 1e-14
    assert error(interp(GridSpec(1, 13), h)[0], dense_interp(h, 13)) < 1e-12


def test_interpolation_reproduces_quadratics():
    h = rows(50, 1)[0]
    for power in range(3):
        values = interp(GridSpec(1, 13), h)[0] @ grid_axis(13) ** power
        assert error(values, h[:, 0] ** power) < 1e-12


def test_weights_have_the_slopes_of_keys_and_meet_smoothly_between_cells():
    s = torch.linspace(-1, 1, 9, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(weights, (s,))
    left, right = (torch.tensor([v], dtype=torch.float64, requires_grad=True) for v in (1.0, -1.0))
    end, start = (
        torch.autograd.functional.jacobian(weights, left),
        torch.autograd.functional.jacobian(weights, right),
    )
    # The right end of a cell is the left end of the next, whose stencil starts one point later.
    assert torch.allclose(end.flatten()[1:], start.flatten()[:3])
    assert abs(float(end.flatten()[0])) < 1e-14


def test_nodes_and_their_adjoint():
    u = torch.randn(11, 3, dtype=torch.float64)
    x = torch.randn(6 * 8 + 1, 3, dtype=torch.float64)
    assert float((at_nodes(u) * x).sum()) == pytest.approx(float((u * from_nodes(x)).sum()))
    # Every sixth node is a grid point.
    assert error(at_nodes(u)[::6], u[1:-1]) < 1e-12


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_a_band_evaluated_at_nodes_is_the_quadratic_form_there(dim):
    size = SIZES[dim]
    F = torch.randn(5, *(size,) * dim, dtype=torch.float64)
    values = band_at_nodes(band(F))
    W = F
    for _ in range(dim):  # interpolate one axis at a time; it goes to the back
        moved = W.movedim(1, 0)
        W = at_nodes(moved.flatten(1)).unflatten(1, moved.shape[1:]).movedim(0, -1)
    assert error(values, W.square().sum(0)) < 1e-12


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_statistics_add_and_subtract(dim):
    H, y = rows(80, dim, outputs=2)
    inference = Grid(SIZES[dim])
    whole, first, second = (
        inference.statistics(H[i], y[i]) for i in (slice(80), slice(30), slice(30, 80))
    )
    for found, expected in ((first + second, whole), (whole - second, first)):
        assert found.n == expected.n
        assert error(found.nodes, expected.nodes) < 1e-12
        assert error(found.b, expected.b) < 1e-12
        assert error(found.yy, expected.yy) < 1e-12


def test_a_removed_row_is_as_if_it_had_never_been():
    H, y = rows(50, 2)
    inference, kernel = Grid(14), make_kernel("rbf", 2)
    without = inference.statistics(H, y) - inference.statistics(H[7:8], y[7:8])
    keep = torch.arange(50) != 7
    expected = condition(H[keep], y[keep], kernel, inference=inference)
    found = replace(inference.posterior(kernel, Given(NOISE), without), squeeze=True)
    assert error(found.nlml, expected.nlml) < 1e-10
    assert error(found.mean(H), expected.mean(H)) < 1e-10
    assert error(found.variance(H), expected.variance(H)) < 1e-9


def test_streaming_in_chunks_equals_one_shot(monkeypatch):
    H, y = rows(1000, 2)
    once = Grid(12).statistics(H, y)
    monkeypatch.setattr(statistics, "chunk_rows", lambda *_: 37)
    chunks = Grid(12).statistics(H, y)
    assert error(chunks.nodes, once.nodes) < 1e-12
    assert error(chunks.b, once.b) < 1e-12


def test_statistics_are_the_same_at_each_run():
    H, y = rows(5000, 2)
    first, second = Grid(12).statistics(H, y), Grid(12).statistics(H, y)
    assert torch.equal(first.nodes, second.nodes)
    assert torch.equal(first.b, second.b)


def test_statistics_do_not_grow_with_n_and_share_S_between_outputs():
    small, large = (Grid(12).statistics(*rows(n, 2, outputs=3)) for n in (10, 3000))
    assert small.nodes.shape == large.nodes.shape == (9 * 6 + 1, 9 * 6 + 1)
    assert small.b.shape == large.b.shape == (3, 12, 12)


def test_float32_rows_are_summed_in_float64():
    H, y = rows(100, 2)
    stats = Grid(12).statistics(H.float(), y.float())
    assert stats.nodes.dtype == stats.b.dtype == torch.float64
    exact = Grid(12).statistics(H.float().double(), y.float().double())
    assert torch.equal(stats.nodes, exact.nodes)


def test_statistics_of_different_grids_do_not_mix():
    H, y = rows(20, 2)
    one = Grid(12).statistics(H, y)
    with pytest.raises(ValueError, match="same grid"):
        one + Grid(13).statistics(H, y)
    with pytest.raises(ValueError, match="cannot remove 20 rows from 5"):
        Grid(12).statistics(H[:5], y[:5]) - one
    with pytest.raises(ValueError, match="no rows"):
        Grid(12).posterior(make_kernel("rbf", 2), Given(NOISE), one - one)
    with pytest.raises(FrozenInstanceError):
        one.n = 3


@pytest.mark.parametrize("size", [8, 9, 600])
def test_toeplitz_eigenpairs_and_products(size):
    lag = torch.arange(size, dtype=torch.float64) / size
    column = torch.stack([torch.exp(-8.0 * lag**2), torch.exp(-3.0 * lag)])
    value, vector = eigenpairs(column)
    T = toeplitz(column)
    assert error(vector @ torch.diag_embed(value) @ vector.mT, T) < 1e-12
    assert error(vector.mT @ vector, torch.eye(size).expand(2, size, size)) < 1e-12
    assert bool((value[:, :-1] >= value[:, 1:]).all())
    # 600 points go by FFT, 8 by a matrix product.
    x = torch.randn(3, size, 4, dtype=torch.float64)
    found = kronecker_product(column[:1], x.movedim(1, 2).reshape(12, size))
    assert error(found, x.movedim(1, 2).reshape(12, size) @ T[0]) < 1e-12
    both = torch.randn(2, size, size, dtype=torch.float64)
    assert error(kronecker_product(column, both), T[0] @ both @ T[1]) < 1e-12
    assert error(kronecker_product(column, both, skip=0), both @ T[1]) < 1e-12


def test_slopes_of_toeplitz_sums():
    column = torch.rand(2, 2, 6, dtype=torch.float64, requires_grad=True)
    M = torch.randn(6, 6, dtype=torch.float64)
    expected = torch.autograd.grad((M * toeplitz(column[0, 0])).sum(), column)[0][0, 0]
    assert error(diagonal_sums(M), expected) < 1e-12
    x, y = torch.randn(2, 3, 6, 6, dtype=torch.float64)
    total = sum((x * kronecker_product(c, y)).sum() for c in column)
    assert (
        error(bilinear_slopes(column.detach(), x, y), torch.autograd.grad(total, column)[0]) < 1e-12
    )
