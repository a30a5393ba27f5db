"""Several trainings that predict together: which, what they say, and that all of the product knows it."""

import copy
import json
import math
import pickle

import numpy as np
import pytest
import torch
from seqgp.artifact import info
from seqgp.artifact.container import read, write
from seqgp.estimator.mixing import Start, mixed, near_best

from cli_data import TRAINING, run, series
from forecaster_data import hourly, small_model
from seqgp import ArtifactError, Forecaster, SequenceGP, SequenceNet, load, save
from seqgp.metrics import nlpd
from seqgp.report.findings import gather
from seqgp.training import Trained

OPTIONS = dict(hidden=8, epochs=15, lr=0.01, mean="zero", random_state=0, progress=False)


def data(n=330, outputs=1, seed=1):
    """A target with a bend that few rows show badly, so that trainings differ."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 6, 1))
    y = np.tanh(2 * X[:, -1, 0]) * X[:, -2, 0] + 0.1 * rng.standard_normal(n)
    both = np.stack([y, 5.0 * X[:, -1, 0] + y + 2.0], 1)
    return X, y if outputs == 1 else both


def fitted(rows=180, outputs=1, **options):
    X, y = data(outputs=outputs)
    return SequenceGP(**OPTIONS | {"restarts": 3} | options).fit(X[:rows], y[:rows])


@pytest.fixture(scope="module")
def model():
    return fitted()


def alone(model):
    """Each of the trainings on its own, the best first."""
    first = copy.copy(model)
    first.others_, first.mixture_ = (), None
    return [first, *model.others_]


def start(score, correlated=False):
    trained = Trained([], 1, score, None, None, False)
    return Start(torch.nn.Sequential(), None, trained, 0, correlated, 0)


def test_those_that_are_nearly_as_good_as_the_best_are_mixed():
    starts = [start(0.25), start(0.0), start(0.35), start(math.nan), start(0.1, correlated=True)]
    assert near_best(starts, "nlpd") == [starts[1], starts[0]]
    starts = [start(0.1), start(0.13), start(0.14), start(math.inf)]
    assert near_best(starts, "rmse") == starts[:2]
    assert near_best([start(math.inf)], "nlpd")[0].trained.best_score == math.inf


def test_the_mixture_has_the_moments_of_draws_from_it():
    rng = np.random.default_rng(0)
    means, roots = rng.standard_normal((3, 1, 2)), 0.5 * rng.standard_normal((3, 1, 2, 2))
    covariances = roots @ roots.transpose(0, 1, 3, 2)
    draws = np.concatenate(
        [
            m[0] + rng.standard_normal((200_000, 2)) @ r[0].T
            for m, r in zip(means, roots, strict=True)
        ]
    )
    mean, covariance = mixed(*(list(torch.as_tensor(part)) for part in (means, covariances)))
    np.testing.assert_allclose(mean[0], draws.mean(0), atol=0.01)
    np.testing.assert_allclose(covariance[0], np.cov(draws.T), atol=0.02)
    variances = torch.as_tensor(covariances).diagonal(dim1=-2, dim2=-1)
    _, variance = mixed(list(torch.as_tensor(means)), list(variances))
    np.testing.assert_allclose(variance[0], covariance[0].diagonal(), rtol=1e-12)


@pytest.mark.parametrize("observed", [True, False])
def test_predictions_are_the_mean_of_all_with_their_differences_in_the_deviation(model, observed):
    X, _ = data()
    assert len(model.others_) == 2
    mean, std = model.predict(X, return_std=True, observed=observed)
    each = [one.predict(X, return_std=True, observed=observed) for one in alone(model)]
    means, stds = (np.array(part) for part in zip(*each, strict=True))
    assert np.ptp(means, 0).max() > 0.05  # else there is nothing to mix
    np.testing.assert_allclose(mean, means.mean(0), rtol=1e-9)
    variance = (stds**2 + (means - means.mean(0)) ** 2).mean(0)
    np.testing.assert_allclose(std, np.sqrt(variance * model.mixture_.scale[0]), rtol=1e-9)


def test_three_together_are_better_than_each(model):
    X, y = data(1200, seed=9)
    mean, std = model.predict(X, return_std=True)
    error = np.mean((mean - y) ** 2)
    density = nlpd(y, mean, std, model.dof_)
    for one in alone(model):
        m, s = one.predict(X, return_std=True)
        assert error < np.mean((m - y) ** 2)
        assert density < nlpd(y, m, s, one.dof_)


def test_the_best_training_is_the_one_that_is_shown(model):
    scores = [one.history_.val_nlpd.min() for one in alone(model)]
    assert scores[0] == min(scores)
    assert len({one.seed_ for one in alone(model)}) == 3


def test_the_interval_is_from_the_errors_of_the_mixture(model):
    X, y = data(4000, seed=3)
    low, high = model.interval(X, 0.8)
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(high - mean, model.mixture_.radius(0.8)[0] * std, rtol=1e-9)
    assert np.mean((y >= low) & (y <= high)) > 0.7
    assert model.dof_[0] == model.mixture_.dof[0]


def test_covariances_of_outputs_are_mixed_too():
    model = fitted(outputs=2, correlated=True, epochs=3)
    X, _ = data()
    assert model.others_
    _, std = model.predict(X, return_std=True)
    mean, covariance = model.predict(X, return_cov=True)
    np.testing.assert_allclose(np.diagonal(covariance, axis1=1, axis2=2), std**2, rtol=1e-9)
    each = [one.predict(X, return_cov=True) for one in alone(model)]
    away = np.array([m for m, _ in each]) - mean
    expected = np.mean([c for _, c in each], 0) + np.mean(away[..., None] * away[..., None, :], 0)
    unit = np.sqrt(model.mixture_.scale)
    np.testing.assert_allclose(covariance, expected * unit[:, None] * unit, rtol=1e-9)


def test_without_calibration_or_with_a_plain_network_the_best_is_kept():
    assert fitted(calibrate=False, epochs=2).others_ == ()
    assert fitted(validation_fraction=0.0, epochs=2).mixture_ is None
    X, y = data()
    options = {k: v for k, v in OPTIONS.items() if k != "epochs"}
    assert SequenceNet(restarts=2, epochs=2, **options).fit(X, y).others_ == ()


def test_update_and_refit_reach_all_trainings():
    X, y = data()
    model = fitted(epochs=4)
    before = [one.predict(X[250:]) for one in alone(model)]
    model.update(X[180:250], y[180:250])
    assert {one.n_rows_ for one in alone(model)} == {250}
    after = [one.predict(X[250:]) for one in alone(model)]
    assert all(np.abs(a - b).max() > 1e-6 for a, b in zip(after, before, strict=True))
    np.testing.assert_allclose(model.predict(X[250:]), np.mean(after, 0), rtol=1e-9)
    seeds = [one.seed_ for one in alone(model)]
    model.refit(X[:250], y[:250])
    assert [one.seed_ for one in alone(model)] == seeds
    again = [one.predict(X[250:]) for one in alone(model)]
    assert all(np.abs(a - b).max() > 1e-6 for a, b in zip(again, after, strict=True))
    np.testing.assert_allclose(model.predict(X[250:]), np.mean(again, 0), rtol=1e-9)


@pytest.mark.parametrize("inference", ["exact", "grid"])
def test_a_mixture_comes_back_from_its_file(inference, tmp_path):
    X, y = data(outputs=2)
    model = fitted(outputs=2, epochs=3, inference=inference, mean="linear")
    assert model.others_
    save(model, tmp_path / "model.seqgp")
    twins = [load(tmp_path / "model.seqgp"), pickle.loads(pickle.dumps(model))]
    for twin in twins:
        assert len(twin.others_) == len(model.others_)
        for kind in ("return_std", "return_cov"):
            for ours, theirs in zip(
                model.predict(X, **{kind: True}), twin.predict(X, **{kind: True}), strict=True
            ):
                np.testing.assert_array_equal(ours, theirs)
        for ours, theirs in zip(model.interval(X, 0.8), twin.interval(X, 0.8), strict=True):
            np.testing.assert_array_equal(ours, theirs)
    for one in (model, twins[0]):
        one.update(X[180:], y[180:])
    np.testing.assert_array_equal(model.predict(X), twins[0].predict(X))
    found = info(tmp_path / "model.seqgp")
    assert [other["seed"] for other in found["others"]] == [one.seed_ for one in model.others_]


def test_a_file_with_a_part_of_a_mixture_is_refused(model, tmp_path):
    path = tmp_path / "model.seqgp"
    save(model, path)
    text, arrays = read(path)
    header = {name: value for name, value in json.loads(text).items() if name in {"made", "model"}}
    for name in ("others.1.gp.raw_noise", "mixture.scale", "others.0.history"):
        assert name in arrays
        write(path, header, {k: v for k, v in arrays.items() if k != name})
        with pytest.raises(ArtifactError, match=name.replace(".", r"\.") + " is missing"):
            load(path)
    write(path, header, arrays | {"others.1.more": np.zeros(2)})
    with pytest.raises(ArtifactError, match=r"others\.1\.more' that nothing asks for"):
        load(path)


def test_the_command_line_and_the_report_say_so(capsys, tmp_path):
    table, path = tmp_path / "data.csv", tmp_path / "model.seqgp"
    series().to_csv(table, index=False)
    options = (*TRAINING, "--target", "load", "--restarts", "2", "--out", path)
    code, _, said = run(capsys, "fit", table, *options)
    assert code == 0
    assert "ensemble of 2 members" in said
    code, out, _ = run(capsys, "info", path)
    assert "2 members" in out

    rows = hourly(300)
    forecaster = Forecaster("y", inputs=["u"], lag=6, model=small_model(restarts=2))
    forecaster.fit(rows.iloc[:260])
    assert gather(forecaster, rows.iloc[260:]).learned.members == 2
    found = forecaster.predict(rows.iloc[240:], interval=0.9)
    assert np.isfinite(found[["low", "high"]].iloc[-10:]).all(axis=None)
