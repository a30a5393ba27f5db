"""More rows for a trained model: the same posterior as from all rows at once."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest
import torch
from sklearn.base import clone

from seqgp import GP, LSTM, SequenceGP, SequenceNet, Training, WindowSet
from seqgp.encoders import encode
from seqgp.fitted import Fitted, Member


def data(n=240, outputs=1):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, 6, 2))
    y = np.tanh(X[:, -1]) @ np.array([[1.0, 0.5], [-0.5, 1.0]])[:, :outputs]
    y = y + 0.1 * rng.standard_normal(y.shape)
    return X, y[:, 0] if outputs == 1 else y


def model(**options):
    given = dict(training=Training(epochs=3), random_state=0, progress=False)
    return SequenceGP(LSTM(hidden=6), **given | options)


def from_scratch(fitted, X, y):
    """Every member's posterior given all rows, and the distribution that follows."""
    x, z = fitted.inputs(X), fitted.targets(y)
    left = z - fitted.mean.predict(x).mean - torch.as_tensor(fitted.calibration.shift)
    members = []
    for member in fitted.members:
        encoded = encode(member.network, x)
        members.append(
            Member.conditioned(member.network, member.layer, encoded, left, member.record)
        )
    values = {field.name: getattr(fitted, field.name) for field in fields(fitted)}
    return Fitted(**values | {"members": tuple(members)})


@pytest.mark.parametrize("inference", ["exact", "grid"])
@pytest.mark.parametrize("mean", ["zero", "linear"])
@pytest.mark.parametrize("outputs", [1, 2])
def test_update_equals_conditioning_on_all_rows(inference, mean, outputs):
    X, y = data(outputs=outputs)
    est = model(gp=GP(inference=inference), mean=mean).fit(X[:160], y[:160])
    before = est.predict(X[200:], return_std=True)
    est.update(X[160:180], y[160:180]).update(X[180:200], y[180:200])
    mean_then, std_then = est.predict(X[200:], return_std=True)
    assert est.fitted_.rows == 200
    assert not np.allclose(mean_then, before[0], rtol=1e-6)

    scratch = from_scratch(est.fitted_, X[:200], y[:200])
    ours, theirs = (fitted.members[0].posterior for fitted in (est.fitted_, scratch))
    assert ours.diagnostics.n == theirs.diagnostics.n == 200
    assert float(ours.nlml) == pytest.approx(float(theirs.nlml), rel=1e-10)
    found = scratch.predict(X[200:])
    np.testing.assert_allclose(mean_then, found.mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(std_then, found.std, rtol=1e-8)


@pytest.mark.parametrize("inference", ["exact", "grid"])
def test_rows_of_the_fit_are_conditioned_on_from_scratch_too(inference):
    X, y = data()
    est = model(gp=GP(inference=inference), readout=True).fit(X[:160], y[:160])
    scratch = from_scratch(est.fitted_, X[:160], y[:160])
    found, expected = est.fitted_.predict(X[160:]), scratch.predict(X[160:])
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found.std, expected.std, rtol=1e-8)


