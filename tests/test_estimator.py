"""SequenceGP as a scikit-learn user meets it."""

from __future__ import annotations

import io
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from torch import nn

import seqgp
from seqgp import GP, GRU, LSTM, NARX, RNN, SequenceGP, SequenceNet, Training, WindowSet

SAME = dict(random_state=0, progress=False)


def quick(encoder=None, kind=SequenceGP, training=None, **options):
    """A small model; ``training`` are options of it."""
    given = dict(encoder=LSTM(hidden=8) if encoder is None else encoder)
    given["training"] = Training(**dict(epochs=3) | (training or {}))
    return kind(**given | SAME | options)


def waves(n=160, lag=10, seed=0, outputs=None):
    """Noisy sine in, its square ahead out: nothing a straight line can do."""
    rng = np.random.default_rng(seed)
    x = np.sin(np.arange(n + lag) / 3.0) + 0.05 * rng.standard_normal(n + lag)
    X = np.stack([x[i : i + lag] for i in range(n)])[:, :, None]
    y = 5.0 + 3.0 * X[:, -1, 0] ** 2 + 0.1 * rng.standard_normal(n)
    if outputs:
        y = np.stack([y * (k + 1) for k in range(outputs)], -1)
    return X, y


def test_learns_what_a_line_cannot():
    X, y = waves(300)
    model = quick(LSTM(hidden=16), training=dict(epochs=80, lr=0.01)).fit(X[:200], y[:200])
    line = Ridge().fit(X[:200, :, 0], y[:200])
    assert model.score(X[200:], y[200:]) > 0.95
    assert line.score(X[200:, :, 0], y[200:]) < 0.9
    mean, std = model.predict(X[200:], return_std=True)
    assert 0.8 < np.mean(np.abs(y[200:] - mean) < 1.96 * std) <= 1.0
    assert model.history_.nlml.iloc[-1] < model.history_.nlml.iloc[0]
    columns = ["epoch", "nlml", "val_rmse", "val_nlpd", "val_scale", "noise", "lr"]
    assert list(model.history_.columns) == columns


def test_calibration_gives_validation_errors_their_size():
    X, y = waves(400)
    options = dict(kind=SequenceNet, encoder=LSTM(hidden=16), training=dict(epochs=40, lr=0.01))
    pair = (X[200:400], y[200:400])
    plain = quick(**options, calibrate=False).fit(X[:200], y[:200], pair)
    model = quick(**options).fit(X[:200], y[:200], pair)
    assert plain.fitted_.calibration.scale == [1.0]
    mean, std = plain.predict(X[200:400], return_std=True)
    same, scaled = model.predict(X[200:400], return_std=True)
    np.testing.assert_array_equal(mean, same)  # accuracy is not touched
    ratio = np.mean((y[200:400] - mean) ** 2 / std**2)
    scale = model.fitted_.calibration.scale[0]
    np.testing.assert_allclose(scaled, std * np.sqrt(scale), rtol=1e-12)
    assert scale == pytest.approx((200 * ratio + 10) / 210, rel=1e-6)
    # Epochs are compared by a factor that starts from 1 with more weight.
    best = model.history_[model.history_.epoch == model.fitted_.members[0].record.best_epoch].iloc[
        0
    ]
    assert best.val_scale == pytest.approx((200 * ratio + 200) / 400, rel=1e-6)
    compared = std * np.sqrt(best.val_scale)
    z = model.fitted_.y_scaler.scale
    density = (
        0.5 * np.log(2 * np.pi * (compared / z) ** 2) + 0.5 * ((y[200:400] - mean) / compared) ** 2
    )
    assert best.val_nlpd == pytest.approx(density.mean(), rel=1e-6)


def test_fit_says_when_validation_errors_are_far_from_what_the_model_says():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((120, 4, 1))
    y = X[:, -1, 0] + 0.01 * rng.standard_normal(120)
    other = (X[:60], y[:60] + rng.standard_normal(60))  # validation rows of another kind
    with pytest.warns(seqgp.TrainingWarning, match="times as large as the model predicts"):
        quick().fit(X[60:], y[60:], other)


def test_calibration_keeps_coverage_when_the_model_has_memorised_its_rows():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((900, 4, 1))
    y = np.sin(2 * X[:, -1, 0]) + 0.5 * rng.standard_normal(900)
    training = Training(epochs=60, lr=0.02, select="rmse")
    options = dict(gp=GP(latent_dim=3), mean="zero", training=training, **SAME)
    held = (X[100:500], y[100:500])
    inside = []
    for calibrate in (False, True):
        model = SequenceGP(LSTM(hidden=64), calibrate=calibrate, **options)
        mean, std = model.fit(X[:100], y[:100], held).predict(X[500:], return_std=True)
        inside.append(np.mean(np.abs(y[500:] - mean) < 1.96 * std))
    assert abs(inside[1] - 0.95) < 0.035
    assert abs(inside[1] - 0.95) <= abs(inside[0] - 0.95) + 0.01


