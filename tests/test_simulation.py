"""Free simulation against hand-written loops and a linear system with a known law."""

from __future__ import annotations

import numpy as np
import pytest

from forecaster_data import small_model
from seqgp import WindowSet
from seqgp.forecasting import InputsOnly, fit_multistep, simulate, starts_of


class Linear:
    """y' = a y + b u of the newest row, with a constant deviation: everything known in closed form."""

    def __init__(self, a=0.9, b=0.5, std=0.2, outputs=1):
        self.a, self.b, self.std, self.outputs = a, b, std, outputs

    def predict(self, X, return_std=False):
        p = X.shape[2] - self.outputs
        drive = self.b * X[:, -1, :p].sum(-1, keepdims=True) if p else 0.0
        mean = self.a * X[:, -1, p:] + drive
        mean = mean[:, 0] if self.outputs == 1 else mean
        return (mean, np.full_like(mean, self.std)) if return_std else mean


def test_mean_feedback_is_the_loop_by_hand():
    rng = np.random.default_rng(0)
    u, history = rng.standard_normal(24), rng.standard_normal(5)
    run = simulate(Linear(), u[:, None], history, feedback="mean")
    y, expected = history[-1], []
    for t in range(20):
        y = 0.9 * y + 0.5 * u[4 + t]
        expected.append(y)
    np.testing.assert_allclose(run.mean, expected)
    np.testing.assert_allclose(run.std, 0.2)
    assert run.paths is None
    with pytest.raises(ValueError, match="no paths"):
        run.quantile(0.5)


def test_sampled_feedback_has_the_law_of_the_linear_system():
    run = simulate(Linear(), None, np.full(3, 2.0), steps=30, samples=4000, seed=1)
    t = np.arange(1, 31)
    np.testing.assert_allclose(run.mean, 2.0 * 0.9**t, atol=0.03)
    variance = 0.04 * (1 - 0.81**t) / (1 - 0.81)
    np.testing.assert_allclose(run.std, np.sqrt(variance), rtol=0.04)
    assert run.std[0] == pytest.approx(0.2)
    assert run.std[-1] > 2 * run.std[0]  # it widens with the horizon
    inside = (run.quantile(0.025) < run.mean) & (run.mean < run.quantile(0.975))
    assert inside.all()
    np.testing.assert_allclose(
        run.quantile(0.975) - run.quantile(0.025), 2 * 1.96 * np.sqrt(variance), rtol=0.1
    )


def test_starts_side_by_side_equal_one_by_one():
    rng = np.random.default_rng(0)
    u, history = rng.standard_normal((3, 14, 2)), rng.standard_normal((3, 5, 2))
    together = simulate(Linear(outputs=2), u, history, feedback="mean")
    assert together.mean.shape == (3, 10, 2)
    for k in range(3):
        alone = simulate(Linear(outputs=2), u[k], history[k], feedback="mean")
        np.testing.assert_allclose(alone.mean, together.mean[k])
    sampled = simulate(Linear(outputs=2), u, history, samples=7)
    assert sampled.paths.shape == (3, 7, 10, 2)
    again = simulate(Linear(outputs=2), u, history, samples=7)
    assert np.array_equal(sampled.paths, again.paths)


def test_starts_of_a_window_set():
    u, y = np.arange(40.0), 100 + np.arange(40.0)
    windows = WindowSet([u, u[:20]], [y, y[:20]], lag=4, mode="autoregression")
    inputs, history, targets = starts_of(windows, steps=6)
    assert inputs.shape[1:] == (9, 1)
    assert history.shape[1:] == (4, 1)
    assert targets.shape[1:] == (6, 1)
    # the history ends where the targets begin, and inputs end one row before the last target
    assert (targets[:, 0, 0] == history[:, -1, 0] + 1).all()
    assert (targets[:, -1, 0] - 100 == inputs[:, -1, 0] + 1).all()
    assert len(inputs) == (36 - 5) + (16 - 5)  # no run crosses from one series into the next
    with pytest.raises(ValueError, match="no run of 60 steps"):
        starts_of(windows, steps=60)
    with pytest.raises(ValueError, match="mode='autoregression'"):
        starts_of(WindowSet(u, y, lag=4), steps=3)


def test_one_step_of_simulation_is_the_prediction():
    rng = np.random.default_rng(0)
    u, y = rng.standard_normal(150), rng.standard_normal(150)
    windows = WindowSet(u, y, lag=6, mode="autoregression")
    model = small_model(hidden=8).fit(windows)
    inputs, history, _ = starts_of(windows, steps=1)
    run = simulate(model, inputs, history, feedback="mean")
    mean, std = model.predict(windows, return_std=True)
    np.testing.assert_allclose(run.mean[:, 0, 0], mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(run.std[:, 0, 0], std, rtol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(feedback="hope"), "feedback='hope' is not known"),
        (dict(inputs=None), "say how many steps"),
        (dict(inputs=np.zeros((2, 1))), r"expected \(starts, 5 \+ steps - 1, p\)"),
        (dict(steps=100), "100 steps need 104 rows of inputs, got 9"),
    ],
)
def test_bad_requests(arguments, message):
    options = dict(inputs=np.zeros((9, 1)), history=np.zeros((5, 1))) | arguments
    with pytest.raises(ValueError, match=message):
        simulate(Linear(), **options)


def test_training_for_simulation_tries_every_way_and_keeps_the_best():
    rng = np.random.default_rng(0)
    u = rng.standard_normal(260)
    y = np.zeros(260)
    for t in range(1, 260):
        y[t] = 0.8 * y[t - 1] + np.tanh(u[t - 1]) + 0.02 * rng.standard_normal()
    windows = WindowSet(u, y, lag=6, mode="autoregression")
    train, held = windows.subset(slice(0, 180)), windows.subset(slice(180, 254))
    model = small_model(epochs=20, hidden=8, training__lr=0.01)
    found = fit_multistep(model, train, held, steps=10, rounds=1)
    assert set(found.scores) == {"one-step", "inputs-only", "round 1"}
    assert found.scores[found.chosen] == min(found.scores.values())
    inputs, history, targets = starts_of(held, len(held))
    run = simulate(found.model, inputs, history, feedback="mean")
    error = np.sqrt(np.mean((run.mean - targets) ** 2))
    assert error == pytest.approx(found.scores[found.chosen])
    assert error < 0.5 * targets.std()


def test_a_model_of_inputs_only_does_not_look_at_past_targets():
    rng = np.random.default_rng(0)
    u, y = rng.standard_normal(120), rng.standard_normal(120)
    windows = WindowSet(u, y, lag=5, mode="autoregression")
    model = InputsOnly.trained(
        small_model(epochs=1),
        1,
        windows.subset(slice(0, 80)),
        windows.subset(slice(80, 115)),
    )
    X = windows[:]
    changed = X.copy()
    changed[:, :, 1] += 100.0
    np.testing.assert_array_equal(model.predict(X), model.predict(changed))
    changed[:, :, 0] += 1.0
    assert not np.array_equal(model.predict(X), model.predict(changed))
