"""Correlated outputs against the dense GP of all outputs and rows at once."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from seqgp.artifact import save
from seqgp.estimator.rows import windows_on

import seqgp
from grid_reference import dense_grid, dense_interp, error, rows
from seqgp import SequenceGP
from seqgp.training import encode
from seqgp.training.surrogates import make_surrogate

EXACT = 1e-7
SIZE = 12
INFERENCES = ["exact", "grid"]


def make_gp(inference, outputs=3, rank=2, seed=0, **options):
    gp = seqgp.GP(
        kernel="matern52",
        inference=inference,
        grid_size=SIZE,
        outputs=outputs,
        correlated=True,
        output_rank=rank,
        **options,
    )
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in gp.parameters():
            parameter += 0.5 * torch.randn(
                parameter.shape, dtype=torch.float64, generator=generator
            )
    gp.noise = torch.linspace(0.05, 0.2, outputs, dtype=torch.float64)
    return gp


def kernel_matrix(gp, inference, left, right):
    if inference == "exact":
        return gp.kernel(left, right).to_dense()
    K_UU = gp.kernel(dense_grid(left.shape[1], SIZE)).to_dense()
    return dense_interp(left, SIZE) @ K_UU @ dense_interp(right, SIZE).T


def dense(gp, inference, H, y, h, B=None, D=None):
    """NLML with its graph, mean ``(n*, o)`` and joint covariance ``(n*, o, n*, o)``, all written out."""
    B = gp.output_covariance if B is None else B
    D = gp.noise_covariance if D is None else D
    n, o = y.shape
    K = kernel_matrix(gp, inference, H, H)
    K_y = torch.kron(K, B) + torch.kron(torch.eye(n, dtype=torch.float64), D)
    L = torch.linalg.cholesky(K_y)
    alpha = torch.cholesky_solve(y.reshape(-1, 1), L)
    nlml = (
        0.5 * (y.reshape(-1, 1) * alpha).sum()
        + L.diagonal().log().sum()
        + 0.5 * n * o * math.log(2 * math.pi)
    )
    cross = torch.kron(kernel_matrix(gp, inference, h, H), B)
    prior = torch.kron(kernel_matrix(gp, inference, h, h), B)
    covariance = prior - cross @ torch.cholesky_solve(cross.T, L)
    shape = (len(h), o, len(h), o)
    return nlml, (cross @ alpha).reshape(-1, o), covariance.reshape(shape), prior.reshape(shape)


@pytest.mark.parametrize("inference", INFERENCES)
@pytest.mark.parametrize(("outputs", "rank"), [(2, 1), (3, 2), (4, 4)])
def test_all_quantities_equal_the_dense_formulas(inference, outputs, rank):
    H, y = rows(40, 2, outputs)
    y = y @ torch.randn(outputs, outputs, dtype=torch.float64, generator=torch.manual_seed(3))
    H.requires_grad_()
    h = rows(7, 2, seed=1)[0]
    gp = make_gp(inference, outputs, rank)
    nlml, mean, covariance, prior = dense(gp, inference, H, y, h)
    post = gp.condition(H, y)
    assert error(post.nlml, nlml) < EXACT
    wanted = [*gp.parameters(), H]
    found = torch.autograd.grad(post.nlml, wanted)
    for mine, theirs in zip(found, torch.autograd.grad(nlml, wanted), strict=True):
        assert error(mine, theirs) < EXACT
    point = torch.arange(len(h))
    across = covariance[point, :, point, :]  # (n*, o, o): between outputs, at each point
    found_mean, variance = post.predict(h)
    assert error(found_mean, mean) < EXACT
    assert error(variance, across.diagonal(dim1=1, dim2=2)) < EXACT
    assert error(post.output_covariance(h), across) < EXACT
    observed = across + gp.noise_covariance
    assert error(gp.noise_covariance.diagonal(), gp.noise) < EXACT
    assert error(post.output_covariance(h, observed=True), observed) < EXACT
    assert error(post.predict(h, observed=True)[1], observed.diagonal(dim1=1, dim2=2)) < EXACT
    assert error(post.covariance(h), covariance.diagonal(dim1=1, dim2=3).movedim(2, 0)) < EXACT
    assert error(post.prior_covariance(h), prior.diagonal(dim1=1, dim2=3).movedim(2, 0)) < EXACT


@pytest.mark.parametrize("inference", INFERENCES)
@pytest.mark.parametrize("shared", [0.0, 0.7])
def test_slopes_where_eigenvalues_coincide(inference, shared):
    """Outputs alike in all: one eigenvalue twice or thrice, and the NLML is smooth there."""
    H, y = rows(30, 1, 3)
    gp = make_gp(inference, latent_dim=1)
    eye = torch.eye(3, dtype=torch.float64)
    B = (eye + shared).requires_grad_()
    D = (0.1 * (eye + shared**2)).requires_grad_()
    statistics = gp.statistics(H, y)
    post = seqgp.inference.coregionalise(gp.inference, gp.kernel, B, D, statistics.value, False)
    nlml = dense(gp, inference, H, y, H[:1], B, D)[0]
    found = torch.autograd.grad(post.nlml, [B, D])
    for mine, theirs in zip(found, torch.autograd.grad(nlml, [B, D]), strict=True):
        assert error(mine + mine.T, theirs + theirs.T) < EXACT


@pytest.mark.parametrize("inference", INFERENCES)
def test_slopes_by_finite_differences(inference):
    H, y = rows(25, 1, 3)
    gp = make_gp(inference, latent_dim=1)
    gp.condition(H, y).nlml.backward()
    step = 1e-5
    for parameter in gp.parameters():
        for k in range(parameter.numel()):
            flat, values = parameter.data.view(-1), []
            for sign in (1.0, -1.0):
                flat[k] += sign * step
                values.append(float(gp.condition(H, y).nlml.detach()))
                flat[k] -= sign * step
            slope = (values[0] - values[1]) / (2 * step)
            assert float(parameter.grad.view(-1)[k]) == pytest.approx(slope, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("surrogate", ["posterior", "gradient", "block"])
@pytest.mark.parametrize("inference", INFERENCES)
def test_surrogates_have_the_slope_of_the_nlml(inference, surrogate):
    H, y = rows(30, 2, 3)
    gp, index = make_gp(inference), torch.arange(30)
    H.requires_grad_()
    expected = torch.autograd.grad(dense(gp, inference, H, y, H[:1].detach())[0], H)[0]
    with torch.no_grad():
        post = gp.condition(H, y)
    chosen = make_surrogate(surrogate, post, H.detach(), y)
    (found,) = torch.autograd.grad(len(y) * chosen.loss(H, y, index), H)
    assert error(found, expected) < EXACT


def test_loss_bounds_the_nlml():
    H, y = rows(30, 2, 3)
    gp = make_gp("exact")
    with torch.no_grad():
        post = gp.condition(H, y)
        gap = post.nlml - post.loss(H, y).sum()
        for seed in range(20):
            noise = torch.randn(H.shape, dtype=torch.float64, generator=torch.manual_seed(seed))
            moved = (H + 0.1 * noise).clamp(-1, 1)
            assert gp.condition(moved, y).nlml < post.loss(moved, y).sum() + gap


def test_a_diagonal_covariance_is_independent_outputs():
    H, y = rows(50, 2, 3)
    correlated = make_gp("exact")
    independent = seqgp.GP(kernel="matern52", inference="exact", outputs=3)
    independent.noise = correlated.noise
    independent.kernel.base_kernel.lengthscale = correlated.kernel.lengthscale
    with torch.no_grad():
        correlated.coregion.factor.zero_()
        correlated.noise_correlation.factor.zero_()
        independent.kernel.outputscale = correlated.output_covariance.diagonal()
    ours, theirs = correlated.condition(H, y), independent.condition(H, y)
    assert error(ours.nlml, theirs.nlml) < 1e-10
    for left, right in zip(ours.predict(H), theirs.predict(H), strict=True):
        assert error(left, right) < 1e-9
    assert error(ours.output_covariance(H), theirs.output_covariance(H)) < 1e-9
    assert error(ours.loss(H, y), theirs.loss(H, y)) < 1e-9


def test_options_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match=r"output_rank=4 is not between 1 and .* 3"):
        seqgp.GP(outputs=3, correlated=True, output_rank=4)
    batched = seqgp.kernels.build_kernel("rbf", 2, outputs=3)
    with pytest.raises(ValueError, match="share one kernel"):
        seqgp.GP(batched, outputs=3, correlated=True)


def test_one_output_has_nothing_to_correlate():
    H, y = rows(20, 2)
    ours, plain = (seqgp.GP(correlated=c).condition(H, y[:, 0]).nlml for c in (True, False))
    assert float(ours.detach()) == float(plain.detach())


def test_statistics_of_parts_add_up():
    H, y = rows(60, 2, 3)
    gp = make_gp("grid")
    parts = gp.statistics(H[:25], y[:25]) + gp.statistics(H[25:], y[25:])
    whole = gp.condition(H, y)
    assert error(gp.posterior(parts).nlml, whole.nlml) < 1e-10


def test_predictions_beat_independent_outputs():
    """Few rows of outputs that follow one function, for the most part: over several draws."""
    gains = []
    for seed in range(3):
        H, y = draw(torch.Generator().manual_seed(seed), n=100, outputs=4)
        scores = []
        for correlated in (False, True):
            gp = seqgp.GP(inference="exact", latent_dim=1, outputs=4, correlated=correlated)
            gp.initialise(y[:40])
            statistics = gp.statistics(H[:40], y[:40])
            optimiser = torch.optim.Adam(gp.parameters(), lr=0.1)
            for _ in range(60):
                optimiser.zero_grad()
                gp.posterior(statistics).nlml.backward()
                optimiser.step()
            with torch.no_grad():
                post = gp.posterior(statistics)
                covariance = post.output_covariance(H[40:], observed=True)
                scores.append(joint_nlpd(y[40:], post.mean(H[40:]), covariance))
        gains.append(scores[0] - scores[1])
    assert min(gains) > 0.02
    assert sum(gains) / len(gains) > 0.08


def joint_nlpd(y, mean, covariance):
    """Negative log density of all outputs of a row together, nats per value."""
    arrays = (np.asarray(each, dtype=np.float64) for each in (y, mean, covariance))
    rows = [multivariate_normal.logpdf(*row) for row in zip(*arrays, strict=True)]
    return -np.mean(rows) / y.shape[1]


def draw(generator, n, outputs):
    """Outputs that are multiples of one function, and of one noise, and a little of their own."""

    def normal(*shape):
        return torch.randn(shape, dtype=torch.float64, generator=generator)

    H = 2.0 * torch.rand(n, 1, dtype=torch.float64, generator=generator) - 1.0
    K = torch.exp(-0.5 * torch.cdist(H, H).square() / 0.2**2)
    L = torch.linalg.cholesky(K + 1e-8 * torch.eye(n, dtype=torch.float64))
    weights = normal(1, outputs).sign() * torch.linspace(0.5, 1.5, outputs, dtype=torch.float64)
    f = L @ (normal(n, 1) @ weights + 0.1 * normal(n, outputs))
    return H, f + 0.3 * (normal(n, 1) @ weights + normal(n, outputs))


def waves(n=200, seed=0):
    """Windows, and three targets of which all are moved by one cause."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3, 1))
    cause = np.sin(4.0 * X[:, -1, 0] + 2.0 * X[:, -2, 0])
    noise = 0.3 * rng.standard_normal((n, 3))
    return X, 10.0 * (cause[:, None] * np.array([1.0, -0.8, 0.6]) + noise) * [1.0, 2.0, 3.0]


