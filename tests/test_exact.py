"""Exact inference against scikit-learn, GPyTorch and plain algebra."""

from __future__ import annotations

import math

import gpytorch
import numpy as np
import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk

import seqgp
from seqgp.inference.exact import _JITTERS
from seqgp.kernels import KERNELS, build_kernel, lengthscale, set_signal_variance
from seqgp.likelihoods import Gaussian

SK_NU = {"rbf": math.inf, "matern12": 0.5, "matern32": 1.5, "matern52": 2.5}
LENGTHS = (0.3, 0.8)
SCALE, NOISE = 1.7, 0.04


def problem(n=60, d=2, outputs=None, seed=0):
    rng = np.random.default_rng(seed)
    H = rng.uniform(-1, 1, (n, d))
    y = np.sin(4 * H[:, 0]) + 0.1 * rng.standard_normal(n)
    if outputs:
        y = np.stack([y * (k + 1) + H[:, 1] ** k for k in range(outputs)], -1)
    return torch.tensor(H), torch.tensor(y), torch.tensor(rng.uniform(-1, 1, (17, d)))


def float64(value):
    return torch.tensor(value, dtype=torch.float64)


def make_gp(kernel, **kwargs):
    gp = seqgp.GP(kernel=kernel, inference="exact", **kwargs)
    base = gp.kernel.base_kernel
    base.lengthscale = float64(LENGTHS[: gp.latent_dim])
    gp.kernel.outputscale = float64(SCALE)  # gpytorch reads a Python float as float32
    gp.likelihood.set_noise(NOISE)
    return gp


@pytest.mark.parametrize("kernel", list(SK_NU))
def test_equals_scikit_learn(kernel):
    H, y, new = problem()
    with torch.no_grad():  # with gradients gpytorch leaves 1e-8 on the diagonal of the distances
        post = make_gp(kernel).condition(H, y)
    nu = SK_NU[kernel]
    base = sk.RBF(LENGTHS) if math.isinf(nu) else sk.Matern(LENGTHS, nu=nu)
    model = GaussianProcessRegressor(
        sk.ConstantKernel(SCALE) * base + sk.WhiteKernel(NOISE), optimizer=None, alpha=0.0
    ).fit(H.numpy(), y.numpy())
    mean, std = model.predict(new.numpy(), return_std=True)
    assert float(post.nlml.detach()) == pytest.approx(
        -model.log_marginal_likelihood_value_, rel=1e-8
    )
    ours, variance = post.predict(new, observed=True)
    assert np.abs(ours.numpy() - mean).max() < 1e-8 * np.abs(mean).max()
    np.testing.assert_allclose(variance.numpy(), std**2, rtol=1e-8)


class _Reference(gpytorch.models.ExactGP):
    def __init__(self, H, y, likelihood, kernel):
        super().__init__(H, y, likelihood)
        self.mean_module = gpytorch.means.ZeroMean()
        self.covar_module = kernel

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


