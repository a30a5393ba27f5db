"""The identities behind training: the loss has the NLML's gradient, and bounds it from above."""

from __future__ import annotations

import gpytorch
import pytest
import torch

from seqgp import GP
from seqgp.likelihoods import Gaussian
from seqgp.training import SURROGATES

ROWS = torch.arange(40)


def problem(kernel="rbf", outputs=1, seed=0):
    torch.manual_seed(seed)
    H = torch.rand(40, 2, dtype=torch.float64) * 1.8 - 0.9
    y = torch.sin(4 * H[:, :1] + torch.arange(outputs)) + 0.2 * torch.randn(40, outputs)
    gp = GP(kernel, inference="exact", outputs=outputs, likelihood=Gaussian(noise=0.05))
    return gp, H, y.double()


def frozen(gp, H, y):
    return SURROGATES["posterior"](gp.condition(H, y), H, y)


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
def test_gradient_equals_that_of_the_nlml(kernel, outputs):
    gp, H, y = problem(kernel, outputs)
    got = surrogate_gradient(frozen(gp, H, y), H, y, ROWS) * len(H)
    assert relative(got, nlml_gradient(gp, H, y)) < 1e-9


def test_identity_holds_for_a_kernel_that_is_not_stationary():
    gp, H, y = problem(gpytorch.kernels.PolynomialKernel(power=2))
    got = surrogate_gradient(frozen(gp, H, y), H, y, ROWS) * len(H)
    assert relative(got, nlml_gradient(gp, H, y)) < 1e-9


def test_mini_batches_of_a_partition_average_to_the_full_gradient():
    gp, H, y = problem()
    surrogate = frozen(gp, H, y)
    average = torch.zeros_like(H)
    batches = torch.randperm(len(H)).split(8)
    for index in batches:
        average[index] += surrogate_gradient(surrogate, H, y, index) / len(batches)
    assert relative(average * len(H), nlml_gradient(gp, H, y)) < 1e-9


@pytest.mark.parametrize("kernel", ["rbf", "matern52"])
def test_frozen_posterior_bounds_the_nlml(kernel):
    gp, H, y = problem(kernel)
    with torch.no_grad():
        post = gp.condition(H, y)
        constant = post.nlml - post.loss(H, y).sum()  # tight at the point of conditioning
        for scale in (1e-3, 1e-2, 0.1, 0.5):
            for _ in range(25):
                moved = (H + scale * torch.randn_like(H)).clamp(-1, 1)
                bound = post.loss(moved, y).sum() + constant
                assert float(gp.condition(moved, y).nlml) <= float(bound) + 1e-9


def test_unknown_surrogate():
    with pytest.raises(ValueError, match="surrogate='newton' is not known: use one of 'posterior'"):
        _ = SURROGATES["newton"]
