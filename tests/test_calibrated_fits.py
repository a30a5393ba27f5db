"""The error bar of fitted estimators: coverage on new rows, second trainings, levels that move."""

from __future__ import annotations

import warnings
from dataclasses import fields

import numpy as np
import pytest
import torch
from scipy.stats import norm

from seqgp import (
    GP,
    LSTM,
    NARX,
    SequenceGP,
    SequenceNet,
    Training,
    TrainingWarning,
    WindowSet,
    load,
    save,
)
from seqgp.metrics import coverage, coverage_error, nlpd
from seqgp.training.messages import warn_if_moved


def series(n, noise, seed=0):
    """Windows of an autoregression, a smooth function of them, and noise of the kind asked for."""
    rng = np.random.default_rng(seed)
    x = np.zeros(n + 8)
    for k in range(1, len(x)):
        x[k] = 0.8 * x[k - 1] + 0.6 * rng.standard_normal()
    X = np.stack([x[k : k + 8] for k in range(n)])[:, :, None]
    f = np.sin(1.5 * X[:, -1, 0]) + 0.3 * X[:, -3, 0]
    e = {
        "gaussian": lambda: 0.3 * rng.standard_normal(n),
        "heteroscedastic": lambda: np.exp(0.8 * X[:, -1, 0] - 1.2) * rng.standard_normal(n),
        "heavy": lambda: 0.25 * rng.standard_t(3, n),
    }[noise]()
    return X, f + e


def make(kind=SequenceGP, epochs=12, training=None, **options):
    """A small model about no mean function, with 30% of its rows as validation set."""
    options = {
        "encoder": NARX(hidden=16),
        "mean": "zero",
        "training": Training(**{"epochs": epochs, "lr": 0.01} | (training or {})),
        "validation_fraction": 0.3,
        "random_state": 0,
        "progress": False,
    } | options
    if kind is SequenceGP:
        options = {"gp": GP(inference="grid", latent_dim=1)} | options
    return kind(**options)


@pytest.mark.parametrize("noise", ["gaussian", "heteroscedastic", "heavy"])
def test_coverage_is_kept_whatever_the_noise(noise):
    X, y = series(9000, noise)
    model = make().fit(X[:4000], y[:4000])
    mean, std = model.predict(X[4000:], return_std=True)
    new, dof = y[4000:], float(model.dof_[0])
    assert abs(coverage(new, mean, std, 0.95, dof) - 0.95) <= 0.02
    assert abs(coverage(new, mean, std, 0.5, dof) - 0.5) <= 0.04
    for level, room in ((0.95, 0.02), (0.5, 0.04)):
        low, high = model.interval(X[4000:], level)
        assert abs(np.mean((new >= low) & (new <= high)) - level) <= room
    plain = make(calibrate=False).fit(X[:4000], y[:4000])
    expected, raw = plain.predict(X[4000:], return_std=True)
    if noise != "gaussian":
        gained = nlpd(new, expected, raw) - nlpd(new, mean, std, dof)
        assert gained > 0.05
    assert np.sqrt(np.mean((new - mean) ** 2)) < 1.01 * np.sqrt(np.mean((new - expected) ** 2))
    assert noise != "heteroscedastic" or model.fitted_.calibration.noise is not None


@pytest.mark.parametrize("noise", ["gaussian", "heteroscedastic", "heavy"])
def test_so_it_is_with_every_option_left_alone_but_the_epochs(noise):
    """A recurrent network about a linear mean, the last tenth of the rows its validation set."""
    X, y = series(9000, noise)
    model = SequenceGP(training=Training(epochs=8), random_state=0, progress=False)
    model.fit(X[:5000], y[:5000])
    mean, std = model.predict(X[5000:], return_std=True)
    new, dof = y[5000:], float(model.dof_[0])
    assert abs(coverage(new, mean, std, 0.95, dof) - 0.95) <= 0.02
    assert abs(coverage(new, mean, std, 0.5, dof) - 0.5) <= 0.04
    for level in (0.95, 0.5):
        low, high = model.interval(X[5000:], level)
        # The guarantee is on average over validation sets, of 500 rows.
        room = 3.0 * np.hypot(coverage_error(500, level), coverage_error(4000, level))
        assert abs(np.mean((new >= low) & (new <= high)) - level) <= room