@pytest.mark.parametrize("kernel", ["rbf", "matern32", "matern52", "spectral-mixture"])
def test_equals_gpytorch_exact_gp(kernel):
    H, y, new = problem()
    gp = seqgp.GP(kernel=kernel, inference="exact", likelihood=Gaussian(NOISE))
    post = gp.condition(H, y)
    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    likelihood.noise = float64(NOISE)
    model = _Reference(H, y, likelihood, gp.kernel).double()
    settings = gpytorch.settings
    with settings.fast_computations(False, False, False), torch.no_grad():
        mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
        nlml = -mll(model(H), y) * len(y)
        model.eval()
        expected = model(new)
        mean, variance = post.predict(new)
    assert float(post.nlml.detach()) == pytest.approx(float(nlml), rel=1e-8)
    np.testing.assert_allclose(mean.numpy(), expected.mean.numpy(), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(variance.numpy(), expected.variance.numpy(), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("kernel", list(KERNELS))
def test_gradient_of_nlml_by_finite_differences(kernel):
    H, y, _ = problem(n=12)
    gp = seqgp.GP(kernel=kernel, inference="exact")
    H.requires_grad_(True)
    gp.condition(H, y).nlml.backward()
    step = 1e-6
    for parameter, index in [(H, (3, 1)), (gp.likelihood.raw_noise, (0,))] + [
        (p, tuple(0 for _ in p.shape)) for p in gp.kernel.parameters()
    ]:
        values = []
        for sign in (1, -1):
            with torch.no_grad():
                parameter[index] += sign * step
                values.append(float(gp.condition(H, y).nlml))
                parameter[index] -= sign * step
        numeric = (values[0] - values[1]) / (2 * step)
        assert float(parameter.grad[index]) == pytest.approx(numeric, rel=1e-4, abs=1e-5)


def test_several_outputs_are_independent_gps():
    H, Y, new = problem(outputs=3)
    gp = seqgp.GP(latent_dim=2, outputs=3, inference="exact")
    noise = [0.01, 0.1, 0.3]
    gp.likelihood.set_noise(noise)
    gp.kernel.outputscale = float64([0.5, 1.0, 2.0])
    post = gp.condition(H, Y)
    mean, variance = post.predict(new)
    assert mean.shape == variance.shape == (17, 3)
    total = 0.0
    for k in range(3):
        single = seqgp.GP(latent_dim=2, inference="exact", likelihood=Gaussian(noise[k]))
        single.kernel.outputscale = float64([0.5, 1.0, 2.0][k])
        alone = single.condition(H, Y[:, k])
        total += float(alone.nlml.detach())
        torch.testing.assert_close(mean[:, k], alone.mean(new))
        torch.testing.assert_close(variance[:, k], alone.variance(new))
    assert float(post.nlml.detach()) == pytest.approx(total, rel=1e-12)
    assert post.loss(new, torch.zeros(17, 3)).shape == (17,)


def test_a_kernel_object_is_shared_by_all_outputs():
    H, Y, new = problem(outputs=2)
    gp = seqgp.GP(kernel=gpytorch.kernels.RQKernel(), outputs=2, inference="exact")
    assert gp.condition(H, Y).predict(new)[0].shape == (17, 2)
    assert len(list(gp.kernel.parameters())) == 2


def test_posterior_is_immutable():
    H, y, new = problem()
    gp = make_gp("rbf")
    post = gp.condition(H, y)
    before = [value.clone() for value in post.predict(new)]
    gp.likelihood.set_noise(1.0)
    gp.kernel.outputscale = 9.0
    H.zero_()
    for now, then in zip(post.predict(new), before, strict=True):
        assert torch.equal(now, then)
    with pytest.raises(AttributeError):
        post.nlml = 0.0


def test_observed_adds_the_noise_and_only_to_the_variance():
    H, y, new = problem()
    post = make_gp("rbf").condition(H, y)
    (mean, latent), (mean2, observed) = post.predict(new), post.predict(new, observed=True)
    assert torch.equal(mean, mean2)
    torch.testing.assert_close(observed - latent, torch.full_like(latent, NOISE))


def test_predictions_do_not_depend_on_company():
    H, y, new = problem()
    post = make_gp("matern52").condition(H, y)
    together = post.predict(new)
    alone = [post.predict(row[None]) for row in new]
    for k in range(2):
        torch.testing.assert_close(
            together[k], torch.cat([a[k] for a in alone]), rtol=1e-10, atol=0
        )


def test_variance_is_positive_where_subtraction_rounds():
    gp = seqgp.GP(latent_dim=1, inference="exact", likelihood=Gaussian(2e-6))
    gp.kernel.base_kernel.lengthscale = 5.0
    H = torch.zeros(500, 1, dtype=torch.float64)
    variance = gp.condition(H, torch.randn(500, dtype=torch.float64)).variance(H[:1])
    exact = 1.0 / (1.0 + 500 / 2e-6)  # 500 noisy readings of one value
    assert float(variance) == pytest.approx(exact, rel=1e-3)


def test_joint_covariance_matches_variance_and_algebra():
    H, y, new = problem()
    gp = make_gp("rbf")
    post = gp.condition(H, y)
    covariance = post.covariance(new)[0]
    torch.testing.assert_close(covariance.diagonal(), post.variance(new))
    K = gp.kernel(torch.cat([H, new])).to_dense().detach()
    n = len(H)
    Ky = K[:n, :n] + NOISE * torch.eye(n)
    torch.testing.assert_close(
        covariance, K[n:, n:] - K[n:, :n] @ torch.linalg.solve(Ky, K[:n, n:])
    )


def test_jitter_escalates_and_is_reported():
    class Indefinite(gpytorch.kernels.Kernel):
        """Rank one, less a little on the diagonal: what rounding does to a real kernel."""

        def forward(self, x1, x2, diag=False, **params):
            if diag:
                return torch.ones(x1.shape[:-1], dtype=x1.dtype)
            K = torch.ones(len(x1), len(x2), dtype=x1.dtype)
            return K - self.dip * torch.eye(len(x1), len(x2), dtype=x1.dtype)

    kernel = Indefinite()
    kernel.dip = 5e-6
    gp = seqgp.GP(kernel=kernel, inference="exact", likelihood=Gaussian(1.1e-6))
    H, y, _ = problem()
    diagnostics = gp.condition(H, y).diagnostics
    assert diagnostics.jitter == pytest.approx(1e-5, rel=1e-3)
    assert diagnostics.jitter / (1 - 5e-6) in [pytest.approx(j) for j in _JITTERS]
    kernel.dip = 1e-2
    with pytest.raises(seqgp.NotPositiveDefiniteError, match="Raise the noise"):
        gp.condition(H, y)
    with pytest.raises(
        seqgp.NotPositiveDefiniteError, match="only 1 of 60 latent points are distinct"
    ):
        gp.condition(torch.zeros_like(H), y)
    kernel.dip = float("nan")
    with pytest.raises(seqgp.NotPositiveDefiniteError, match="not finite"):
        gp.condition(H, y)


@pytest.mark.parametrize(
    ("H", "y", "message"),
    [
        (torch.zeros(5), torch.zeros(5), r"H has shape \(5,\), expected \(n, 2\)"),
        (torch.zeros(5, 3), torch.zeros(5), r"expected \(n, 2\)"),
        (torch.zeros(0, 2), torch.zeros(0), "n ≥ 1"),
        (torch.zeros(5, 2), torch.zeros(4), r"y has shape \(4,\)"),
        (torch.zeros(5, 2), torch.zeros(5, 2), r"one column per output"),
        (
            torch.full((5, 2), 1.5),
            torch.zeros(5),
            "reaches 1.5, expected latent points inside the box",
        ),
        (torch.full((5, 2), math.nan), torch.zeros(5), "H has 10 values that are NaN"),
        (torch.zeros(5, 2), torch.full((5,), math.inf), "y has 5 values that are NaN or inf"),
        ([["a", "b"]], [0.0], "H is not numeric"),
    ],
)
def test_condition_refuses_bad_rows(H, y, message):
    with pytest.raises(ValueError, match=message):
        seqgp.GP(inference="exact").condition(H, y)


def test_noise_is_readable_and_set_through_the_likelihood():
    gp = seqgp.GP(inference="exact", outputs=2)
    gp.likelihood.set_noise(0.25)
    np.testing.assert_allclose(gp.noise.detach(), [0.25, 0.25])
    gp.likelihood.set_noise([0.5, 2.0])
    np.testing.assert_allclose(gp.noise.detach(), [0.5, 2.0])
    for bad in (0.0, 1e-6, -1.0, math.nan, [0.5, 0.0]):
        with pytest.raises(ValueError, match="floor"):
            gp.likelihood.set_noise(bad)
    np.testing.assert_allclose(gp.noise.detach(), [0.5, 2.0])
    with pytest.raises(ValueError, match="floor"):
        Gaussian(noise=1e-7)
    with pytest.raises(AttributeError):
        gp.noise = 0.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(kernel="cubic"), "kernel='cubic' is not known: use one of 'rbf'"),
        (dict(inference="magic"), "inference='magic' is not known: use one of 'exact'"),
        (dict(likelihood="cauchy"), "likelihood='cauchy' is not known.*, or a Likelihood"),
        (dict(latent_dim=0), "at least 1"),
        (dict(outputs=0), "at least 1"),
        (dict(kernel=gpytorch.kernels.RBFKernel(batch_shape=torch.Size([3]))), "batch shape"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        seqgp.GP(**options)


def test_a_kernel_object_becomes_float64_and_is_trained():
    gp = seqgp.GP(kernel=gpytorch.kernels.MaternKernel(nu=1.5), inference="exact", latent_dim=3)
    assert next(gp.kernel.parameters()).dtype == torch.float64
    assert any(p is gp.kernel.raw_lengthscale for p in gp.parameters())


def test_options_are_read_set_and_taken_along():
    """As scikit-learn's: by name, also those of the likelihood."""
    gp = seqgp.GP("matern12", latent_dim=3, likelihood=Gaussian(noise=0.5))
    assert gp.get_params()["likelihood__noise"] == 0.5
    assert gp.kernel.base_kernel.nu == 0.5
    other = gp.with_options(kernel="rbf", outputs=2)
    assert (other.outputs, other.latent_dim, len(other.noise)) == (2, 3, 2)
    np.testing.assert_allclose(other.noise.detach(), [0.5, 0.5])
    assert gp.set_params(kernel="matern32", likelihood__noise=0.2) is gp
    assert gp.kernel.base_kernel.nu == 1.5
    assert float(gp.noise.detach()) == pytest.approx(0.2)
    with pytest.raises(ValueError, match="GP has no option 'noise': use one of kernel"):
        gp.set_params(noise=0.3)
    assert repr(seqgp.GP("rbf", latent_dim=3)) == "GP(latent_dim=3)"


def test_kernel_helpers():
    gp = seqgp.GP(outputs=2, inference="exact")
    gp.initialise(torch.tensor([[0.0, 0.0], [2.0, 20.0]]))
    torch.testing.assert_close(gp.kernel.outputscale.detach(), torch.tensor([1.0, 100.0]).double())
    torch.testing.assert_close(gp.noise.detach(), torch.tensor([1.0, 100.0]).double())
    mixture = build_kernel("spectral-mixture", 2)
    set_signal_variance(mixture, torch.tensor([3.0]))
    at_zero = mixture(torch.zeros(1, 2, dtype=torch.float64)).to_dense().detach()
    assert float(at_zero) == pytest.approx(3.0)
    assert len(torch.unique(mixture.mixture_means)) == mixture.num_mixtures
    assert lengthscale(mixture) is None
    assert lengthscale(build_kernel("rbf", 3, outputs=2)).shape == (2, 3)


def test_float32_points_are_conditioned_in_float64():
    H, y, new = problem()
    post = make_gp("rbf").condition(H.float(), y.float())
    assert post.nlml.dtype == post.mean(new.float()).dtype == torch.float64


def test_results_drop_the_output_axis_only_where_targets_had_none():
    H, y, new = problem()
    gp = make_gp("rbf")
    flat, column = gp.condition(H, y), gp.condition(H, y[:, None])
    whole = gp.posterior(gp.statistics(H, y))
    for observed in (False, True):
        results = [post.predict(new, observed) for post in (flat, column, whole)]
        for each, same, other in zip(*results, strict=True):
            assert each.shape == (17,)
            assert same.shape == other.shape == (17, 1)
            assert torch.equal(each, same[:, 0])
            assert torch.equal(same, other)
    assert torch.equal(flat.loss(new, torch.zeros(17)), column.loss(new, torch.zeros(17, 1)))


def test_statistics_add_and_go_through_arrays():
    H, Y, new = problem(outputs=2)
    gp = make_gp("rbf", outputs=2)
    whole = gp.posterior(gp.statistics(H, Y))
    parts = gp.statistics(H[:25], Y[:25]) + gp.statistics(H[25:], Y[25:])
    arrays = parts.inference.arrays(parts.value)
    shapes = {}

    def take(name, shape):
        shapes[name] = shape
        return arrays[name]

    again = parts.inference.from_arrays(take, n=60, latent_dim=2, outputs=2)
    assert shapes == {name: tuple(value.shape) for name, value in arrays.items()}
    assert (parts.value.n, again.n) == (60, 60)
    for statistics in (parts, type(parts)(parts.inference, again)):
        for one, other in zip(
            gp.posterior(statistics).predict(new), whole.predict(new), strict=True
        ):
            assert torch.equal(one, other)
