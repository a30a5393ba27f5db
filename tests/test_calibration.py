"""The error bar from predictions, truths and features alone: size, noise network, tails, intervals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import norm
from scipy.stats import t as student_t

from seqgp.calibration import (
    Calibration,
    NoiseNet,
    level_shift,
    ranks_kept,
    roughness,
    roughness_width,
)
from seqgp.calibration.corrections import fit_tails
from seqgp.calibration.noise_net import Rows, fit_noise
from seqgp.distributions import Gaussian


def sample(n, *, slope=0.0, dof=np.inf, seed=0, width=3, scale=1.0):
    """Truths whose log variance is ``slope`` times the first feature, predicted as 0 with variance 1."""
    rng = np.random.default_rng(seed)
    features = torch.as_tensor(rng.standard_normal((n, width)))
    unit = rng.standard_normal(n)
    if np.isfinite(dof):
        unit = rng.standard_t(dof, n) * np.sqrt((dof - 2) / dof)
    y = torch.as_tensor(unit) * torch.exp(0.5 * slope * features[:, 0]) * scale
    zeros = torch.zeros(n, 1, dtype=torch.float64)
    return Gaussian(zeros, torch.ones_like(zeros)), y[:, None], features


def as_rows(predicted, y, features):
    return Rows(predicted, y - predicted.mean, features)


# Size and tails.


def test_the_size_of_gaussian_errors_is_found():
    found = Calibration.fit(*sample(4000, scale=3.0))
    assert found.scale[0] == pytest.approx(9.0, rel=0.1)
    assert found.trust[0] == 0.0
    assert found.noise is None
    assert found.dof[0] > 20  # a Gaussian, or close to one


def test_a_few_rows_move_little():
    few, many = (Calibration.fit(*sample(n, scale=3.0)).scale[0] for n in (4, 4000))
    assert 1.0 < few < many


@pytest.mark.parametrize("dof", [3.0, 6.0])
def test_tails_are_found(dof):
    found = Calibration.fit(*sample(20_000, dof=dof, scale=0.5))
    assert found.dof[0] == pytest.approx(dof, rel=0.25)
    assert found.scale[0] == pytest.approx(0.25, rel=0.25)


def test_tails_are_a_gaussians_where_they_may_not_be_heavier():
    found = Calibration.fit(*sample(5000, dof=3.0), tails=False)
    assert found.dof[0] == np.inf


def test_the_numbers_are_those_of_maximum_likelihood():
    _, y, _ = held = sample(3000, dof=4.0, scale=2.0)
    found = Calibration.fit(*held, shift=False)
    error = y[:, 0].numpy()

    def density(variance, dof):
        unit = np.sqrt(variance * (dof - 2) / dof)
        return -np.sum(student_t.logpdf(error, dof, scale=unit))

    best = density(found.scale[0], found.dof[0])
    for variance in (0.9, 1.1):
        for tail in (0.9, 1.1):
            nearby = density(found.scale[0] * variance, found.dof[0] * tail)
            assert best < nearby + 0.5  # but for the weight of the priors


@pytest.mark.parametrize(("dof", "log_factor"), [(np.inf, 0.0), (5.0, 0.0), (5.0, 1.0)])
def test_the_loss_of_tails_is_the_density_and_its_priors(dof, log_factor):
    rng = np.random.default_rng(2)
    error = rng.standard_normal(300) if np.isinf(dof) else rng.standard_t(dof, 300)
    factor = log_factor * rng.standard_normal(300) if log_factor else None
    found = fit_tails(error**2, factor, tails=np.isfinite(dof))
    variance = found.scale * np.exp(found.trust * (0.0 if factor is None else factor))
    if np.isinf(found.dof):
        density, tail = norm.logpdf(error, scale=np.sqrt(variance)), 0.0
    else:
        unit = np.sqrt(variance * (found.dof - 2.0) / found.dof)
        density, tail = student_t.logpdf(error, found.dof, scale=unit), 1.0 / found.dof
    log_scale = np.log(found.scale)
    prior = 10.0 * (np.exp(-log_scale) - 1.0 + log_scale) + 0.5 * found.trust**2
    prior += 5.0 * (tail / 0.2 - 1.0) ** 2
    assert found.loss == pytest.approx(prior - density.sum(), rel=1e-9)


def test_each_output_is_corrected_by_its_own_errors():
    parts = [sample(3000, scale=scale, dof=dof) for scale, dof in ((2.0, np.inf), (0.5, 4.0))]
    y = torch.cat([part[1] for part in parts], 1)
    predicted, features = Gaussian(torch.zeros_like(y), torch.ones_like(y)), parts[0][2]
    found = Calibration.fit(predicted, y, features)
    for k, part in enumerate(parts):
        alone = Calibration.fit(*part)
        for name in ("shift", "scale", "trust", "dof"):
            np.testing.assert_allclose(getattr(found, name)[k], getattr(alone, name)[0], rtol=1e-6)
        np.testing.assert_allclose(found.scores[:, k], alone.scores[:, 0], rtol=1e-6)
        np.testing.assert_allclose(found.radius(0.9)[k], alone.radius(0.9)[0], rtol=1e-6)


# What a calibration does to predictions.


def test_no_correction_changes_nothing():
    predicted, _, features = sample(7)
    predicted = Gaussian(predicted.mean + torch.arange(7.0)[:, None], 4.0 * predicted.variance)
    found = Calibration.none(1)(predicted, features)
    np.testing.assert_array_equal(found.mean, predicted.mean)
    np.testing.assert_array_equal(found.std, np.full((7, 1), 2.0))
    assert np.isinf(found.dof).all()


def test_corrections_are_applied_to_level_variance_and_tails():
    predicted, _, features = sample(50, seed=3)
    net = NoiseNet(4, 1)
    correction = Calibration(
        shift=np.array([0.5]),
        scale=np.array([4.0]),
        trust=np.array([0.25]),
        dof=np.array([6.0]),
        noise=net,
        steps=1,
    )
    found = correction(predicted, features)
    seen = torch.cat([features, predicted.mean], 1)
    variance = 4.0 * np.exp(0.25 * net(seen).detach().numpy())
    np.testing.assert_allclose(found.std**2, variance, rtol=1e-12)
    np.testing.assert_allclose(found.mean, 0.5)
    assert found.dof == 6.0
    latent = correction(predicted, features, observed=False)
    np.testing.assert_array_equal(latent.std, found.std)  # the same factor, so never a larger one
    np.testing.assert_array_equal(latent.mean, found.mean)
    assert np.isinf(latent.dof)


def test_one_factor_alone_is_a_gaussian_of_that_size():
    predicted, y, features = sample(400, scale=2.0)
    found = Calibration.constant(predicted, y, torch.tensor([4.0], dtype=torch.float64))
    assert (found.noise, found.rows, found.dof[0]) == (None, 400, np.inf)
    np.testing.assert_allclose(found(predicted, features).std, 2.0)
    np.testing.assert_allclose(found.scores[:, 0], np.sort(np.abs(y[:, 0].numpy())) / 2.0)


def test_fitting_draws_no_random_numbers():
    state = torch.random.get_rng_state()
    held = sample(800, slope=2.0, seed=2)
    found = Calibration.fit(*held, train=sample(800, slope=2.0, seed=1))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert found.steps > 0
    assert not any(value.requires_grad for value in found.noise.parameters())


# The noise network.


def test_the_pattern_of_the_noise_is_found_and_trusted():
    train, held = sample(3000, slope=2.0, seed=1), sample(2000, slope=2.0, seed=2)
    found = Calibration.fit(*held, train=train)
    assert found.steps > 0
    predicted, y, features = sample(4000, slope=2.0, seed=3)
    log_variance = 2.0 * np.log(found(predicted, features).std[:, 0])
    assert np.corrcoef(log_variance, features[:, 0])[0, 1] > 0.95
    assert log_variance.std() == pytest.approx(2.0, rel=0.2)
    ratio = y[:, 0].numpy() ** 2 / np.exp(log_variance)
    assert 0.9 < ratio.mean() < 1.1


def test_its_factor_is_one_on_average_over_the_training_set():
    train = as_rows(*sample(2000, slope=2.0, seed=1))
    net, steps = fit_noise(train, as_rows(*sample(1000, slope=2.0, seed=2)))
    assert steps > 0
    assert float(net(train.seen()).mean()) == pytest.approx(0.0, abs=1e-5)


def test_none_is_made_up_of_errors_without_a_pattern():
    train, held = sample(2000, seed=1), sample(1000, seed=2)
    assert fit_noise(as_rows(*train), as_rows(*held))[1] == 0
    assert Calibration.fit(*held, train=train).noise is None
    few = as_rows(*sample(100, slope=1.0, seed=1)), as_rows(*sample(12, slope=-1.0, seed=2))
    assert fit_noise(*few)[1] == 0


def test_a_pattern_of_the_training_set_only_is_not_trusted():
    train, held = sample(2000, slope=2.0, seed=1), sample(1000, slope=-2.0, seed=2)
    assert fit_noise(as_rows(*train), as_rows(*held))[1] == 0


def test_a_training_of_known_length_is_the_same_again():
    train, held = as_rows(*sample(800, slope=2.0, seed=1)), as_rows(*sample(800, slope=2.0, seed=2))
    net, steps = fit_noise(train, held)
    again, taken = fit_noise(train, steps=steps)
    assert taken == steps
    np.testing.assert_allclose(again(held.seen()), net(held.seen()), rtol=1e-6)


# A second training, whose rows include the validation set.


def test_a_second_training_keeps_the_deviations_and_leaves_the_level():
    train, held = sample(1500, slope=2.0, seed=1), sample(1000, slope=2.0, seed=2)
    first = replace(Calibration.fit(*held, train=train), shift=np.array([0.3]))
    before, y, features = sample(2000, slope=2.0, seed=4)
    after = Gaussian(before.mean, 2.5 * before.variance)  # its own noise has grown
    found = first.carried(before, after, y, features)
    assert not found.shift.any()
    expected = first.scale / 2.5 + 0.3**2 / 2.5  # the variance grows by the square of the level
    np.testing.assert_allclose(found.scale, expected)
    for name in ("trust", "dof", "steps", "rows", "scores"):
        np.testing.assert_array_equal(getattr(found, name), getattr(first, name))
    again, _ = fit_noise(as_rows(after, y, features), steps=first.steps)
    seen = as_rows(after, y, features).seen()
    np.testing.assert_array_equal(found.noise(seen), again(seen))
    unshaped = replace(first, noise=None, steps=0)
    assert unshaped.carried(before, after, y, features).noise is None


# Intervals.


def test_radius_is_the_order_statistic():
    scores = np.arange(1.0, 101.0)[:, None]
    found = replace(Calibration.none(1), rows=100, scores=scores)
    assert found.radius(0.5) == 51.0  # ⌈101 · 0.5⌉
    assert found.radius(0.95) == 96.0
    with pytest.raises(ValueError, match="needs 199 validation rows, and there were 100"):
        found.radius(0.995)
    with pytest.raises(ValueError, match="no validation residuals"):
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
def test_intervals_of_few_exchangeable_rows_hold_little_more_than_their_level(draw, law):
    rng = np.random.default_rng(0)
    shares = []
    for _ in range(100):
        y = torch.as_tensor(draw(rng))[:, None]
        zeros = torch.zeros_like(y)
        found = Calibration.fit(Gaussian(zeros, torch.ones_like(y)), y, zeros)
        radii = [float(found.radius(level)[0] * np.sqrt(found.scale[0])) for level in (0.5, 0.95)]
        shares.append(2.0 * law.cdf(radii) - 1.0)
    half, most = np.mean(shares, 0)
    assert 0.48 < half < 0.54
    assert 0.94 < most < 0.98


def test_of_many_scores_some_are_kept_and_never_a_smaller_one():
    rows = 123_457
    kept = ranks_kept(rows)
    assert len(kept) <= 2000
    assert (kept[0], kept[-1]) == (1, rows)
    scores = kept[:, None].astype(float)
    found = replace(Calibration.none(1), rows=rows, scores=scores)
    for level in (0.5, 0.9, 0.95, 0.999):
        exact = np.ceil((rows + 1) * level)
        assert exact <= found.radius(level)[0] <= exact + rows / 1900


def test_scores_are_absolute_residuals_over_deviations():
    predicted, y, features = sample(700, scale=2.0, seed=5)
    predicted = Gaussian(predicted.mean + 0.1, predicted.variance * 3.0)
    found = Calibration.fit(predicted, y, features, shift=False)
    deviation = found(predicted, features).std
    expected = np.sort(np.abs(y.numpy() - predicted.mean.numpy()) / deviation, axis=0)
    np.testing.assert_allclose(found.scores, expected)
    assert found.rows == 700


# A level that has moved.


def test_a_shift_needs_errors_on_one_side_all_along():
    rng = np.random.default_rng(0)
    noise = torch.as_tensor(rng.standard_normal((2000, 3)))
    noise[:, 1] += 0.5
    noise[:, 2] += torch.linspace(-1.0, 1.2, 2000)  # off in the end, and to the other side before
    shift = level_shift(noise)
    assert shift[1] == noise[:, 1].mean()
    assert shift[0] == shift[2] == 0.0
    assert level_shift(noise[:499])[1] == 0.0  # too few rows to say


def test_autocorrelated_errors_are_rarely_taken_for_a_shift():
    """Neighbours correlated by 0.9: a standard error as of independent rows would see a third of them."""
    rng = np.random.default_rng(1)
    error = np.zeros((2000, 400))
    for t in range(1, 2000):
        error[t] = 0.9 * error[t - 1] + rng.standard_normal(400)
    independent = 3.0 * error.std(0) / np.sqrt(2000)
    assert np.mean(np.abs(error.mean(0)) > independent) > 0.3
    assert (level_shift(torch.as_tensor(error)) != 0.0).double().mean() < 0.04


def test_the_level_is_corrected_before_the_size_is_measured():
    predicted, y, features = sample(2000, scale=0.5)
    found = Calibration.fit(predicted, y + 3.0, features)
    assert found.shift[0] == pytest.approx(3.0, abs=0.05)
    assert found.scale[0] == pytest.approx(0.25, rel=0.1)
    np.testing.assert_allclose(found(predicted, features).mean, found.shift[0])
    kept = Calibration.fit(predicted, y + 3.0, features, shift=False)
    assert kept.shift[0] == 0.0
    assert kept.scale[0] > 8.0


# Roughness of windows, beside NumPy.


def test_roughness_is_the_size_of_second_differences():
    x = np.random.default_rng(0).standard_normal((5, 9, 3))
    bend = np.diff(x, n=2, axis=1)
    expected = [np.sqrt(np.mean(part**2, axis=1)) for part in (bend[:, -4:], bend)]
    found = roughness(torch.as_tensor(x)).exp()
    np.testing.assert_allclose(found, np.concatenate(expected, 1), rtol=1e-5)


def test_a_line_is_not_rough_and_its_log_is_finite():
    steep = torch.arange(8.0)[None, :, None] * 1000.0
    assert torch.isfinite(roughness(steep)).all()
    assert float(roughness(steep).max()) < -9.0


@pytest.mark.parametrize(("lag", "width"), [(1, 0), (2, 0), (3, 4), (9, 4)])
def test_roughness_width(lag, width):
    found = roughness(torch.randn(7, lag, 2))
    assert found.shape == (7, width) == (7, roughness_width(lag, 2))