def test_on_draws_of_the_model_itself_coverage_is_nominal():
    """Draws of a GP of the very kind that is fitted: its distribution of new rows is the truth."""
    rng = np.random.default_rng(3)
    n, new = 600, 2000
    X = rng.uniform(-1.0, 1.0, (n + new, 1, 1))
    x = X[:, 0, 0]
    K = np.exp(-0.5 * (x[:, None] - x) ** 2 / 0.4**2) + 1e-8 * np.eye(n + new)
    y = np.linalg.cholesky(K) @ rng.standard_normal(n + new) + 0.3 * rng.standard_normal(n + new)
    settings = {"lr": 1e-3, "theta_lr": 0.15, "theta_steps": 3, "batch_size": 600}
    model = make(
        encoder=torch.nn.Flatten(),
        gp=GP(inference="exact", latent_dim=1),
        training=settings,
        validation_fraction=0.5,
    ).fit(X[:n], y[:n])
    mean, std = model.predict(X[n:], return_std=True)
    for level in (0.5, 0.8, 0.95):
        # The scale is from 300 rows: its own sampling error is part of it.
        radius = norm.ppf(0.5 + level / 2)
        room = 3.0 * np.hypot(
            coverage_error(new, level), 2 * radius * norm.pdf(radius) / np.sqrt(600)
        )
        assert abs(coverage(y[n:], mean, std, level, float(model.dof_[0])) - level) < room


def unsteady(n, seed):
    """A wave whose noise is large for 150 rows and small for 150, again and again, and its deviation."""
    rng = np.random.default_rng(seed)
    t = np.arange(n)
    size = np.where(t // 150 % 2, 0.3, 0.03)
    return np.sin(t / 9.0) + size * rng.standard_normal(n), size


@pytest.mark.parametrize("mean", ["linear", "zero"])
def test_deviations_are_larger_where_the_series_was_unsteady_a_moment_ago(mean, tmp_path):
    """Which the features of an untrained encoder do not show: it is left here as it was drawn."""
    y, size = unsteady(3000, 0)
    windows = WindowSet(None, y, lag=12, mode="autoregression")
    training = Training(epochs=1, lr=1e-6)
    model = SequenceGP(LSTM(hidden=2), training=training, mean=mean, random_state=0).fit(windows)
    assert model.fitted_.calibration.noise is not None
    new, true = unsteady(1500, 1)
    asked = WindowSet(None, new, lag=12, mode="autoregression")
    save(model, tmp_path / "model.seqgp")
    std = np.log(model.predict(asked, return_std=True)[1])
    again = load(tmp_path / "model.seqgp").predict(asked, return_std=True)[1]
    np.testing.assert_array_equal(np.log(again), std)
    calm = true[asked.time] < 0.1
    # The deviation of what is large over that of what is small is 10.
    assert np.median(std[~calm]) - np.median(std[calm]) > np.log(3.0)


@pytest.mark.parametrize(("lag", "columns"), [(12, 2), (2, 0)])
def test_the_noise_network_sees_roughness_of_windows_that_have_any(lag, columns):
    windows = WindowSet(None, unsteady(300, 0)[0], lag=lag, mode="autoregression")
    model = SequenceGP(LSTM(hidden=4), training=Training(epochs=1), random_state=0).fit(windows)
    encoded = model.fitted_.members[0].encode(torch.zeros(3, lag, 1))
    assert encoded.features.shape == (3, 4 + columns)


def test_intervals_of_several_outputs_and_their_errors():
    X, y = series(700, "gaussian")
    both = np.stack([y, 10.0 * y + 3.0], 1)
    model = make(epochs=3).fit(X[:500], both[:500])
    low, high = model.interval(X[500:], 0.8)
    assert low.shape == high.shape == (200, 2)
    assert (low < high).all()
    with pytest.raises(ValueError, match="between 0 and 1"):
        model.interval(X, 95)
    with pytest.raises(ValueError, match="no validation residuals"):
        make(epochs=1, calibrate=False).fit(X, y).interval(X)


def test_the_distribution_is_that_of_predict_and_of_intervals():
    X, y = series(700, "heavy")
    model = make(epochs=3).fit(X[:500], y[:500])
    found = model.fitted_.predict(X[500:])
    mean, std = model.predict(X[500:], return_std=True)
    np.testing.assert_array_equal(found.mean, mean)
    np.testing.assert_array_equal(found.std, std)
    assert found.dof == model.dof_[0]
    low, high = model.interval(X[500:], 0.9)
    radius = model.fitted_.calibration.radius(0.9)
    np.testing.assert_allclose(high - mean, radius * std)
    np.testing.assert_allclose(mean - low, radius * std)
    latent = model.predict(X[500:], return_std=True, observed=False)
    np.testing.assert_array_equal(latent[0], mean)
    assert (latent[1] < std).all()


def test_a_target_that_is_linear_in_the_window_is_predicted_as_well_as_by_the_mean_function():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2300, 6, 2))
    y = X[:, -1, 0] - 0.5 * X[:, -3, 1] + 0.3 * rng.standard_normal(2300)
    model = make(mean="linear", epochs=15, validation_fraction=0.1, gp="rbf").fit(X[:300], y[:300])
    fitted = model.fitted_
    line = fitted.mean.predict(fitted.inputs(X[300:])).mean.numpy()[:, 0]
    alone = y[300:] - fitted.y_scaler.inverse(line)
    error = y[300:] - model.predict(X[300:])
    assert np.mean(error**2) < 1.05 * np.mean(alone**2)


