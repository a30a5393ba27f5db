"""Errors of rows that were not trained on: their size, shape and tails, and intervals from them."""

import warnings
from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from scipy.stats import norm
from scipy.stats import t as student_t
from seqgp.artifact import load, save
from seqgp.estimator.calibrating import encode_both
from seqgp.training.corrections import beyond_line, clear_shift, clear_slope
from seqgp.training.health import warn_if_moved
from seqgp.training.noise import (
    Calibration,
    Errors,
    fit_calibration,
    fit_shape,
    ranks_kept,
)

from seqgp import SequenceGP, SequenceNet, TrainingWarning, WindowSet
from seqgp.metrics import coverage, coverage_error, nlpd


def errors(n, *, slope=0.0, dof=np.inf, seed=0, width=3, scale=1.0):
    """Errors whose log variance is ``slope`` times the first feature, and a model that says 1."""
    rng = np.random.default_rng(seed)
    features = torch.as_tensor(rng.standard_normal((n, width)))
    unit = rng.standard_normal(n)
    if np.isfinite(dof):
        unit = rng.standard_t(dof, n) * np.sqrt((dof - 2) / dof)
    error = torch.as_tensor(unit) * torch.exp(0.5 * slope * features[:, 0]) * scale
    zeros = torch.zeros(n, 1, dtype=torch.float64)
    return Errors(features, zeros, zeros, zeros, error[:, None], torch.ones_like(zeros))


def test_the_size_of_gaussian_errors_is_found():
    found = fit_calibration(errors(4000, scale=3.0), None, 0)
    assert found.scale[0] == pytest.approx(9.0, rel=0.1)
    assert found.trust[0] == 0.0
    assert found.dof[0] > 20  # a Gaussian, or close to one


def test_a_few_rows_move_little():
    few, many = (fit_calibration(errors(n, scale=3.0), None, 0).scale[0] for n in (4, 4000))
    assert 1.0 < few < many


def test_of_few_rows_those_that_are_alike_count_as_fewer():
    """Each error three times says what it says once; in another order, or of many, it says more."""
    once = errors(120, scale=0.4)
    thrice = replace(errors(360), error=once.error.repeat_interleave(3, 0))
    shuffled = replace(thrice, error=once.error.repeat(3, 1))
    scales = [fit_calibration(held, None, 0).scale[0] for held in (once, thrice, shuffled)]
    assert scales[1] == pytest.approx(scales[0], rel=0.1)
    assert scales[2] < 0.85 * scales[1]
    some = errors(400, scale=0.4).error
    alike, other = (
        replace(errors(1200), error=e) for e in (some.repeat_interleave(3, 0), some.repeat(3, 1))
    )
    found = [fit_calibration(held, None, 0).scale[0] for held in (alike, other)]
    assert found[0] == pytest.approx(found[1], rel=0.01)


@pytest.mark.parametrize("dof", [3.0, 6.0])
def test_tails_are_found(dof):
    found = fit_calibration(errors(20_000, dof=dof, scale=0.5), None, 0)
    assert found.dof[0] == pytest.approx(dof, rel=0.25)
    assert found.scale[0] == pytest.approx(0.25, rel=0.25)


def test_the_numbers_are_those_of_maximum_likelihood():
    held = errors(3000, dof=4.0, scale=2.0)
    found = fit_calibration(held, None, 0)
    e = held.error[:, 0].numpy()

    def density(variance, dof):
        unit = np.sqrt(variance * (dof - 2) / dof)
        return -np.sum(student_t.logpdf(e, dof, scale=unit))

    best = density(found.scale[0], found.dof[0])
    for variance in (0.9, 1.1):
        for tail in (0.9, 1.1):
            nearby = density(found.scale[0] * variance, found.dof[0] * tail)
            assert best < nearby + 0.5  # but for the weight of a few rows


