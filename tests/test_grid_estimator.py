"""Grid inference where users meet it: the layer, the loop, the estimator."""

from __future__ import annotations

import gpytorch
import numpy as np
import pytest
import torch

from seqgp import GP, LSTM, NARX, SequenceGP, Training
from seqgp.inference import EXACT_ROWS, INFERENCES, Exact, ExactPosterior, Grid, GridPosterior
from seqgp.kernels import ProductMatern

SAME = dict(random_state=0, progress=False)


def rows(n=150, seed=0, outputs=1):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 6, 2))
    y = np.tanh(2 * X[:, -1, 0]) + 0.1 * rng.standard_normal(n)
    return X, y if outputs == 1 else np.stack([y * (k + 1) for k in range(outputs)], -1)


def posterior_of(model):
    return model.fitted_.members[0].posterior


@pytest.mark.parametrize("readout", [False, True])
@pytest.mark.parametrize("algorithm", ["delayed", "alternating", "full"])
def test_grid_trains_as_exact_does(algorithm, readout):
    X, y = rows()
    training = Training(epochs=4, lr=0.01, algorithm=algorithm, batch_size=32)
    exact, grid = (
        SequenceGP(
            LSTM(hidden=8), GP(inference=name), mean="zero", readout=readout, training=training,
            **SAME,
        ).fit(X, y)
        for name in ("exact", "grid")
    )  # fmt: skip
    assert isinstance(posterior_of(exact), ExactPosterior)
    assert isinstance(posterior_of(grid), GridPosterior)
    np.testing.assert_allclose(grid.history_.nlml, exact.history_.nlml, atol=2e-3)
    for a, b in zip(
        grid.predict(X, return_std=True), exact.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_allclose(a, b, atol=0.02)


@pytest.mark.parametrize(
    "kernel", ["rbf", "matern12", "matern32", "matern52", "spectral-mixture", "periodic"]
)
def test_every_kernel_on_a_grid(kernel):
    X, y = rows(n=60, outputs=2)
    gp = GP(kernel, inference="grid", grid_size=40)
    model = SequenceGP(LSTM(hidden=4), gp, training=Training(epochs=2), **SAME).fit(X, y)
    assert posterior_of(model).diagnostics.method.startswith("grid")
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()


def test_auto_is_exact_for_few_rows_and_a_grid_for_many():
    H = torch.rand(EXACT_ROWS + 1, 2, dtype=torch.float64) * 2 - 1
    y = torch.sin(3 * H[:, 0])
    gp = GP(inference="auto")
    assert isinstance(gp.condition(H[:-1], y[:-1]), ExactPosterior)
    assert isinstance(gp.condition(H, y), GridPosterior)
    exact, grid = GP(inference="exact").condition(H, y), gp.condition(H, y)
    assert float(grid.nlml.detach() - exact.nlml.detach()) / len(y) == pytest.approx(0.0, abs=1e-3)
    assert isinstance(gp.inference_for(EXACT_ROWS), Exact)
    assert isinstance(gp.inference_for(EXACT_ROWS + 1), Grid)


def test_the_estimator_settles_on_one_inference_for_all_its_rows():
    X, y = rows(n=EXACT_ROWS + 50)
    model = SequenceGP(NARX(hidden=4), training=Training(epochs=1), **SAME)
    model.fit(X, y)  # 1,845 rows train, all 2,050 are conditioned on
    assert isinstance(posterior_of(model), GridPosterior)
    assert posterior_of(model).diagnostics.n == EXACT_ROWS + 50
    few = SequenceGP(NARX(hidden=4), training=Training(epochs=1), **SAME).fit(X[:100], y[:100])
    few.update(X[100:], y[100:])  # what it was fitted with stays, so that statistics add up
    assert isinstance(posterior_of(few), ExactPosterior)
    assert posterior_of(few).diagnostics.n == EXACT_ROWS + 50


def test_matern_by_name_is_a_product_where_a_grid_may_come():
    assert isinstance(GP("matern52", inference="grid").kernel.base_kernel, ProductMatern)
    assert isinstance(GP("matern52", inference="auto").kernel.base_kernel, ProductMatern)
    radial = GP("matern52", inference="exact").kernel.base_kernel
    assert isinstance(radial, gpytorch.kernels.MaternKernel)


def test_what_a_grid_cannot_do_is_refused_with_alternatives():
    X, y = rows(n=60)

    def fit(**options):
        gp = GP(**dict(inference="grid") | options)
        SequenceGP(LSTM(hidden=4), gp, training=Training(epochs=1), **SAME).fit(X, y)

    with pytest.raises(ValueError, match=r"1 to 4 latent dimensions, got 5.*inference='exact'"):
        fit(latent_dim=5)
    with pytest.raises(ValueError, match=r"GiB.*smaller grid_size"):
        fit(latent_dim=4, grid_size=200)
    with pytest.raises(ValueError, match="not stationary"):
        fit(kernel=gpytorch.kernels.LinearKernel())
    with pytest.raises(
        ValueError, match="inference='magic' is not known: use one of 'exact', 'grid'"
    ):
        GP(inference="magic")
    assert "auto" not in INFERENCES  # not an inference: a choice between two


def test_nlml_reaches_the_latent_points_on_a_grid_too():
    H = (torch.rand(50, 2, dtype=torch.float64) * 1.8 - 0.9).requires_grad_(True)
    y = torch.sin(3 * H[:, 0]).detach()
    gp = GP(inference="grid")
    post = gp.condition(H, y)
    slope = torch.autograd.grad(post.nlml, H)[0]
    points = H.detach().clone().requires_grad_(True)
    loss = torch.autograd.grad(post.loss(points, y).sum(), points)[0]
    torch.testing.assert_close(slope, loss)