def test_flattened_windows_are_the_same_windows():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 5, 3)), rng.standard_normal(60)
    a = quick().fit(X, y)
    b = quick(lag=5).fit(X.reshape(60, 15), y)
    assert np.array_equal(a.predict(X), b.predict(X.reshape(60, 15)))
    assert np.array_equal(a.predict(X), a.predict(X.reshape(60, 15)))
    assert a.n_features_in_ == b.n_features_in_ == 15


@pytest.mark.parametrize("mode", ["regression", "autoregression"])
def test_a_window_set_equals_its_windows(mode):
    rng = np.random.default_rng(0)
    u, target = rng.standard_normal((120, 2)), rng.standard_normal(120)
    windows = WindowSet(u, target, lag=6, mode=mode)
    a = quick(validation_fraction=0.0).fit(windows)
    # the scaler sees each row once in a WindowSet and once per window in an array, so give it the same
    rows = windows.map_features(a.fitted_.x_scaler.transform)
    b = quick(validation_fraction=0.0)
    b.fit(rows[:], rows.y)
    scaled = b.fitted_.x_scaler.transform(rows[:])
    assert np.abs(scaled - rows[:]).max() < 0.2
    assert a.predict(windows).shape == b.predict(rows[:]).shape == (114,)
    np.testing.assert_allclose(a.predict(windows), a.predict(windows[:]), rtol=1e-6)


def test_scaling_is_inverted_on_mean_and_deviation():
    X, y = waves()
    plain = quick().fit(X, y)
    scaled = quick().fit(X, 100.0 * y - 7.0)
    mean, std = plain.predict(X, return_std=True)
    mean2, std2 = scaled.predict(X, return_std=True)
    np.testing.assert_allclose(mean2, 100.0 * mean - 7.0, rtol=1e-4)
    np.testing.assert_allclose(std2, 100.0 * std, rtol=1e-4)


def test_standardisation_knows_the_training_part_only():
    X, y = waves(200)
    X[180:] += 50.0
    y[180:] += 50.0
    model = quick(validation_fraction=0.1).fit(X, y)
    assert model.fitted_.x_scaler.shift[0] == pytest.approx(X[:180].mean())
    assert float(model.fitted_.y_scaler.shift) == pytest.approx(y[:180].mean())


def test_several_outputs():
    X, y = waves(outputs=3)
    model = quick().fit(X, y)
    mean, std = model.predict(X[:7], return_std=True)
    assert mean.shape == std.shape == (7, 3)
    assert model.fitted_.members[0].layer.kernel.outputscale.shape == (3,)
    assert model.dof_.shape == (3,)


def test_latent_and_observed_deviations():
    X, y = waves()
    model = quick().fit(X, y)
    _, observed = model.predict(X, return_std=True)
    _, latent = model.predict(X, return_std=True, observed=False)
    fitted = model.fitted_
    noise = float(fitted.members[0].layer.noise.detach()) * float(fitted.y_scaler.scale) ** 2
    noise = noise * float(fitted.calibration.scale[0])  # calibration is on both
    assert fitted.calibration.noise is None  # 15 validation rows are too few for one
    np.testing.assert_allclose(observed**2 - latent**2, noise, rtol=1e-6)


def test_estimators_predict_what_the_fitted_model_does():
    X, y = waves(outputs=2)
    model = quick().fit(X, y)
    for observed in (True, False):
        found = model.fitted_.predict(X, observed)
        mean, std = model.predict(X, return_std=True, observed=observed)
        np.testing.assert_array_equal(mean, found.mean)
        np.testing.assert_array_equal(std, found.std)
        np.testing.assert_array_equal(model.predict(X, observed=observed), mean)
    found = model.fitted_.predict(X)
    assert np.array_equal(found.dof, model.dof_)
    assert found.quantile(0.5).shape == found.mean.shape == (160, 2)
    assert found.draw(np.random.default_rng(0), 5).shape == (5, 160, 2)
    low, high = model.interval(X, 0.8)
    radius = model.fitted_.calibration.radius(0.8)
    np.testing.assert_allclose(high - found.mean, radius * found.std)
    np.testing.assert_allclose(found.mean - low, radius * found.std)