def test_the_shape_of_the_noise_is_found_and_trusted():
    train, held = errors(3000, slope=2.0, seed=1), errors(2000, slope=2.0, seed=2)
    shape, steps = fit_shape(train, held)
    assert steps > 0
    found = fit_calibration(held, shape, steps)
    new = errors(4000, slope=2.0, seed=3)
    said = torch.as_tensor(found.trust) * shape(new.sees())
    correlation = np.corrcoef(said[:, 0].detach(), new.features[:, 0])[0, 1]
    assert correlation > 0.95
    assert float(said.detach().std()) == pytest.approx(2.0, rel=0.2)
    variance = new.variance * found.factor(shape(new.sees()).detach(), new.variance)
    ratio = (new.error.square() / variance).detach().numpy()
    assert 0.9 < ratio.mean() < 1.1


def test_no_shape_is_made_up_of_errors_without_one():
    assert fit_shape(errors(2000, seed=1), errors(1000, seed=2))[1] == 0
    assert fit_shape(errors(100, slope=1.0, seed=1), errors(12, slope=-1.0, seed=2))[1] == 0


def test_a_shape_that_training_errors_only_have_is_not_trusted():
    train, held = errors(2000, slope=2.0, seed=1), errors(1000, slope=-2.0, seed=2)
    assert fit_shape(train, held)[1] == 0


def test_the_shape_of_a_known_length_is_the_same_again():
    train, held = errors(800, slope=2.0, seed=1), errors(800, slope=2.0, seed=2)
    shape, steps = fit_shape(train, held)
    again, _ = fit_shape(train, steps=steps)
    np.testing.assert_allclose(again(held.sees()).detach(), shape(held.sees()).detach(), rtol=1e-6)


def test_radius_is_the_order_statistic():
    scores = np.arange(1.0, 101.0)[:, None]
    found = replace(Calibration.none(1), rows=100, scores=scores)
    assert found.radius(0.5) == 51.0  # ⌈101 · 0.5⌉
    assert found.radius(0.95) == 96.0
    with pytest.raises(ValueError, match="needs 199 validation rows, and there were 100"):
        found.radius(0.995)
    with pytest.raises(ValueError, match="no validation errors"):
        Calibration.none(1).radius(0.9)


def test_intervals_of_few_rows_are_not_narrower_than_the_distribution():
    scores = np.linspace(0.0, 1.0, 100)[:, None]  # all small, as luck would have it
    few = replace(Calibration.none(1), dof=np.array([4.0]), rows=100, scores=scores)
    assert few.radius(0.95)[0] == pytest.approx(student_t.ppf(0.975, 4.0) / np.sqrt(2.0))
    gaussian = replace(few, dof=np.array([np.inf]))
    assert gaussian.radius(0.95)[0] == pytest.approx(norm.ppf(0.975))
    assert replace(few, scores=10.0 * scores).radius(0.95) == 10.0 * scores[95]
    many = replace(few, rows=500, scores=np.linspace(0.0, 1.0, 500)[:, None])
    assert many.radius(0.95) == many.scores[475]


@pytest.mark.parametrize(
    ("draw", "law"),
    [
        (lambda rng: rng.standard_normal(49), norm()),
        (lambda rng: rng.standard_t(3, 49), student_t(3)),
    ],
)
def test_intervals_of_few_like_rows_hold_little_more_than_their_level(draw, law):
    rng = np.random.default_rng(0)
    shares = []
    for _ in range(100):
        error = torch.as_tensor(draw(rng))[:, None]
        none = torch.zeros_like(error)
        held = Errors(none, none, none, none, error, torch.ones_like(error))
        found = fit_calibration(held, None, 0)
        radii = [float(found.radius(level)[0] * np.sqrt(found.scale[0])) for level in (0.5, 0.95)]
        shares.append(2.0 * law.cdf(radii) - 1.0)
    half, most = np.mean(shares, 0)
    assert 0.48 < half < 0.54
    assert 0.94 < most < 0.98


def test_of_many_errors_some_are_kept_and_never_a_smaller_one():
    rows = 123_457
    kept = ranks_kept(rows)
    assert len(kept) <= 2000
    assert (kept[0], kept[-1]) == (1, rows)
    scores = kept[:, None].astype(float)
    found = replace(Calibration.none(1), rows=rows, scores=scores)
    for level in (0.5, 0.9, 0.95, 0.999):
        exact = np.ceil((rows + 1) * level)
        assert exact <= found.radius(level)[0] <= exact + rows / 1900


