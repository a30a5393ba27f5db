"""Correlated outputs against the dense GP of all outputs and rows at once."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

import paper.surrogates  # noqa: F401 (registers them)
from paper.coregional import CorrelatedGP, coregionalise
from seqgp import GP, NARX, SequenceGP, Training, load, save
from seqgp.kernels import build_kernel
from seqgp.training import SURROGATES
from tests.grid_reference import dense_grid, dense_interp, error, rows

EXACT = 1e-7
SIZE = 12
INFERENCES = ["exact", "grid"]


def make_gp(inference, outputs=3, rank=2, seed=0, **options):
    gp = CorrelatedGP(
        kernel="matern52",
        inference=inference,
        grid_size=SIZE,
        outputs=outputs,
        output_rank=rank,
        **options,
    )
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in gp.parameters():
            parameter += 0.5 * torch.randn(
                parameter.shape, dtype=torch.float64, generator=generator
            )
    gp.likelihood.set_noise(torch.linspace(0.05, 0.2, outputs, dtype=torch.float64))
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
    post = coregionalise(statistics.inference, gp.kernel, B, D, statistics.value)
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
    chosen = SURROGATES[surrogate](post, H.detach(), y)
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
    independent = GP("matern52", inference="exact", outputs=3)
    independent.likelihood.set_noise(correlated.noise)
    independent.kernel.base_kernel.lengthscale = correlated.kernel.lengthscale
    with torch.no_grad():
        correlated.coregion.factor.zero_()
        correlated.noise_correlation.factor.zero_()
        independent.kernel.outputscale = correlated.output_covariance.diagonal()
    ours, theirs = correlated.condition(H, y), independent.condition(H, y)
    assert error(ours.nlml, theirs.nlml) < 1e-10
    for left, right in zip(ours.predict(H), theirs.predict(H), strict=True):
        assert error(left, right) < 1e-9
    alone = theirs.variance(H).diag_embed()
    assert error(ours.output_covariance(H), alone) < 1e-9
    assert error(ours.loss(H, y), theirs.loss(H, y)) < 1e-9


def test_options_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match=r"output_rank=4 is not between 1 and .* 3"):
        CorrelatedGP(outputs=3, output_rank=4)
    batched = build_kernel("rbf", 2, outputs=3)
    with pytest.raises(ValueError, match="share one kernel"):
        CorrelatedGP(batched, outputs=3)


def test_one_output_has_nothing_to_correlate():
    """Its B is the kernel's variance by another name."""
    H, y = rows(20, 2)
    ours, plain = CorrelatedGP(inference="exact"), GP(inference="exact")
    plain.kernel.outputscale = ours.output_covariance.detach().squeeze()
    found, expected = ours.condition(H, y[:, 0]), plain.condition(H, y[:, 0])
    assert float(found.nlml.detach()) == pytest.approx(float(expected.nlml.detach()), rel=1e-12)
    for left, right in zip(found.predict(H), expected.predict(H), strict=True):
        assert left.shape == right.shape == (20,)
        assert error(left, right) < 1e-10


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
        for kind in (GP, CorrelatedGP):
            gp = kind(inference="exact", latent_dim=1, outputs=4)
            gp.initialise(y[:40])
            statistics = gp.statistics(H[:40], y[:40])
            optimiser = torch.optim.Adam(gp.parameters(), lr=0.1)
            for _ in range(60):
                optimiser.zero_grad()
                gp.posterior(statistics).nlml.backward()
                optimiser.step()
            with torch.no_grad():
                post = gp.posterior(statistics)
                if kind is CorrelatedGP:
                    covariance = post.output_covariance(H[40:], observed=True)
                else:
                    covariance = post.predict(H[40:], observed=True)[1].diag_embed()
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


def fit(X, y, gp, validation=None, **options):
    training = Training(**dict(epochs=4, lr=0.01) | options)
    model = SequenceGP(NARX(hidden=8), gp, mean="zero", training=training, random_state=0)
    return model.set_params(progress=False).fit(X, y, validation)