@pytest.mark.parametrize("method", ["predict", "interval", "update", "refit"])
def test_an_estimator_that_is_not_fitted_says_so(method):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(quick(), method)(X0)


def test_the_linear_mean_is_part_of_the_prediction_and_its_doubt():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 4, 1))
    y = X[:, :, 0] @ [1.0, 2.0, -1.0, 0.5] + 0.1 * rng.standard_normal(150)
    linear = quick(mean="linear").fit(X, y)
    zero = quick(mean="zero").fit(X, y)
    far = 30.0 + X[:5]  # far outside: the linear part goes on, and says how unsure it is
    mean, std = linear.predict(far, return_std=True)
    np.testing.assert_allclose(mean, far[:, :, 0] @ [1.0, 2.0, -1.0, 0.5], rtol=0.05)
    assert (std > 3 * linear.predict(X[:5], return_std=True)[1]).all()
    assert np.abs(zero.predict(far)).max() < 15


def test_same_seed_same_numbers():
    X, y = waves()
    encoder = LSTM(hidden=8, layers=2, dropout=0.2, input_dropout=0.1, recurrent_dropout=0.1)
    runs = [quick(encoder).fit(X, y) for _ in range(2)]
    torch.manual_seed(123)  # the caller's generator must not matter, nor be moved
    before = torch.random.get_rng_state()
    runs.append(quick(encoder).fit(X, y))
    assert torch.equal(before, torch.random.get_rng_state())
    for other in runs[1:]:
        for a, b in zip(
            runs[0].predict(X, return_std=True), other.predict(X, return_std=True), strict=True
        ):
            assert np.array_equal(a, b)
        ours, theirs = (run.fitted_.members[0].posterior.nlml for run in (runs[0], other))
        assert float(ours) == float(theirs)
    different = quick(encoder, random_state=1).fit(X, y)
    assert not np.array_equal(different.predict(X), runs[0].predict(X))


def test_dropout_is_off_in_predictions_whatever_thread_asks():
    """The network stays as it is: a switch there and back would be seen by the other threads."""
    X, y = waves(400)
    encoder = LSTM(
        hidden=8, layers=2, dropout=0.5, input_dropout=0.3, recurrent_dropout=0.3, skip=True
    )
    training = dict(epochs=1, batch_size=128)
    model = quick(encoder, readout=True, members=2, training=training).fit(X, y)
    switched = []
    for member in model.fitted_.members:
        assert not any(module.training for module in member.network.modules())
        for module in member.network.modules():
            module.train = lambda mode=True: switched.append(mode)
    expected = model.predict(X, return_std=True)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: model.predict(X, return_std=True), range(32)))
        parts = list(pool.map(lambda k: model.predict(X[k : k + 50]), range(0, 400, 50)))
    for each in found:
        np.testing.assert_array_equal(each, expected)
    np.testing.assert_allclose(np.concatenate(parts), expected[0], rtol=1e-6)
    assert switched == []
    assert not any(m.training for member in model.fitted_.members for m in member.network.modules())


def test_a_model_survives_pickling():
    X, y = waves()
    model = quick().fit(X, y)
    again = pickle.load(io.BytesIO(pickle.dumps(model)))
    assert np.array_equal(model.predict(X), again.predict(X))