def test_a_shift_needs_errors_on_one_side_all_along():
    rng = np.random.default_rng(0)
    noise = torch.as_tensor(rng.standard_normal((2000, 3)))
    noise[:, 1] += 0.5
    noise[:, 2] += torch.linspace(-1.0, 1.2, 2000)  # off in the end, and to the other side before
    shift = clear_shift(noise)
    assert shift[1] == noise[:, 1].mean()
    assert shift[0] == shift[2] == 0.0
    assert clear_shift(noise[:499])[1] == 0.0  # too few rows to say


def test_errors_that_wander_are_rarely_taken_for_a_shift():
    """Neighbours correlated by 0.9: a standard error as of independent rows would see a third of them."""
    rng = np.random.default_rng(1)
    error = np.zeros((2000, 400))
    for t in range(1, 2000):
        error[t] = 0.9 * error[t - 1] + rng.standard_normal(400)
    independent = 3.0 * error.std(0) / np.sqrt(2000)
    assert np.mean(np.abs(error.mean(0)) > independent) > 0.3
    assert (clear_shift(torch.as_tensor(error)) != 0.0).double().mean() < 0.04


# The estimator, end to end.


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


OPTIONS = dict(
    encoder="narx", hidden=16, epochs=12, lr=0.01, mean="zero", latent_dim=1, inference="grid",
    validation_fraction=0.3, random_state=0, progress=False,
)  # fmt: skip


@pytest.mark.parametrize("noise", ["gaussian", "heteroscedastic", "heavy"])
def test_the_default_keeps_its_coverage_whatever_the_noise(noise):
    X, y = series(9000, noise)
    model = SequenceGP(**OPTIONS).fit(X[:4000], y[:4000])
    mean, std = model.predict(X[4000:], return_std=True)
    new, dof = y[4000:], float(model.dof_[0])
    assert abs(coverage(new, mean, std, 0.95, dof) - 0.95) <= 0.02
    assert abs(coverage(new, mean, std, 0.5, dof) - 0.5) <= 0.04
    for level, room in ((0.95, 0.02), (0.5, 0.04)):
        low, high = model.interval(X[4000:], level)
        assert abs(np.mean((new >= low) & (new <= high)) - level) <= room
    plain = SequenceGP(**OPTIONS, calibrate=False).fit(X[:4000], y[:4000])
    expected, raw = plain.predict(X[4000:], return_std=True)
    if noise != "gaussian":
        gained = nlpd(new, expected, raw) - nlpd(new, mean, std, dof)
        assert gained > 0.05
    assert np.sqrt(np.mean((new - mean) ** 2)) < 1.01 * np.sqrt(np.mean((new - expected) ** 2))
    assert noise != "heteroscedastic" or model.noise_shape_ is not None


@pytest.mark.parametrize("noise", ["gaussian", "heteroscedastic", "heavy"])
def test_so_does_a_model_with_every_option_left_alone_but_the_epochs(noise):
    """A recurrent network about a line, whose last tenth of rows is held back."""
    X, y = series(9000, noise)
    model = SequenceGP(epochs=8, random_state=0, progress=False).fit(X[:5000], y[:5000])
    mean, std = model.predict(X[5000:], return_std=True)
    new, dof = y[5000:], float(model.dof_[0])
    assert abs(coverage(new, mean, std, 0.95, dof) - 0.95) <= 0.02
    assert abs(coverage(new, mean, std, 0.5, dof) - 0.5) <= 0.04
    for level in (0.95, 0.5):
        low, high = model.interval(X[5000:], level)
        # Its guarantee is on average over validation rows, of which there are 500.
        room = 3.0 * np.hypot(coverage_error(500, level), coverage_error(4000, level))
        assert abs(np.mean((new >= low) & (new <= high)) - level) <= room