def test_a_corrected_level_is_taken_from_newer_rows_too():
    """The GP models what lies about it: a shift that it saw as well would be counted twice."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 4, 1))
    y = np.tanh(X[:, -1, 0]) + 0.2 * rng.standard_normal(1500)
    y[700:] += 0.5
    training = Training(epochs=2, batch_size=256)
    with pytest.warns(UserWarning, match="distribution shift"):
        est = model(mean="zero", training=training, gp=GP(inference="grid")).fit(
            X[:700], y[:700], validation=(X[700:1300], y[700:1300])
        )
    assert est.fitted_.calibration.shift[0] * est.fitted_.y_scaler.scale > 0.3
    bias = np.mean(y[1300:] - est.predict(X[1300:]))
    est.update(X[700:1300], y[700:1300])
    assert abs(np.mean(y[1300:] - est.predict(X[1300:]))) < max(0.05, abs(bias))
    scratch = from_scratch(
        est.fitted_,
        X[:1300],
        # Rows of the training set were at their own level.
        y[:1300]
        + est.fitted_.calibration.shift * est.fitted_.y_scaler.scale * (np.arange(1300) < 700),
    )
    found = est.fitted_.predict(X[1300:]).mean
    np.testing.assert_allclose(found, scratch.predict(X[1300:]).mean, rtol=1e-7, atol=1e-9)


def test_all_members_are_updated():
    X, y = data()
    est = model(members=3, training=Training(epochs=4, lr=0.01)).fit(X[:160], y[:160])
    assert len(est.fitted_.members) > 1
    est.update(X[160:200], y[160:200])
    scratch = from_scratch(est.fitted_, X[:200], y[:200])
    for ours, theirs in zip(est.fitted_.members, scratch.members, strict=True):
        assert ours.posterior.diagnostics.n == 200
        nlml = float(theirs.posterior.nlml)
        assert float(ours.posterior.nlml) == pytest.approx(nlml, rel=1e-10)
    np.testing.assert_allclose(est.predict(X[200:]), scratch.predict(X[200:]).mean, rtol=1e-8)


def test_a_window_set_updates_as_its_windows_do():
    rng = np.random.default_rng(0)
    windows = WindowSet(rng.standard_normal((200, 2)), rng.standard_normal(200), lag=5)
    first, more = windows.subset(slice(0, 150)), windows.subset(slice(150, 180))
    one, other = model().fit(first), model().fit(first)
    one.update(more)
    other.update(more[:], more.y)
    found, expected = (est.predict(windows, return_std=True) for est in (one, other))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_nothing_but_the_posterior_and_the_rows_changes():
    X, y = data()
    est = model().fit(X[:160], y[:160])
    before = est.fitted_
    kept = before.predict(X[200:])
    est.update(X[160:200], y[160:200])
    after = est.fitted_
    assert after is not before
    for name in ("blueprint", "mean", "calibration", "x_scaler", "y_scaler"):
        assert getattr(after, name) is getattr(before, name)
    (then,), (now,) = before.members, after.members
    assert now.network is then.network
    assert now.layer is then.layer
    assert now.record is then.record
    # Who holds the model as it was still has it.
    assert before.rows == then.posterior.diagnostics.n == 160
    again = before.predict(X[200:])
    np.testing.assert_array_equal(kept.mean, again.mean)
    np.testing.assert_array_equal(kept.std, again.std)


def test_fitted_and_member_are_frozen():
    X, y = data()
    fitted = model().fit(X, y).fitted_
    for value in (fitted, fitted.members[0], fitted.members[0].record, fitted.calibration):
        for field in fields(value):
            with pytest.raises(FrozenInstanceError):
                setattr(value, field.name, None)
        with pytest.raises(FrozenInstanceError):
            value.more = 1
    assert isinstance(fitted.members, tuple)
    with pytest.raises(FrozenInstanceError):
        fitted.members[0].posterior.noise = torch.ones(1)


def test_update_refuses_other_targets_and_windows():
    X, y = data()
    est = model(training=Training(epochs=1)).fit(X[:100], y[:100])
    with pytest.raises(ValueError, match="as in fit"):
        est.update(X[100:], np.stack([y[100:], y[100:]], 1))
    with pytest.raises(ValueError, match="12 features"):
        est.update(X[100:, :3], y[100:])
    assert est.fitted_.rows == 100


def test_refit_trains_on_all_rows_from_the_same_weights():
    X, y = data()
    est = model(training=Training(epochs=4, lr=0.01)).fit(X[:160], y[:160])
    record = est.fitted_.members[0].record
    est.refit(X[:200], y[:200])
    again = est.fitted_.members[0].record
    assert again.seed == record.seed
    assert len(again.history) == record.best_epoch
    assert again.history.val_rmse.isna().all()
    assert est.fitted_.rows == 200
    np.testing.assert_allclose(est.fitted_.x_scaler.shift, X[:200].mean((0, 1)), rtol=1e-10)
    # What was trained for one epoch on the same rows is where it began: fit itself.
    one = model(training=Training(epochs=1), validation_fraction=0.0).fit(X, y)
    two = clone(one).fit(X, y).refit(X, y)
    np.testing.assert_array_equal(one.predict(X), two.predict(X))


def test_stop_keeps_the_best_state_so_far():
    X, y = data()
    asked = []

    def stop():
        asked.append(1)
        return len(asked) > 4

    est = model(training=Training(epochs=50, batch_size=64), members=3)
    est.fit(X, y, stop=stop)
    assert 1 <= len(est.history_) < 5
    assert 1 <= est.fitted_.members[0].record.best_epoch <= len(est.history_)
    assert len(est.fitted_.members) == 1
    assert np.isfinite(est.predict(X)).all()


def test_stop_at_once_still_finishes_one_epoch():
    X, y = data()
    net = SequenceNet(LSTM(hidden=4), training=Training(epochs=5), random_state=0, progress=False)
    net.fit(X, y, stop=lambda: True)
    assert len(net.history_) == 1