class _Average(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(1, 6)

    def forward(self, x):
        return torch.tanh(self.linear(x)).mean(1)


def test_any_module_is_an_encoder_and_is_left_alone():
    X, y = waves()
    module = _Average()
    before = module.linear.weight.detach().clone()
    model = quick(module).fit(X, y)
    assert torch.equal(before, module.linear.weight)
    assert not torch.equal(before, model.fitted_.members[0].network.encoder.linear.weight)
    with pytest.raises(TypeError, match="last hidden state"):
        quick(nn.LSTM(1, 4, batch_first=True)).fit(X, y)


@pytest.mark.parametrize("encoder", [NARX, RNN, GRU, LSTM])
@pytest.mark.parametrize("kernel", ["matern12", "matern32", "matern52", "spectral-mixture"])
def test_every_encoder_with_every_kernel(encoder, kernel):
    X, y = waves(40)
    model = quick(encoder(hidden=8), gp=kernel, training=dict(epochs=1)).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()


def test_explicit_validation_rows_choose_but_do_not_join():
    X, y = waves(200)
    model = quick().fit(X[:150], y[:150], validation=(X[150:], y[150:]))
    assert model.fitted_.members[0].posterior.diagnostics.n == model.fitted_.rows == 150
    assert model.history_.val_rmse.notna().all()
    inside = quick(validation_fraction=0.25).fit(X, y)
    assert inside.fitted_.members[0].posterior.diagnostics.n == inside.fitted_.rows == 200
    none = quick(validation_fraction=0.0).fit(X, y)
    assert none.history_.val_rmse.isna().all()
    with pytest.raises(ValueError, match="pair"):
        model.fit(X, y, validation=3)
    with pytest.raises(ValueError, match="validation targets have shape"):
        model.fit(X, y, validation=(X, np.stack([y, y], -1)))


X0, Y0 = waves(40)
HOLE = X0.copy()
HOLE[3, 2] = np.nan
BAD_ROWS = {
    "NaN": (
        HOLE,
        Y0,
        "Input X contains NaN: 1 of 400 values.*first in row 3.*Drop",
    ),
    "infinite": (np.full_like(X0, np.inf), Y0, "infinity.*expected none.*Drop"),
    "NaN target": (X0, np.full(40, np.nan), "Input y contains NaN: 40 of 40.*Drop"),
    "one-dimensional X": (X0[:, 0, 0], Y0, "Expected 2D array"),
    "four-dimensional X": (
        X0[None],
        Y0[:1],
        r"X has shape \(1, 40, 10, 1\), expected \(n, T, p\).*reshape",
    ),
    "three-dimensional y": (X0, Y0[:, None, None], r"y has shape \(40, 1, 1\), expected"),
    "mismatched lengths": (X0, Y0[:-1], "40 windows and y has 39 rows.*Cut both"),
    "constant target": (X0, np.full(40, 3.5), "y is constant.*value 3.5.*check the column"),
    "single row": (X0[:1], Y0[:1], "1 sample.*at least 2.*longer series"),
    "text": (np.full((40, 10), "a"), Y0, "X is not numeric.*encode text"),
    "text target": (X0, ["a"] * 40, "y is not numeric.*pass numbers"),
    "no target": (X0, None, "requires y to be passed.*pass one target"),
}


@pytest.mark.parametrize("case", BAD_ROWS)
def test_bad_rows_are_explained(case):
    X, y, message = BAD_ROWS[case]
    with pytest.raises(ValueError, match=message):
        quick().fit(X, y)


def test_series_shorter_than_the_lag():
    with pytest.raises(ValueError, match=r"series 0 has 5 rows.*need at least 11.*shorter lag"):
        WindowSet(np.zeros((5, 1)), np.zeros(5), lag=10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(training=dict(algorithm="magic")), "algorithm='magic' is not known: use one of full"),
        (dict(training=dict(surrogate="x")), "surrogate='x' is not known: use one of 'posterior'"),
        (dict(training=dict(schedule="x")), "schedule='x' is not known: use one of 'constant'"),
        (dict(training=dict(select="x")), "select='x' is not known"),
        (dict(training=dict(epochs=-1)), "epochs=-1 must be an integer of at least 0"),
        (dict(training=dict(epochs=True)), "epochs=True must be an integer"),
        (dict(training=dict(batch_size=2.5)), r"batch_size=2\.5 must be an integer"),
        (dict(training=dict(lr=0.0)), r"lr=0\.0 must be a positive number"),
        (dict(training=dict(refresh="never")), "refresh='never' must be a number of mini-batches"),
        (
            dict(training=dict(refresh=0)),
            "refresh=0 must be a number of mini-batches of at least 1",
        ),
        (dict(training=dict(patience=0)), "patience=0 must be positive, or None"),
        (dict(mean="x"), "mean='x' is not known"),
        (
            dict(encoder="x"),
            "encoder='x' is not known: use one of .*'lstm'.*an Encoder, or an nn.Mod",
        ),
        (dict(encoder=LSTM(hidden=0)), "hidden is 0; expected an integer >= 1"),
        (dict(gp="x"), "kernel='x' is not known: use one of 'rbf'.*or a gpytorch kernel"),
        (dict(validation_fraction=1.0), r"must be in \[0, 1\)"),
        (dict(members=1.5), r"members=1\.5 must be an integer of at least 1"),
        (dict(lag=7), "lag=7"),
        (dict(device="abacus"), "device='abacus' is not known"),
    ],
)
def test_bad_options_are_explained(options, message):
    with pytest.raises(ValueError, match=message):
        quick(**options).fit(X0, Y0)


def test_options_of_another_kind_are_explained():
    with pytest.raises(
        ValueError, match=r"training=.* is a dict, expected a Training or None: write"
    ):
        SequenceGP(training={"epochs": 3}).fit(X0, Y0)
    with pytest.raises(ValueError, match="inference='x' is not known: use one of 'exact', 'grid'"):
        GP(inference="x")
    with pytest.raises(TypeError, match="hidden"):
        SequenceGP(hidden=8)