def fit(X, y, **options):
    base = dict(encoder="narx", hidden=8, epochs=4, lr=0.01, latent_dim=1, mean="zero")
    return SequenceGP(**(base | options), random_state=0, progress=False).fit(X, y)


@pytest.mark.parametrize("inference", INFERENCES)
def test_estimator_predicts_the_covariance_of_outputs(inference):
    X, y = waves()
    model = fit(X[:120], y[:120], correlated=True, inference=inference, grid_size=24)
    for observed in (True, False):
        mean, covariance = model.predict(X[120:], observed=observed, return_cov=True)
        same, std = model.predict(X[120:], observed=observed, return_std=True)
        np.testing.assert_array_equal(mean, same)
        np.testing.assert_allclose(np.diagonal(covariance, axis1=1, axis2=2), std**2, rtol=1e-10)
        np.testing.assert_allclose(covariance, covariance.transpose(0, 2, 1), rtol=1e-10)
        assert (np.linalg.eigvalsh(covariance) > 0).all()
    h = encode(model.network_, windows_on(torch.device("cpu"), X[120:], model.x_scaler_))
    unit = np.sqrt(model.variance_scale_) * y[:108].std(0)  # the last tenth is for validation
    expected = model.posterior_.output_covariance(h).numpy() * unit[:, None] * unit
    np.testing.assert_allclose(covariance, expected, rtol=1e-10)
    assert (np.abs(covariance[:, 0, 1]) > 0.01 * std[:, 0] * std[:, 1]).all()
    with pytest.raises(ValueError, match="return_std and return_cov"):
        model.predict(X, return_std=True, return_cov=True)