def test_on_data_from_the_model_itself_coverage_is_nominal():
    """Draws of a GP of the very kind that is fitted: what it says of new rows is the truth."""
    rng = np.random.default_rng(3)
    n, new = 600, 2000
    X = rng.uniform(-1.0, 1.0, (n + new, 1, 1))
    x = X[:, 0, 0]
    K = np.exp(-0.5 * (x[:, None] - x) ** 2 / 0.4**2) + 1e-8 * np.eye(n + new)
    y = np.linalg.cholesky(K) @ rng.standard_normal(n + new) + 0.3 * rng.standard_normal(n + new)
    model = SequenceGP(
        encoder=torch.nn.Flatten(), latent_dim=1, mean="zero", epochs=12, lr=1e-3, theta_lr=0.15,
        theta_steps=3, batch_size=600, validation_fraction=0.5, random_state=0, progress=False,
        inference="exact",
    ).fit(X[:n], y[:n])  # fmt: skip
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
def test_errors_are_known_to_be_large_where_the_series_was_unsteady_a_moment_ago(mean, tmp_path):
    """Which an encoder that has learnt nothing does not show: here it is left as it was drawn."""
    y, size = unsteady(3000, 0)
    windows = WindowSet(None, y, lag=12, mode="autoregression")
    model = SequenceGP(hidden=2, epochs=1, lr=1e-6, mean=mean, random_state=0).fit(windows)
    assert model.noise_shape_ is not None
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
def test_the_shape_sees_roughness_of_windows_that_have_any(lag, columns):
    windows = WindowSet(None, unsteady(300, 0)[0], lag=lag, mode="autoregression")
    model = SequenceGP(hidden=4, epochs=1, random_state=0).fit(windows)
    seen, _ = encode_both(model, torch.zeros(3, lag, 1))
    assert seen.shape == (3, 4 + columns)


def test_refit_trains_on_all_rows_and_keeps_what_validation_said():
    X, y = series(1500, "heteroscedastic")
    model = SequenceGP(**OPTIONS | {"pretrain_epochs": 3}).fit(
        X[:900], y[:900], validation=(X[900:1400], y[900:1400])
    )
    said, best, early = model.calibration_, model.best_epoch_, model.pretrained_epochs_
    assert model.n_rows_ == 900
    before, _ = model.predict(X[1400:], return_std=True)
    theta = {name: value.clone() for name, value in model.gp_.state_dict().items()}
    assert model.refit(X[:1400], y[:1400]) is model
    # No validation rows are left to say how far the likelihood may move them.
    torch.testing.assert_close(dict(model.gp_.state_dict()), theta, rtol=0.0, atol=0.0)
    assert model.n_rows_ == 1400
    for name in {field.name for field in fields(said)} - {"scale"}:
        np.testing.assert_array_equal(getattr(model.calibration_, name), getattr(said, name))
    assert model.history_.epoch.iloc[-1] == best
    assert model.pretrained_epochs_ == early
    assert model.noise_shape_ is not None
    mean, std = model.predict(X[1400:], return_std=True)
    assert not np.array_equal(mean, before)
    again = SequenceGP(**OPTIONS | {"pretrain_epochs": 3}).fit(
        X[:900], y[:900], validation=(X[900:1400], y[900:1400])
    )
    np.testing.assert_array_equal(again.refit(X[:1400], y[:1400]).predict(X[1400:]), mean)
    with pytest.raises(ValueError, match="expected"):
        model.refit(X[:50], np.ones((50, 2)))


def test_refit_on_the_same_rows_is_the_same_fit():
    X, y = series(600, "gaussian")
    held = (X[400:], y[400:])
    options = OPTIONS | {"epochs": 3, "restarts": 2}
    model = SequenceNet(
        **{k: v for k, v in options.items() if k not in {"latent_dim", "inference"}}
    )
    model.fit(X[:400], y[:400], validation=held)
    mean = model.predict(X[400:])
    if model.best_epoch_ == 3:  # else the last epoch is not the one that was kept
        np.testing.assert_allclose(model.refit(X[:400], y[:400]).predict(X[400:]), mean, rtol=1e-6)


def test_epoch_zero_of_a_pretrained_network_may_be_the_best():
    X, y = series(900, "gaussian")
    model = SequenceGP(**OPTIONS | {"pretrain_epochs": 20, "lr": 1.0, "pretrain_lr": 0.01})
    model.fit(X[:700], y[:700])
    assert model.history_.epoch.iloc[0] == 0
    assert model.best_epoch_ == 0  # what follows at that rate only does harm
    assert model.score(X[700:], y[700:]) > 0.75


