"""Ensembles: which members are kept, what they predict together, and what becomes of them."""

from __future__ import annotations

import json
import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch

from forecaster_data import hourly
from seqgp import (
    GP,
    LSTM,
    ArtifactError,
    Calibration,
    Forecaster,
    SequenceGP,
    SequenceNet,
    Training,
    info,
    load,
    save,
)
from seqgp.distributions import Gaussian, mixture
from seqgp.fitting import _ensemble
from seqgp.io import read, write
from seqgp.metrics import nlpd
from seqgp.report.findings import gather
from seqgp.training import Trained
from seqgp.trial import Trial

SAME = dict(random_state=0, progress=False)


def data(n=330, outputs=1, seed=1):
    """A target with a bend that few rows show badly, so that trainings differ."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 6, 1))
    y = np.tanh(2 * X[:, -1, 0]) * X[:, -2, 0] + 0.1 * rng.standard_normal(n)
    both = np.stack([y, 5.0 * X[:, -1, 0] + y + 2.0], 1)
    return X, y if outputs == 1 else both


def fitted(rows=180, outputs=1, epochs=15, **options):
    X, y = data(outputs=outputs)
    given = dict(mean="zero", members=3, training=Training(epochs=epochs, lr=0.01))
    return SequenceGP(LSTM(hidden=8), **given | SAME | options).fit(X[:rows], y[:rows])


@pytest.fixture(scope="module")
def model():
    return fitted()


def alone(model):
    """Each of the members on its own, the best first, with the corrections of the ensemble."""
    return [replace(model.fitted_, members=(member,)) for member in model.fitted_.members]


def bare(fitted):
    """Without any correction."""
    return replace(fitted, calibration=Calibration.none(len(fitted.calibration.scale)))


def trial(score):
    return Trial(torch.nn.Module(), None, Trained([], 1, score, None, None, False), 0, 0)


def test_those_that_are_nearly_as_good_as_the_best_are_kept():
    trials = [trial(0.25), trial(0.0), trial(0.35), trial(math.nan)]
    assert _ensemble(trials[1], trials, "nlpd") == [trials[1], trials[0]]
    trials = [trial(0.1), trial(0.13), trial(0.14), trial(math.inf)]
    assert _ensemble(trials[0], trials, "rmse") == trials[:2]
    failed = trial(math.inf)
    assert _ensemble(failed, [failed], "nlpd") == [failed]


def test_the_mixture_has_the_moments_of_draws_from_it():
    rng = np.random.default_rng(0)
    means, roots = rng.standard_normal((3, 1, 2)), rng.uniform(0.1, 1.0, (3, 1, 2))
    draws = means + roots * rng.standard_normal((400_000, 3, 1, 2))
    found = mixture(
        [Gaussian(*map(torch.as_tensor, (m, r**2))) for m, r in zip(means, roots, strict=True)]
    )
    np.testing.assert_allclose(found.mean, draws.mean((0, 1)), atol=0.01)
    np.testing.assert_allclose(found.variance, draws.var((0, 1)), atol=0.01)


@pytest.mark.parametrize("observed", [True, False])
def test_predictions_are_the_mean_of_all_with_their_differences_in_the_deviation(model, observed):
    X, _ = data()
    assert len(model.fitted_.members) == 3
    together = bare(model.fitted_).predict(X, observed)
    each = [bare(one).predict(X, observed) for one in alone(model)]
    means, stds = np.array([one.mean for one in each]), np.array([one.std for one in each])
    assert np.ptp(means, 0).max() > 0.05  # else there is nothing to average
    np.testing.assert_allclose(together.mean, means.mean(0), rtol=1e-9, atol=1e-12)
    variance = (stds**2 + (means - means.mean(0)) ** 2).mean(0)
    np.testing.assert_allclose(together.std, np.sqrt(variance), rtol=1e-9)


@pytest.mark.parametrize("observed", [True, False])
def test_the_average_is_calibrated_once(model, observed):
    X, _ = data()
    found = model.fitted_
    mean, std = model.predict(X, return_std=True, observed=observed)
    mixed, features = found.predicted(found.inputs(X), observed)
    expected = found.calibration(mixed, features, observed)
    scaler = found.y_scaler
    np.testing.assert_array_equal(mean, scaler.inverse(expected.mean[:, 0]))
    np.testing.assert_array_equal(std, scaler.inverse_std(expected.std[:, 0]))


def test_three_together_are_better_than_each(model):
    X, y = data(1200, seed=9)
    mean, std = model.predict(X, return_std=True)
    error = np.mean((mean - y) ** 2)
    density = nlpd(y, mean, std, model.dof_)
    for one in alone(model):
        by_itself = one.predict(X)
        assert error < np.mean((by_itself.mean - y) ** 2)
        assert density < nlpd(y, by_itself.mean, by_itself.std, by_itself.dof)


def test_the_best_member_is_the_one_that_is_shown(model):
    records = [member.record for member in model.fitted_.members]
    scores = [record.history.val_nlpd.min() for record in records]
    assert scores[0] == min(scores)
    assert model.history_ is records[0].history
    assert len({record.seed for record in records}) == 3


def test_the_first_member_is_that_of_a_single_training():
    X, _ = data()
    many, one = fitted(epochs=3), fitted(epochs=3, members=1)
    seed = one.fitted_.members[0].record.seed
    (same,) = [each for each in alone(many) if each.members[0].record.seed == seed]
    np.testing.assert_array_equal(bare(same).predict(X).mean, bare(one.fitted_).predict(X).mean)
    assert many.history_.val_nlpd.min() <= one.history_.val_nlpd.min()


def test_the_interval_is_from_the_errors_of_the_ensemble(model):
    X, y = data(4000, seed=3)
    low, high = model.interval(X, 0.8)
    mean, std = model.predict(X, return_std=True)
    radius = model.fitted_.calibration.radius(0.8)[0]
    np.testing.assert_allclose(high - mean, radius * std, rtol=1e-9)
    np.testing.assert_allclose(mean - low, radius * std, rtol=1e-9)
    assert np.mean((y >= low) & (y <= high)) > 0.7
    assert model.fitted_.calibration.rows == 18


def test_without_calibration_or_with_a_plain_network_the_best_is_kept():
    assert len(fitted(calibrate=False, epochs=2).fitted_.members) == 1
    alone = fitted(validation_fraction=0.0, epochs=2)
    assert len(alone.fitted_.members) == 1
    assert alone.fitted_.calibration.rows == 0
    X, y = data()
    net = SequenceNet(LSTM(hidden=8), members=2, training=Training(epochs=2), **SAME).fit(X, y)
    assert len(net.fitted_.members) == 1
    scores = [fitted(calibrate=False, epochs=2, members=k).history_.val_nlpd.min() for k in (1, 3)]
    assert scores[1] <= scores[0]


def test_fewer_than_one_training_is_refused():
    with pytest.raises(ValueError, match="members=0 must be an integer of at least 1"):
        fitted(members=0)


def test_update_and_refit_reach_all_members():
    X, y = data()
    model = fitted(epochs=4)
    assert len(model.fitted_.members) > 1
    before = [one.predict(X[250:]).mean for one in alone(model)]
    model.update(X[180:250], y[180:250])
    assert {member.posterior.diagnostics.n for member in model.fitted_.members} == {250}
    after = [one.predict(X[250:]).mean for one in alone(model)]
    assert all(np.abs(a - b).max() > 1e-6 for a, b in zip(after, before, strict=True))
    np.testing.assert_allclose(model.predict(X[250:]), np.mean(after, 0), rtol=1e-9)
    seeds = [member.record.seed for member in model.fitted_.members]
    model.refit(X[:250], y[:250])
    assert [member.record.seed for member in model.fitted_.members] == seeds
    again = [one.predict(X[250:]).mean for one in alone(model)]
    assert all(np.abs(a - b).max() > 1e-6 for a, b in zip(again, after, strict=True))
    np.testing.assert_allclose(model.predict(X[250:]), np.mean(again, 0), rtol=1e-9)


@pytest.mark.parametrize("inference", ["exact", "grid"])
def test_an_ensemble_comes_back_from_its_file(inference, tmp_path):
    X, y = data(outputs=2)
    model = fitted(outputs=2, epochs=3, gp=GP(inference=inference), mean="linear")
    seeds = [member.record.seed for member in model.fitted_.members]
    assert len(seeds) > 1
    save(model, tmp_path / "model.seqgp")
    twins = [load(tmp_path / "model.seqgp"), pickle.loads(pickle.dumps(model))]
    for twin in twins:
        assert [member.record.seed for member in twin.fitted_.members] == seeds
        for observed in (True, False):
            ours, theirs = (m.predict(X, return_std=True, observed=observed) for m in (model, twin))
            np.testing.assert_array_equal(ours, theirs)
        np.testing.assert_array_equal(model.interval(X, 0.8), twin.interval(X, 0.8))
    for one in (model, twins[0]):
        one.update(X[180:], y[180:])
    np.testing.assert_array_equal(model.predict(X), twins[0].predict(X))
    found = info(tmp_path / "model.seqgp")
    assert [member["seed"] for member in found["members"]] == seeds


def test_a_file_with_a_part_of_an_ensemble_is_refused(model, tmp_path):
    path = tmp_path / "model.seqgp"
    save(model, path)
    text, arrays = read(path)
    header = {name: value for name, value in json.loads(text).items() if name in {"made", "model"}}
    for name in ("members.1.layer.likelihood.raw_noise", "calibration.scale", "members.0.history"):
        assert name in arrays
        write(path, header, {k: v for k, v in arrays.items() if k != name})
        with pytest.raises(ArtifactError, match=name.replace(".", r"\.") + " is missing"):
            load(path)
    write(path, header, arrays | {"members.1.more": np.zeros(2)})
    with pytest.raises(ArtifactError, match=r"members\.1\.more' that nothing asks for"):
        load(path)
    fewer = json.loads(json.dumps(header))
    fewer["model"]["fitted"]["members"].pop()
    write(path, fewer, arrays)
    with pytest.raises(ArtifactError, match=r"members\.2\..*' that nothing asks for"):
        load(path)


def test_a_forecaster_and_its_report_say_so():
    rows = hourly(300)
    model = SequenceGP(LSTM(hidden=4), members=2, training=Training(epochs=2), **SAME)
    forecaster = Forecaster("y", inputs=["u"], lag=6, model=model).fit(rows.iloc[:260])
    assert gather(forecaster, rows.iloc[260:]).learned.members == 2
    found = forecaster.predict(rows.iloc[240:], interval=0.9)
    assert np.isfinite(found[["low", "high"]].iloc[-10:]).all(axis=None)
