"""More rows for a trained model: the same posterior as from all rows at once."""

import numpy as np
import pytest
import torch

from seqgp import SequenceGP, SequenceNet
from seqgp.training import encode


def _data(n=240, outputs=1):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, 6, 2))
    y = np.tanh(X[:, -1]) @ np.array([[1.0, 0.5], [-0.5, 1.0]])[:, :outputs]
    y = y + 0.1 * rng.standard_normal(y.shape)
    return X, y[:, 0] if outputs == 1 else y


@pytest.mark.parametrize("inference", ["exact", "grid"])
@pytest.mark.parametrize("mean", ["zero", "linear"])
@pytest.mark.parametrize("outputs", [1, 2])
def test_update_equals_conditioning_on_all_rows(inference, mean, outputs):
    X, y = _data(outputs=outputs)
    options = dict(
        hidden=6, epochs=3, calibrate=False, random_state=0
    )  # none: all of the GP is used
    model = SequenceGP(inference=inference, mean=mean, **options)
    model.fit(X[:160], y[:160])
    before = model.predict(X[200:], return_std=True)
    model.update(X[160:180], y[160:180]).update(X[180:200], y[180:200])
    mean_then, std_then = model.predict(X[200:], return_std=True)
    assert model.n_rows_ == 200
    assert not np.allclose(mean_then, before[0], rtol=1e-6)

    windows = torch.as_tensor(model.x_scaler_.transform(X[:200]), dtype=torch.float32)
    z = torch.as_tensor(model.y_scaler_.transform(y[:200])).reshape(200, -1)
    linear, _ = model.mean_function_.predict(windows)
    with torch.no_grad():
        scratch = model.gp_.condition(encode(model.network_, windows), z - linear)
    assert model.nlml_ == pytest.approx(float(scratch.nlml), rel=1e-10)
    model.posterior_ = scratch
    mean_scratch, std_scratch = model.predict(X[200:], return_std=True)
    np.testing.assert_allclose(mean_then, mean_scratch, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(std_then, std_scratch, rtol=1e-8)


def test_update_leaves_a_line_as_it_is():
    """Where validation rows did not bear out the GP, what it learns from newer ones is left out too."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((240, 6, 2))
    y = X[:, -1, 0] + 0.3 * rng.standard_normal(240)
    model = SequenceGP(hidden=6, epochs=3, random_state=0).fit(X[:160], y[:160])
    assert float(model.calibration_.slope[0]) == 0.0
    before = model.predict(X[200:])
    model.update(X[160:200], y[160:200])
    assert model.n_rows_ == 200
    np.testing.assert_array_equal(model.predict(X[200:]), before)


def test_update_refuses_other_targets_and_windows():
    X, y = _data()
    model = SequenceGP(hidden=4, epochs=1, random_state=0).fit(X[:100], y[:100])
    with pytest.raises(ValueError, match="as in fit"):
        model.update(X[100:], np.stack([y[100:], y[100:]], 1))
    with pytest.raises(ValueError, match="12 features"):
        model.update(X[100:, :3], y[100:])


def test_stop_keeps_the_best_state_so_far():
    X, y = _data()
    asked = []

    def stop():
        asked.append(1)
        return len(asked) > 4

    model = SequenceGP(hidden=4, epochs=50, batch_size=64, restarts=3, random_state=0)
    model.fit(X, y, stop=stop)
    assert 1 <= len(model.history_) < 5
    assert 1 <= model.best_epoch_ <= len(model.history_)
    assert np.isfinite(model.predict(X)).all()


def test_stop_at_once_still_finishes_one_epoch():
    X, y = _data()
    model = SequenceNet(hidden=4, epochs=5, random_state=0).fit(X, y, stop=lambda: True)
    assert len(model.history_) == 1