@pytest.mark.parametrize("inference", INFERENCES)
def test_an_estimator_trains_with_it(inference):
    X, y = waves()
    gp = CorrelatedGP(inference=inference, latent_dim=1, grid_size=24)
    model = fit(X[:120], y[:120], gp)
    member = model.fitted_.members[0]
    assert isinstance(member.layer, CorrelatedGP)
    assert member.layer.outputs == 3
    B = member.layer.output_covariance.detach()
    assert bool((B[0, 1:].abs() > 0.01 * B[0, 0]).all())
    fitted = model.fitted_
    with torch.no_grad():
        seen, h = (member.network(fitted.inputs(part))[0] for part in (X[:120], X[120:]))
        post = member.layer.condition(seen, fitted.targets(y[:120]))
        expected = post.output_covariance(h, observed=True).numpy()
    assert fitted.calibration.noise is None  # 12 validation rows are too few for it, or for a shift
    for observed in (True, False):
        mean, std = model.predict(X[120:], return_std=True, observed=observed)
        unit = np.sqrt(fitted.calibration.scale) * fitted.y_scaler.scale
        ours, variance = (v.detach().numpy() for v in post.predict(h, observed))
        np.testing.assert_allclose(mean, fitted.y_scaler.inverse(ours), rtol=1e-8)
        np.testing.assert_allclose(std, np.sqrt(variance) * unit, rtol=1e-8)
    np.testing.assert_allclose(np.diagonal(expected, axis1=1, axis2=2), post.predict(h, True)[1])
    np.testing.assert_allclose(expected, expected.transpose(0, 2, 1), rtol=1e-10)
    assert (np.linalg.eigvalsh(expected) > 0).all()


def test_epochs_are_compared_by_the_marginal_densities():
    X, y = waves()
    model = SequenceGP(
        NARX(hidden=8), CorrelatedGP(latent_dim=1), training=Training(epochs=1), calibrate=False,
        random_state=0, progress=False,
    )  # fmt: skip
    model.fit(X[:100], y[:100], validation=(X[100:], y[100:]))
    # The rows given for validation never join the posterior: it is that of the epoch itself.
    mean, std = model.predict(X[100:], return_std=True)
    density = np.log(2.0 * np.pi * std**2) + (y[100:] - mean) ** 2 / std**2
    expected = 0.5 * density.mean() - np.log(model.fitted_.y_scaler.scale).mean()
    assert model.history_["val_nlpd"].iloc[0] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("surrogate", ["gradient", "block"])
def test_the_papers_surrogates_train_it_too(surrogate):
    X, y = waves()
    model = fit(X, y, CorrelatedGP(latent_dim=1), surrogate=surrogate, epochs=6)
    assert model.history_.nlml.iloc[-1] < model.history_.nlml.iloc[0]


def test_update_equals_conditioning_on_all_rows():
    X, y = waves()
    model = fit(X[:120], y[:120], CorrelatedGP(inference="grid", latent_dim=1, grid_size=24))
    more = model.fitted_.updated(X[120:], y[120:])
    member = more.members[0]
    with torch.no_grad():
        seen = member.network(more.inputs(X))[0]
        scratch = member.layer.condition(seen, more.targets(y))
    assert float(member.posterior.nlml) == pytest.approx(float(scratch.nlml), rel=1e-10)


@pytest.mark.parametrize("inference", INFERENCES)
def test_a_saved_model_predicts_and_is_trained_again_alike(inference, tmp_path):
    X, y = waves()
    gp = CorrelatedGP(inference=inference, latent_dim=1, grid_size=24, output_rank=2)
    model = fit(X[:120], y[:120], gp, epochs=2)
    save(model, tmp_path / "m.seqgp")
    twin = load(tmp_path / "m.seqgp")
    assert twin.fitted_.members[0].layer.coregion.factor.shape == (3, 2)
    for one, other in zip(
        twin.predict(X, return_std=True), model.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(twin.refit(X, y).predict(X), model.refit(X, y).predict(X))