def test_intervals_of_several_outputs_and_their_errors():
    X, y = series(700, "gaussian")
    both = np.stack([y, 10.0 * y + 3.0], 1)
    model = SequenceGP(**OPTIONS | {"epochs": 3}).fit(X[:500], both[:500])
    low, high = model.interval(X[500:], 0.8)
    assert low.shape == high.shape == (200, 2)
    assert (low < high).all()
    with pytest.raises(ValueError, match="between 0 and 1"):
        model.interval(X, 95)
    with pytest.raises(ValueError, match="no validation errors"):
        SequenceGP(**OPTIONS | {"epochs": 1, "calibrate": False}).fit(X, y).interval(X)


def slope_of(learnt, left, start=0.0):
    learnt, left = (torch.as_tensor(each, dtype=torch.float64)[:, None] for each in (learnt, left))
    return float(clear_slope(learnt, left, start))


@pytest.mark.parametrize("start", [0.0, 1.0])
def test_slope_is_that_of_least_squares_where_it_is_certain(start):
    rng = np.random.default_rng(0)
    learnt = rng.normal(size=5000) + 3.0
    left = 0.7 * learnt + 0.1 * rng.normal(size=5000) + 1.0  # the level is not the slope's
    assert slope_of(learnt, left, start) == pytest.approx(np.polyfit(learnt, left, 1)[0], abs=1e-4)
    assert slope_of(learnt, 1.5 * learnt, start) == 1.0
    assert slope_of(learnt, -learnt, start) == 0.0
    assert slope_of(learnt[:499], -learnt[:499], start) == 1.0  # too few to say
    assert 0.0 <= slope_of(0.0 * learnt, left, start) <= 1.0


@pytest.mark.parametrize("size", [0.05, 0.1, 0.3])
def test_a_shrunk_slope_costs_little_where_all_was_true_and_gains_where_it_was_chance(size):
    """Excess squared error of the shrunk part, in units of the error from leaving all of it out."""
    rng = np.random.default_rng(1)
    true, chance = [], []
    for _ in range(200):
        learnt = size * rng.normal(size=600)
        noise = rng.normal(size=600)
        true.append((1.0 - slope_of(learnt, learnt + noise)) ** 2)
        chance.append(slope_of(learnt, noise) ** 2)
    assert np.mean(chance) < 0.65  # all of it would cost 1
    assert np.mean(true) < (0.65 if size < 0.1 else 0.3 if size < 0.3 else 0.03)


def test_slope_is_judged_by_blocks_in_time():
    """An agreement in one stretch of time alone is chance, however many rows it has."""
    rng = np.random.default_rng(2)
    learnt = np.repeat(rng.normal(size=20), 100)
    left = np.where(np.arange(2000) < 200, learnt, 0.0) + 0.01 * rng.normal(size=2000)
    mixed = rng.permutation(2000)
    assert slope_of(learnt, left) < 0.5 * slope_of(learnt[mixed], left[mixed])


def test_what_gains_little_beyond_a_line_is_left_out():
    """By the log of a Gaussian's likelihood ratio at the best level and noise, of all outputs."""
    rng = np.random.default_rng(0)
    learnt, noise = rng.normal(size=(2, 400))
    gains = []
    for size in (0.1, 0.3):
        left = size * learnt + noise
        density = [
            norm.logpdf(each, each.mean(), each.std()).sum()
            for each in (left, left - size * learnt)
        ]
        gains.append(density[1] - density[0])
    assert gains[0] < 10.0 < gains[1]
    both = torch.as_tensor(np.stack([0.1 * learnt, 0.3 * learnt], 1))
    left = both + torch.as_tensor(noise)[:, None]
    assert [float(beyond_line(both[:, [k]], left[:, [k]])) for k in range(2)] == [0.0, 1.0]
    assert beyond_line(-both, left).tolist() == [0.0, 0.0]
    # Outputs are of one network: what it has learnt for one speaks for what it says of another, unless
    # that one loses by it.
    assert beyond_line(both, left).tolist() == [1.0, 1.0]
    assert beyond_line(both * torch.tensor([-1.0, 1.0]), left).tolist() == [0.0, 1.0]
    # Rows by the thousand tell what is small too, and how much of it is there.
    learnt, noise = torch.as_tensor(rng.normal(size=(2, 20_000, 1)))
    assert float(beyond_line(0.2 * learnt, 0.1 * learnt + noise)) == pytest.approx(0.5, abs=0.15)
    # A gain of 25 nats would do for a few hundred rows, and is chance among so many.
    assert float(beyond_line(0.05 * learnt, 0.05 * learnt + noise)) == 0.0


