"""The learning rates under which the paper proves convergence, and training with its plug-ins."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import paper.surrogates  # noqa: F401 (registers them)
from paper.coregional import CorrelatedGP
from paper.peephole import LSTMPeephole
from paper.schedules import theorem
from seqgp import GP, GRU, SequenceGP, Training
from seqgp.training import SCHEDULES

SURROGATES = ["gradient", "block"]


def test_rates_are_those_of_the_theorems():
    assert SCHEDULES["theorem"] is theorem
    for t in (1, 7, 1000):
        assert theorem(t, 5, 4) == theorem(t, 5, 1) / 4  # theorem 2: over the delay
        assert theorem(t, 5, 1) == theorem(t, 5000, 1)  # and whatever their number
    assert theorem(16, 5, 1) / theorem(4, 5, 1) == pytest.approx(4 ** (-1.1 / 2))


def test_rates_sum_to_infinity_and_their_squares_do_not():
    """What a proof of stochastic approximation asks for: the exponent is in (1/2, 1]."""
    t = np.arange(1, 10**6 + 1)
    rates = theorem(t, 1, 1)
    exponent = -np.polyfit(np.log(t[1000:]), np.log(rates[1000:]), 1)[0]
    assert 0.5 < exponent <= 1.0
    late = [np.sum(rates[n : 10 * n]) for n in (10**3, 10**4, 10**5)]
    assert late[0] < late[1] < late[2]  # each decade adds more
    squares = [np.sum(rates[n : 10 * n] ** 2) for n in (10**3, 10**4, 10**5)]
    assert squares[0] > squares[1] > squares[2]


def rows(n=96, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 8, 1))
    return X, np.tanh(2 * X[:, -1, 0]) + 0.1 * rng.standard_normal(n)


def fit(inference="exact", **options):
    training = Training(**dict(batch_size=32, lr=5e-3) | options)
    gp = GP(inference=inference)
    model = SequenceGP(GRU(hidden=8), gp, mean="zero", training=training, random_state=0)
    return model.set_params(progress=False).fit(*rows())


def test_the_schedule_reaches_the_optimiser():
    rates = fit(epochs=3, schedule="theorem", refresh=1).history_.lr
    batches = 3  # of the 87 rows that are not held back
    expected = [5e-3 * theorem(batches * epoch, 9, 1) for epoch in (1, 2, 3)]
    np.testing.assert_allclose(rates, expected, rtol=1e-12)


@pytest.mark.parametrize("algorithm", ["full", "alternating", "delayed"])
@pytest.mark.parametrize("surrogate", SURROGATES)
def test_every_algorithm_lowers_the_nlml(algorithm, surrogate):
    epochs = 30 if algorithm == "full" else 6
    history = fit(algorithm=algorithm, surrogate=surrogate, epochs=epochs).history_
    assert len(history) == epochs
    assert history.nlml.iloc[-1] < history.nlml.iloc[0] - 0.1


@pytest.mark.parametrize("surrogate", SURROGATES)
@pytest.mark.parametrize("algorithm", ["delayed", "alternating", "full"])
def test_grid_trains_as_exact_does(surrogate, algorithm):
    options = dict(surrogate=surrogate, algorithm=algorithm, epochs=4, lr=0.01)
    exact, grid = fit("exact", **options), fit("grid", **options)
    np.testing.assert_allclose(grid.history_.nlml, exact.history_.nlml, atol=2e-3)
    X, _ = rows()
    for a, b in zip(
        grid.predict(X, return_std=True), exact.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_allclose(a, b, atol=0.02)


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_they_do_not_train_a_readout(surrogate):
    X, y = rows()
    model = SequenceGP(readout=True, training=Training(surrogate=surrogate))
    with pytest.raises(ValueError, match="readout is trained through the posterior's own loss"):
        model.fit(X, y)


@pytest.mark.parametrize(
    ("encoder", "gp", "training"),
    [
        (GRU(hidden=6), "rbf", dict(surrogate="gradient", refresh=7)),  # stale over two epochs
        (GRU(hidden=6), "rbf", dict(surrogate="block", algorithm="alternating")),
        (GRU(hidden=6), CorrelatedGP(), dict(surrogate="block", schedule="theorem", refresh=2)),
        (LSTMPeephole(hidden=6, dropout=0.2), GP(inference="grid", grid_size=20), {}),
    ],
)
def test_a_fit_that_was_stopped_goes_on_bit_for_bit(encoder, gp, training, tmp_path):
    X, y = rows()
    y = np.stack([y, X[:, 0, 0] - y], 1)
    training = Training(epochs=4, batch_size=32, lr=0.01, **training)

    def fit(**how):
        model = SequenceGP(encoder, gp, training=training, random_state=0, progress=False)
        return model.fit(X, y, **how)

    path = tmp_path / "fit.checkpoint"
    expected = fit()
    asked = iter(range(5))  # 3 mini-batches an epoch, not asked in the first
    stopped = fit(checkpoint=path, stop=lambda: next(asked, None) is None)
    assert len(stopped.history_) == 2
    assert path.exists()
    found = fit(checkpoint=path)
    assert not path.exists()
    pd.testing.assert_frame_equal(found.history_, expected.history_, check_exact=True)
    for one, other in zip(
        found.predict(X, return_std=True), expected.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(one, other)
