"""The paper's mini-batch estimators of the NLML's gradient: exact, unbiased, but no bounds."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch

from paper.surrogates import Block, StaleGradient
from seqgp import GP
from seqgp.likelihoods import Gaussian
from seqgp.training import SURROGATES


def problem(kernel="rbf", n=40, outputs=1, seed=0):
    torch.manual_seed(seed)
    H = torch.rand(n, 2, dtype=torch.float64) * 1.8 - 0.9
    y = torch.sin(4 * H[:, :1] + torch.arange(outputs)) + 0.2 * torch.randn(n, outputs)
    gp = GP(kernel, inference="exact", outputs=outputs, likelihood=Gaussian(noise=0.05))
    return gp, H, y.double()


def nlml_gradient(gp, H, y):
    points = H.clone().requires_grad_(True)
    return torch.autograd.grad(gp.condition(points, y).nlml, points)[0]


def surrogate_gradient(surrogate, H, y, index):
    points = H[index].clone().requires_grad_(True)
    return torch.autograd.grad(surrogate.loss(points, y[index], index), points)[0]


def relative(got, expected):
    return float((got - expected).norm() / expected.norm())


@pytest.mark.parametrize("kernel", ["rbf", "matern32", "matern52", "spectral-mixture"])
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("name", ["gradient", "block"])
def test_gradient_equals_that_of_the_nlml(kernel, outputs, name):
    gp, H, y = problem(kernel, outputs=outputs)
    surrogate = SURROGATES[name](gp.condition(H, y), H, y)
    got = surrogate_gradient(surrogate, H, y, torch.arange(len(H))) * len(H)
    assert relative(got, nlml_gradient(gp, H, y)) < 1e-9


def test_mini_batches_of_a_partition_average_to_the_full_gradient():
    gp, H, y = problem()
    surrogate = StaleGradient(gp.condition(H, y), H, y)
    average = torch.zeros_like(H)
    batches = torch.randperm(len(H)).split(8)
    for index in batches:
        average[index] += surrogate_gradient(surrogate, H, y, index) / len(batches)
    assert relative(average * len(H), nlml_gradient(gp, H, y)) < 1e-9


def test_slopes_do_not_depend_on_the_chunks_of_rows_they_are_made_in(monkeypatch):
    gp, H, y = problem()
    whole = StaleGradient(gp.condition(H, y), H, y)
    monkeypatch.setattr(StaleGradient, "chunk", 7)
    parts = StaleGradient(gp.condition(H, y), H, y)
    torch.testing.assert_close(parts.slope, whole.slope, rtol=1e-10, atol=1e-12)


def test_block_is_unbiased_with_pair_weights_and_biased_without():
    gp, H, y = problem(n=7)
    block = Block(gp.condition(H, y), H, y)
    sums = {None: torch.zeros_like(H), 1.0: torch.zeros_like(H)}
    batches = [torch.tensor(batch) for batch in combinations(range(7), 3)]
    for index in batches:  # every batch of three, each as likely as any other
        for weight, total in sums.items():
            points = H[index].clone().requires_grad_(True)
            loss = block.loss(points, y[index], index, pair_weight=weight)
            total[index] += torch.autograd.grad(loss, points)[0] / len(batches)
    expected = nlml_gradient(gp, H, y) / len(H)
    assert relative(sums[None], expected) < 1e-9
    assert relative(sums[1.0], expected) > 0.1


def test_the_linearised_surrogate_is_no_bound():
    """What the frozen posterior adds: far from conditioning the tangent falls below the NLML."""
    gp, H, y = problem()
    with torch.no_grad():
        post = gp.condition(H, y)
        tangent = StaleGradient(post, H, y)
        index = torch.arange(len(H))
        constant = post.nlml - tangent.loss(H, y, index) * len(H)
        moved = (H - 0.5 * tangent.slope.sign()).clamp(-1, 1)
        assert float(gp.condition(moved, y).nlml) > float(
            tangent.loss(moved, y, index) * len(H) + constant
        )