# A level that moves.


def moved(n=2400):
    """The level rises after 1,000 rows."""
    X, y = series(n, "gaussian")
    return X, y + np.where(np.arange(n) < 1000, 0.0, 0.6)


def test_a_level_that_moved_after_training_is_followed():
    X, y = moved()
    with pytest.warns(TrainingWarning, match="the level has moved since training.*adaptive"):
        model = make().fit(X[:1000], y[:1000], validation=(X[1000:1600], y[1000:1600]))
    unit = model.fitted_.y_scaler.scale
    assert float(model.fitted_.calibration.shift[0] * unit) == pytest.approx(0.6, abs=0.08)
    before, std = model.predict(X[1600:], return_std=True)
    assert abs(np.mean(y[1600:] - before)) < 0.08
    assert coverage(y[1600:], before, std, 0.95, model.dof_[0]) == pytest.approx(0.95, abs=0.03)
    # Rows of the new level join the posterior at that level, and are not counted twice.
    model.update(X[1000:1600], y[1000:1600])
    assert abs(np.mean(y[1600:] - model.predict(X[1600:]))) < 0.08


def test_a_small_shift_is_made_without_a_warning():
    error = torch.linspace(-1.0, 1.0, 101, dtype=torch.float64)[:, None]
    half = 0.5 * error.std(0, correction=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_moved(0.9 * half, error)
    with pytest.warns(TrainingWarning, match="is 0.6 standard deviations"):
        warn_if_moved(-1.1 * half, error)


@pytest.mark.filterwarnings("ignore::seqgp.TrainingWarning")
def test_rows_held_back_at_the_new_level_join_the_posterior_there():
    X, y = moved()
    model = make(validation_fraction=0.375).fit(X[:1600], y[:1600])
    assert float(model.fitted_.calibration.shift[0]) > 0.0
    assert abs(np.mean(y[1600:] - model.predict(X[1600:]))) < 0.08


# A second training.


@pytest.mark.filterwarnings("ignore::seqgp.TrainingWarning")
def test_refit_is_not_shifted_and_as_unsure_as_before_the_shift():
    X, y = moved()
    model = make().fit(X[:1000], y[:1000], validation=(X[1000:1600], y[1000:1600]))
    off = float(model.fitted_.calibration.shift[0] * model.fitted_.y_scaler.scale)
    _, std = model.predict(X[1600:], return_std=True)
    model.refit(X[:1600], y[:1600])
    assert not model.fitted_.calibration.shift.any()
    _, wider = model.predict(X[1600:], return_std=True)
    assert np.mean(wider) > np.hypot(np.mean(std), 0.8 * off)
    scale = model.fitted_.calibration.scale.copy()
    again = model.refit(X[:1600], y[:1600]).fitted_.calibration.scale
    np.testing.assert_allclose(again, scale)


def test_refit_trains_on_all_rows_and_keeps_the_calibration():
    X, y = series(1500, "heteroscedastic")
    held = (X[900:1400], y[900:1400])
    options = {"training": {"pretrain_epochs": 3}}
    model = make(**options).fit(X[:900], y[:900], validation=held)
    first, record = model.fitted_.calibration, model.fitted_.members[0].record
    assert model.fitted_.rows == 900
    before, _ = model.predict(X[1400:], return_std=True)
    state = model.fitted_.members[0].layer.state_dict()
    theta = {name: value.clone() for name, value in state.items()}
    assert model.refit(X[:1400], y[:1400]) is model
    # There is no validation set to limit how far the likelihood may move them.
    again = model.fitted_.members[0]
    torch.testing.assert_close(dict(again.layer.state_dict()), theta, rtol=0.0, atol=0.0)
    assert model.fitted_.rows == 1400
    for name in {field.name for field in fields(first)} - {"scale", "noise"}:
        np.testing.assert_array_equal(
            getattr(model.fitted_.calibration, name), getattr(first, name)
        )
    assert model.history_.epoch.iloc[-1] == record.best_epoch
    assert again.record.pretrained_epochs == record.pretrained_epochs
    assert model.fitted_.calibration.noise is not None
    mean, _ = model.predict(X[1400:], return_std=True)
    assert not np.array_equal(mean, before)
    twin = make(**options).fit(X[:900], y[:900], validation=held)
    np.testing.assert_array_equal(twin.refit(X[:1400], y[:1400]).predict(X[1400:]), mean)
    with pytest.raises(ValueError, match="expected"):
        model.refit(X[:50], np.ones((50, 2)))


@pytest.mark.parametrize("kind", [SequenceGP, SequenceNet])
def test_refit_on_the_same_rows_is_the_same_fit(kind):
    X, y = series(600, "gaussian")
    model = make(kind, epochs=3, members=2)
    model.fit(X[:400], y[:400], validation=(X[400:], y[400:]))
    mean = model.predict(X[400:])
    np.testing.assert_allclose(model.refit(X[:400], y[:400]).predict(X[400:]), mean, rtol=1e-6)


@pytest.mark.parametrize("kind", [SequenceGP, SequenceNet])
def test_refit_counts_the_size_of_validation_residuals_once(kind):
    """A noise that was trained on those rows too is larger by itself."""
    X, y = series(1600, "gaussian")
    quiet = np.arange(1600) < 800
    y = y + np.random.default_rng(1).normal(size=1600) * np.where(quiet, 0.0, 2.0 * y.std())
    model = make(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)
        model.fit(X[:800], y[:800], validation=(X[800:1200], y[800:1200]))
    _, before = model.predict(X[:1200], return_std=True)
    scale = float(model.fitted_.calibration.scale[0])
    model.refit(X[:1200], y[:1200])
    _, after = model.predict(X[:1200], return_std=True)
    assert float(model.fitted_.calibration.scale[0]) < 0.8 * scale
    assert np.mean(np.log(after)) == pytest.approx(np.mean(np.log(before)), abs=0.05)


def test_refit_of_a_model_without_a_validation_set_corrects_nothing():
    X, y = series(600, "gaussian")
    model = make(epochs=2, validation_fraction=0.0).fit(X[:300], y[:300])
    calibration = model.refit(X, y).fitted_.calibration
    assert (calibration.scale[0], calibration.shift[0], calibration.rows) == (1.0, 0.0, 0)


def test_epoch_zero_of_a_pretrained_network_may_be_the_best():
    X, y = series(900, "gaussian")
    harmful = {"pretrain_epochs": 20, "lr": 1.0, "pretrain_lr": 0.01}
    model = make(training=harmful).fit(X[:700], y[:700])
    assert model.history_.epoch.iloc[0] == 0
    assert model.fitted_.members[0].record.best_epoch == 0
    assert model.score(X[700:], y[700:]) > 0.75