def test_estimator_gives_a_diagonal_covariance_of_independent_outputs():
    X, y = waves()
    for targets in (y, y[:, 0]):
        model = fit(X, targets, epochs=1)
        _, std = model.predict(X, return_std=True)
        _, covariance = model.predict(X, return_cov=True)
        expected = std.reshape(len(X), -1, 1) ** 2 * np.eye(targets[0].size)
        np.testing.assert_allclose(covariance, expected, rtol=1e-12)


def test_epochs_are_compared_by_the_joint_density():
    X, y = waves()
    options = dict(encoder="narx", hidden=8, epochs=1, latent_dim=1, correlated=True)
    model = SequenceGP(**options, calibrate=False, random_state=0, progress=False)
    model.fit(X[:100], y[:100], validation=(X[100:], y[100:]))
    # The rows given for validation never join the posterior: it is that of the epoch itself.
    mean, covariance = model.predict(X[100:], return_cov=True)
    expected = joint_nlpd(y[100:], mean, covariance) - np.log(model.y_scaler_.scale).mean()
    assert model.history_["val_nlpd"].iloc[0] == pytest.approx(expected, rel=1e-6)


def test_auto_keeps_the_better_of_independent_and_correlated_outputs(tmp_path):
    X, y = waves()
    pair = (X[120:], y[120:])
    options = dict(
        encoder="narx", hidden=8, epochs=6, lr=0.01, latent_dim=1, mean="zero", random_state=0,
        progress=False,
    )  # fmt: skip
    each = {
        kind: SequenceGP(**options, correlated=kind).fit(X[:120], y[:120], validation=pair)
        for kind in (False, True)
    }
    best = {kind: float(model.history_.val_nlpd.min()) for kind, model in each.items()}
    auto = SequenceGP(**options, correlated="auto").fit(X[:120], y[:120], validation=pair)
    expected = min(best, key=best.__getitem__)
    assert auto.correlated_ == expected
    np.testing.assert_array_equal(auto.predict(X), each[expected].predict(X))
    save(auto, tmp_path / "m.seqgp")
    twin = seqgp.load(tmp_path / "m.seqgp")
    assert twin.correlated_ == expected
    np.testing.assert_array_equal(twin.predict(X), auto.predict(X))
    refitted = auto.refit(X, y)
    assert refitted.correlated_ == expected
    single = SequenceGP(**options, correlated="auto").fit(X[:120], y[:120, 0])
    assert single.correlated_ is False
    with pytest.raises(ValueError, match="must be True, False or 'auto'"):
        SequenceGP(**options, correlated="both").fit(X, y)