def test_a_target_that_is_linear_in_the_window_is_predicted_by_the_line():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 6, 2))
    y = X[:, -1, 0] - 0.5 * X[:, -3, 1] + 0.3 * rng.standard_normal(400)
    options = dict(hidden=16, epochs=15, lr=0.01, random_state=0, progress=False)
    model = SequenceGP(**options).fit(X[:300], y[:300])
    line = model.mean_function_.predict(torch.as_tensor(model.x_scaler_.transform(X[300:])))[0]
    expected = model.y_scaler_.inverse(line.numpy()[:, 0])
    np.testing.assert_allclose(model.predict(X[300:]), expected, rtol=1e-6, atol=1e-6)
    bent = y + np.abs(X[:, -1, 1])
    assert float(SequenceGP(**options).fit(X[:300], bent[:300]).calibration_.slope[0]) > 0.5


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"mean": "linear"}, "slope"),
        ({"readout": True, "pretrain_epochs": 15, "pretrain_lr": 0.01}, "share"),
    ],
)
def test_fit_leaves_out_what_validation_rows_do_not_bear_out(options, name):
    """A wave that is 0.6 of its size in rows newer than those trained on."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(2400, 6, 1))
    wave = np.cos(2.0 * X[:, -1, 0])
    y = X[:, -1, 0] + np.where(np.arange(2400) < 800, 1.0, 0.6) * wave
    y += 0.1 * rng.standard_normal(2400)
    model = SequenceGP(**OPTIONS | {"epochs": 20} | options)
    model.fit(X[:800], y[:800], validation=(X[800:1600], y[800:1600]))
    found = {each: float(getattr(model.calibration_, each)[0]) for each in ("slope", "share")}
    assert 0.1 < found.pop(name) < 0.9
    assert found.popitem()[1] == 1.0  # no line in the one, no readout in the other
    kept = model.score(X[1600:], y[1600:])
    model.calibration_ = replace(model.calibration_, slope=np.ones(1), share=np.ones(1))
    model._condition()
    assert kept > model.score(X[1600:], y[1600:]) + 0.005


def test_a_gp_beside_a_readout_has_the_share_that_it_is_given():
    X, y = series(900, "gaussian")
    model = SequenceGP(**OPTIONS | {"epochs": 2, "pretrain_epochs": 3, "readout": True})
    model.fit(X[:700], y[:700])
    ends = []
    for share in (0.0, 0.25, 1.0):
        model.calibration_ = replace(model.calibration_, share=np.array([share]))
        model._condition()
        ends.append(model.predict(X[700:]))
    assert np.abs(ends[2] - ends[0]).max() > 0.0
    np.testing.assert_allclose(ends[1], 0.75 * ends[0] + 0.25 * ends[2])
    inputs = torch.as_tensor(model.x_scaler_.transform(X[700:]), dtype=torch.float32)
    with torch.no_grad():
        alone = model.network_(inputs)[:, model.gp_.latent_dim :].double().numpy()[:, 0]
    np.testing.assert_allclose(ends[0], model.y_scaler_.inverse(alone), rtol=1e-6)
    model.calibration_ = replace(model.calibration_, share=np.array([0.25]))
    assert float(model.refit(X[:700], y[:700]).calibration_.share[0]) == 0.25


def test_predictions_have_so_much_of_what_was_learnt_as_the_slope_says():
    X, y = series(900, "gaussian")
    model = SequenceGP(**OPTIONS | {"epochs": 3}).fit(X[:700], y[:700])
    ends = []
    for slope in (0.0, 0.25, 1.0):
        model.calibration_ = replace(model.calibration_, slope=np.array([slope]))
        ends.append(model.predict(X[700:]))
    np.testing.assert_allclose(ends[1], 0.75 * ends[0] + 0.25 * ends[2])
    line = model.mean_function_.predict(torch.as_tensor(model.x_scaler_.transform(X[700:])))[0]
    np.testing.assert_allclose(ends[0], model.y_scaler_.inverse(line.numpy()[:, 0]), rtol=1e-6)
    model.calibration_ = replace(model.calibration_, slope=np.array([0.25]))
    assert float(model.refit(X[:700], y[:700]).calibration_.slope[0]) == 0.25


def test_a_level_that_moved_after_training_is_followed():
    X, y = series(2400, "gaussian")
    y = y + np.where(np.arange(2400) < 1000, 0.0, 0.6)
    with pytest.warns(TrainingWarning, match="the level has moved since training.*adaptive"):
        model = SequenceGP(**OPTIONS).fit(
            X[:1000], y[:1000], validation=(X[1000:1600], y[1000:1600])
        )
    unit = model.y_scaler_.scale
    assert float(model.calibration_.shift[0] * unit) == pytest.approx(0.6, abs=0.08)
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
    with pytest.warns(TrainingWarning, match="lie 0.6 deviations"):
        warn_if_moved(-1.1 * half, error)


def test_rows_held_back_at_the_new_level_join_the_posterior_there():
    X, y = series(2400, "gaussian")
    y = y + np.where(np.arange(2400) < 1000, 0.0, 0.6)
    model = SequenceGP(**OPTIONS | {"validation_fraction": 0.375}).fit(X[:1600], y[:1600])
    assert float(model.calibration_.shift[0]) > 0.0
    assert abs(np.mean(y[1600:] - model.predict(X[1600:]))) < 0.08


def test_refit_is_not_shifted_and_as_unsure_as_before_the_shift():
    X, y = series(2400, "gaussian")
    y = y + np.where(np.arange(2400) < 1000, 0.0, 0.6)
    model = SequenceGP(**OPTIONS).fit(X[:1000], y[:1000], validation=(X[1000:1600], y[1000:1600]))
    off = float(model.calibration_.shift[0] * model.y_scaler_.scale)
    _, std = model.predict(X[1600:], return_std=True)
    model.refit(X[:1600], y[:1600])
    assert not model.calibration_.shift.any()
    _, wider = model.predict(X[1600:], return_std=True)
    assert np.mean(wider) > np.hypot(np.mean(std), 0.8 * off)
    said = model.calibration_.scale.copy()
    np.testing.assert_allclose(model.refit(X[:1600], y[:1600]).calibration_.scale, said)


@pytest.mark.parametrize("kind", [SequenceGP, SequenceNet])
def test_refit_counts_what_validation_rows_said_of_the_size_once(kind):
    """A noise that has learnt from those rows too is larger by itself."""
    X, y = series(1600, "gaussian")
    quiet = np.arange(1600) < 800
    y = y + np.random.default_rng(1).normal(size=1600) * np.where(quiet, 0.0, 2.0 * y.std())
    model = kind(**{k: v for k, v in OPTIONS.items() if k in kind().get_params()})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)
        model.fit(X[:800], y[:800], validation=(X[800:1200], y[800:1200]))
    _, before = model.predict(X[:1200], return_std=True)
    said = float(model.variance_scale_[0])
    model.refit(X[:1200], y[:1200])
    _, after = model.predict(X[:1200], return_std=True)
    assert float(model.variance_scale_[0]) < 0.8 * said
    assert np.mean(np.log(after)) == pytest.approx(np.mean(np.log(before)), abs=0.05)


def test_refit_of_a_model_that_asked_no_validation_rows_is_taken_at_its_word():
    X, y = series(600, "gaussian")
    model = SequenceGP(**OPTIONS | {"epochs": 2, "validation_fraction": 0.0}).fit(X[:300], y[:300])
    assert float(model.refit(X, y).variance_scale_[0]) == 1.0