def test_a_fit_that_fails_leaves_the_model_as_it_was():
    model = quick().fit(X0, Y0)
    before, expected = model.fitted_, model.predict(X0)
    with pytest.raises(ValueError, match="y is constant"):
        model.fit(X0, np.ones(40))
    assert model.fitted_ is before
    np.testing.assert_array_equal(model.predict(X0), expected)


def test_cuda_is_refused_where_there_is_none():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    with pytest.raises(ValueError, match="torch sees no CUDA"):
        quick(device="cuda").fit(X0, Y0)


def test_windows_of_another_shape_are_refused_at_prediction():
    model = quick().fit(X0, Y0)
    windows = WindowSet(np.zeros((30, 2)), np.zeros(30), lag=10)
    with pytest.raises(ValueError, match=r"windows of shape \(10, 2\).*expected \(10, 1\)"):
        model.predict(windows)
    with pytest.raises(ValueError, match="lag=4 does not divide"):
        quick(lag=4).fit(X0[:, :, 0], Y0)


def test_a_data_frame_is_accepted():
    X, y = waves(60)
    frame = pd.DataFrame(X[:, :, 0], columns=[f"lag{k}" for k in range(10)])
    model = quick().fit(frame, pd.Series(y))
    assert model.predict(frame).shape == (60,)


def test_zero_epochs_is_a_gp_on_random_features(tmp_path):
    X, y = waves()
    with warnings.catch_warnings():
        warnings.simplefilter("error", seqgp.TrainingWarning)
        model = quick(training=dict(epochs=0)).fit(X, y)
    assert len(model.history_) == 0
    assert np.isfinite(model.predict(X)).all()
    assert model.fitted_.calibration.rows == 16  # calibrated all the same
    seqgp.save(model, tmp_path / "m.seqgp")
    np.testing.assert_array_equal(seqgp.load(tmp_path / "m.seqgp").predict(X), model.predict(X))


class _Bursting(nn.Module):
    """Not a number as soon as it is trained."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(10, 4)

    def forward(self, x):
        return self.linear(x.flatten(1)) / (not self.training)


@pytest.mark.parametrize("kind", [SequenceGP, SequenceNet])
def test_divergence_in_the_first_epoch_leaves_what_there_was_before(kind):
    X, y = waves()
    model = quick(_Bursting(), kind=kind)
    if kind is SequenceGP:
        with pytest.warns(seqgp.TrainingWarning, match="training diverged"):
            model.fit(X, y)
    else:
        model.fit(X, y)
    assert len(model.history_) == 0
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()


def test_the_skip_lets_the_head_see_the_window():
    """A target that is the size of a plain filter: easy with the window at hand."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 20, 1))
    y = np.abs(X[:, :, 0] @ np.cos(np.arange(20) / 3.0))
    training = Training(epochs=60, lr=0.02, batch_size=32)
    seen, plain = (
        SequenceGP(RNN(hidden=4, skip=skip), mean="zero", training=training, members=2, **SAME)
        for skip in (True, False)
    )
    seen.fit(X[:220], y[:220])
    plain.fit(X[:220], y[:220])
    assert seen.fitted_.members[0].network.width == 4 + 20
    assert plain.fitted_.members[0].network.width == 4
    assert seen.score(X[220:], y[220:]) > plain.score(X[220:], y[220:]) + 0.2


def test_weight_decay_shrinks_the_weights():
    X, y = waves(120)
    norms = []
    for decay in (0.0, 2.0):
        training = dict(weight_decay=decay, epochs=20, lr=0.02)
        model = quick(training=training).fit(X, y)
        weight = model.fitted_.members[0].network.head.linear.weight
        norms.append(float(weight.detach().norm()))
    assert norms[1] < norms[0]


def test_a_fit_that_fails_leaves_the_model_of_the_fit_before():
    X, y = np.random.default_rng(0).standard_normal((60, 6, 2)), np.arange(60.0)
    model = SequenceGP(LSTM(hidden=4), training=Training(epochs=1), random_state=0).fit(X, y)
    before, features = model.predict(X), model.n_features_in_
    other = np.random.default_rng(1).standard_normal((60, 9, 3))

    def interrupted() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(ValueError, match="constant"):
        model.fit(other, np.ones(60))
    model.set_params(training__epochs=3)
    with pytest.raises(KeyboardInterrupt):
        model.fit(other, y, stop=interrupted)
    np.testing.assert_array_equal(model.predict(X), before)
    assert model.n_features_in_ == features
