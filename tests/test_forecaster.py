"""Forecasts out: against windows and loops written by hand."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import norm, t
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import BayesianRidge

from forecaster_data import hourly, small_model
from seqgp import LSTM, Forecaster, SequenceNet, Training, WindowSet, adaptive_quantiles, metrics
from seqgp.encoders import encode
from seqgp.forecasting import InputsOnly
from seqgp.forecasting.files import restored_state
from seqgp.forecasting.frames import Table, cut
from seqgp.forecasting.model import update
from seqgp.io.shelf import Shelf

LAG, TRAIN = 6, 160


def make(**options):
    base = dict(target="y", inputs=["u"], past_inputs=["v"], lag=LAG, model=small_model())
    return Forecaster(**base | options)


@pytest.fixture(scope="module")
def df():
    return hourly()


@pytest.fixture(scope="module")
def fitted(df):
    """Autoregression with both kinds of inputs; tests must not change it."""
    return make().fit(df.iloc[:TRAIN])


def same_frames(a, b):
    pd.testing.assert_frame_equal(a, b, rtol=1e-6, check_freq=False, check_names=False)


def window(df, tau):
    """The window for row ``tau``, one step ahead, ``(1, LAG, 3)``."""
    past = df[["v", "y"]].to_numpy()[tau - LAG : tau]
    return np.column_stack([df["u"].to_numpy()[tau - LAG + 1 : tau + 1], past])[None]


def test_predict_is_the_model_on_windows_cut_by_hand(df, fitted):
    found = fitted.predict(df, quantiles=(0.9, 0.1))
    assert found.columns.tolist() == ["mean", "std", "q0.1", "q0.9"]
    assert found.index.equals(df.index)
    assert found.iloc[:LAG].isna().all(axis=None)
    rows = np.arange(LAG, len(df))
    X = np.concatenate([window(df, tau) for tau in rows])
    mean, std = fitted.model_.predict(X, return_std=True)
    np.testing.assert_allclose(found["mean"].iloc[LAG:], mean, rtol=1e-6)
    np.testing.assert_allclose(found["std"].iloc[LAG:], std, rtol=1e-6)
    (dof,) = fitted.model_.dof_
    far = t.ppf(0.9, dof) * np.sqrt((dof - 2.0) / dof)  # deviations, of a t with deviation 1
    np.testing.assert_allclose(found["q0.9"].iloc[LAG:], mean + far * std, rtol=1e-6)
    assert found.attrs["counts"] == {
        "rows": len(df),
        "predicted": len(df) - LAG,
        "before_first_window": LAG,
        "missing_values": 0,
    }
    latent = fitted.predict(df, observed=False)
    assert (latent["std"].iloc[LAG:] < found["std"].iloc[LAG:]).all()


def test_rows_after_the_training_data_start_from_it(df, fitted):
    whole, rest = fitted.predict(df), fitted.predict(df.iloc[TRAIN:])
    pd.testing.assert_frame_equal(rest, whole.iloc[TRAIN:], rtol=1e-6, check_freq=False)
    later = fitted.predict(df.iloc[TRAIN + 1 :])  # one row on: it does not continue
    assert later["mean"].isna().sum() == LAG
    assert fitted.history_.equals(df[["u", "v", "y"]].iloc[TRAIN - LAG : TRAIN])


def test_the_row_after_the_last_known_one_is_predicted_without_its_target(df, fitted):
    open_end = df.iloc[: TRAIN + 2].copy()
    open_end.loc[open_end.index[TRAIN:], ["y", "v"]] = np.nan
    found, whole = fitted.predict(open_end), fitted.predict(df)
    assert found["mean"].iloc[TRAIN] == pytest.approx(whole["mean"].iloc[TRAIN], rel=1e-6)
    assert np.isnan(found["mean"].iloc[TRAIN + 1])
    assert found.attrs["counts"]["missing_values"] == 1


@pytest.mark.parametrize("options", [{}, {"horizon": 3}, {"mode": "regression", "horizon": 2}])
def test_predictions_do_not_move_with_the_future(df, options):
    forecaster = make(**options).fit(df.iloc[:TRAIN])
    now, reach = 180, forecaster.horizon
    other = df.copy()
    other.iloc[now + 1 :, 1:] += 7.0  # v and y after now
    other.iloc[now + reach + 1 :, 0] -= 5.0  # u after the time that is predicted from now
    for adaptive in (False, True):
        a, b = (forecaster.predict(each, adaptive=adaptive) for each in (df, other))
        np.testing.assert_allclose(a.iloc[: now + reach + 1], b.iloc[: now + reach + 1], rtol=1e-6)
        assert not np.allclose(a.iloc[now + reach + 1 :], b.iloc[now + reach + 1 :], rtol=1e-3)


@pytest.mark.parametrize("horizon", [1, 3])
def test_adaptive_quantiles_follow_the_targets_of_the_frame(df, fitted, horizon):
    forecaster = fitted if horizon == 1 else make(horizon=horizon).fit(df.iloc[:TRAIN])
    rows = df.iloc[TRAIN:].copy()
    rows["y"] += np.linspace(0.0, 3.0, len(rows))
    rows.iloc[20, 2] = np.nan
    rows = rows.drop(rows.index[30])
    levels = (0.1, 0.9)
    found = forecaster.predict(rows, quantiles=levels, adaptive=True)
    plain = forecaster.predict(rows, quantiles=levels)
    assert found.columns.tolist() == plain.columns.tolist()
    assert found.attrs == plain.attrs
    grid = df.index[TRAIN:]  # the row left out is one that time passed by
    y, mean, std = (each.reindex(grid) for each in (rows["y"], plain["mean"], plain["std"]))
    dof = forecaster.model_.dof_[0]
    by_hand = adaptive_quantiles(y, mean, std, levels, dof, delay=horizon)
    expected = pd.DataFrame(by_hand.T, grid, ["q0.1", "q0.9"]).reindex(rows.index)
    same_frames(found[["q0.1", "q0.9"]], expected)
    same_frames(found[["mean", "std"]], plain[["mean", "std"]])
    same_frames(found.iloc[:horizon], plain.iloc[:horizon])


def test_evaluation_of_adaptive_intervals(df, fitted):
    rows = df.iloc[TRAIN:].assign(y=df["y"].iloc[TRAIN:] * 2)
    plain, found = fitted.evaluate(rows), fitted.evaluate(rows, adaptive=True)
    same_frames(found.frame[["q0.025", "q0.975"]], adaptive_frame(fitted, rows, 0.025, 0.975))
    table = found.metrics["y"]
    for level, low, high in ((50, 0.25, 0.75), (80, 0.1, 0.9), (95, 0.025, 0.975)):
        ends = adaptive_frame(fitted, rows, low, high).to_numpy()
        inside = (ends[:, 0] <= rows["y"]) & (rows["y"] <= ends[:, 1])
        assert table.loc["model", f"cov{level}"] == pytest.approx(inside.mean())
        assert table.loc["model", f"width{level}"] == pytest.approx(
            (ends[:, 1] - ends[:, 0]).mean()
        )
        error = metrics.share_error(inside, level / 100)
        assert table.loc["model", f"cov{level}_error"] == pytest.approx(error)
    same = [name for name in table.columns if not name.startswith(("cov", "width"))]
    pd.testing.assert_frame_equal(table[same], plain.metrics["y"][same])
    pd.testing.assert_frame_equal(table.iloc[1:], plain.metrics["y"].iloc[1:])
    np.testing.assert_array_equal(found.pit["y"], plain.pit["y"])
    assert table.columns.tolist() == plain.metrics["y"].columns.tolist()


def adaptive_frame(forecaster, rows, *levels):
    frame = forecaster.predict(rows, quantiles=levels, adaptive=True)
    return frame[[f"q{level:g}" for level in levels]]


def test_calibrated_interval_is_the_model_s(df, fitted):
    rows = np.arange(LAG, len(df))
    X = np.concatenate([window(df, tau) for tau in rows])
    low, high = fitted.model_.interval(X, 0.8)
    found = fitted.predict(df, quantiles=(), interval=0.8)
    assert found.columns.tolist() == ["mean", "std", "low", "high"]
    np.testing.assert_allclose(found["low"].iloc[LAG:], low, rtol=1e-6)
    np.testing.assert_allclose(found["high"].iloc[LAG:], high, rtol=1e-6)
    both = fitted.predict(df, interval=0.8, adaptive=True)
    same_frames(both[["low", "high"]], found[["low", "high"]])


def test_intervals_that_there_are_none_of(df, fitted):
    with pytest.raises(ValueError, match=r"interval=95 must be between 0 and 1"):
        fitted.predict(df, interval=95)
    with pytest.raises(ValueError, match=r"level 0\.999 needs 999 validation rows"):
        fitted.predict(df, interval=0.999)
    for options in ({"interval": 0.9}, {"adaptive": True}):
        with pytest.raises(ValueError, match=r"observed=False asks for the latent function"):
            fitted.predict(df, observed=False, **options)
    bare = make(model=small_model(calibrate=False, epochs=1)).fit(df.iloc[:TRAIN])
    with pytest.raises(ValueError, match=r"no validation residuals .* fit with calibrate=True"):
        bare.predict(df, interval=0.9)
    inputs = make(mode="regression", past_inputs=(), model=small_model(epochs=1))
    inputs.fit(df.iloc[:TRAIN])
    assert inputs.predict(df[["u"]], interval=0.5)["low"].notna().any()
    with pytest.raises(ValueError, match="no column 'y'"):
        inputs.predict(df[["u"]], adaptive=True)


def test_forecast_is_the_loop_written_by_hand(df, fitted):
    steps, samples = 5, 30
    found = fitted.forecast(steps, future=df[["u"]], samples=samples, seed=3)
    rng = np.random.default_rng(3)
    u = df["u"].to_numpy()
    past = np.repeat(df[["v", "y"]].to_numpy()[None, TRAIN - LAG : TRAIN], samples, 0)
    carrier = fitted.state_.carrier
    tails = np.array([3.0, fitted.model_.dof_[0]])  # v is a Gaussian's, whatever is drawn for it
    for k in range(steps):
        known = np.broadcast_to(u[TRAIN + k - LAG + 1 : TRAIN + k + 1, None], (samples, LAG, 1))
        X = np.concatenate([known, past], axis=2)
        v_mean = X.reshape(samples, -1) @ carrier.weight[:, 0] + carrier.intercept[0]
        y_mean, y_std = fitted.model_.predict(X, return_std=True)
        mean = np.stack([v_mean, y_mean], 1)
        std = np.stack([np.full(samples, carrier.std[0]), y_std], 1)
        normal = rng.standard_normal((samples, 2))
        chi = rng.chisquare(np.broadcast_to(tails, (samples, 2)))
        drawn = mean + std * normal
        drawn[:, 1] = y_mean + y_std * normal[:, 1] * np.sqrt((tails[1] - 2.0) / chi[:, 1])
        np.testing.assert_allclose(found.paths[:, k], drawn[:, 1], rtol=1e-5, atol=1e-6)
        assert found.frame["mean"].iloc[k] == pytest.approx(y_mean.mean(), rel=1e-5, abs=1e-6)
        spread = np.sqrt((y_std**2).mean() + y_mean.var())
        assert found.frame["std"].iloc[k] == pytest.approx(spread, rel=1e-5)
        past = np.concatenate([past[:, 1:], drawn[:, None]], axis=1)
    assert found.frame.index.equals(df.index[TRAIN : TRAIN + steps])
    assert found.seed == 3
    np.testing.assert_allclose(found.frame["q0.975"], np.quantile(found.paths, 0.975, axis=0))


def test_past_inputs_are_carried_by_a_bayesian_line(df, fitted):
    X = np.concatenate([window(df, tau).reshape(1, -1) for tau in range(LAG, TRAIN)])
    line = BayesianRidge(alpha_1=0, alpha_2=0, lambda_1=0, lambda_2=0, max_iter=2000, tol=1e-8)
    for name, found in (("v", fitted.state_.carrier), ("y", fitted.state_.ridge)):
        scale = X.std(0)
        line.fit(X / scale, df[name].to_numpy()[LAG:TRAIN])
        mean = found.predict(X.reshape(-1, LAG, 3))[:, 0]
        spread = df[name].std()
        np.testing.assert_allclose(mean, line.predict(X / scale), atol=0.01 * spread)
        assert found.std[0] == pytest.approx(line.alpha_**-0.5, rel=0.05)


def test_forecast_quantiles_are_ordered_and_the_band_widens(df, fitted):
    frame = fitted.forecast(20, df[["u"]], quantiles=(0.5, 0.9, 0.1), samples=100).frame
    quantiles = frame[["q0.1", "q0.5", "q0.9"]].to_numpy()
    assert (np.diff(quantiles, axis=1) > 0).all()
    assert frame["std"].iloc[10:].min() > 1.2 * frame["std"].iloc[0]
    again = fitted.forecast(20, df[["u"]], quantiles=(0.5, 0.9, 0.1), samples=100).frame
    pd.testing.assert_frame_equal(frame, again)
    other = fitted.forecast(20, df[["u"]], samples=100, seed=1)
    assert not np.allclose(other.frame["mean"].iloc[1:], frame["mean"].iloc[1:], rtol=1e-6)


def test_forecast_from_other_rows_and_simulate_are_one(df, fitted):
    rows = df.iloc[:200]
    a = fitted.forecast(8, df.iloc[200:][["u"]], df=rows, samples=10)
    b = fitted.simulate(df.iloc[200:208], init=df.iloc[200 - LAG : 200], samples=10)
    pd.testing.assert_frame_equal(a.frame, b.frame)
    np.testing.assert_array_equal(a.paths, b.paths)
    mean = fitted.simulate(df.iloc[200:208], init=rows, feedback="mean")
    assert mean.paths is None
    first = fitted.model_.predict(window(df, 200))
    assert mean.frame["mean"].iloc[0] == pytest.approx(first[0], rel=1e-6)


def test_direct_forecasts_reach_as_far_as_their_horizon(df):
    forecaster = make(horizon=3).fit(df.iloc[:TRAIN])
    found = forecaster.forecast(3, df[["u"]])
    rows = df.iloc[: TRAIN + 3].copy()
    rows.iloc[TRAIN:, 1:] = np.nan
    expected = forecaster.predict(rows).iloc[TRAIN:]
    same_frames(found.frame, expected)
    np.testing.assert_allclose(found.paths.std(0), found.frame["std"], rtol=0.2)
    fitted = forecaster.model_.fitted_
    tails = replace(fitted.calibration, dof=np.array([3.0]))
    forecaster.model_.fitted_ = replace(fitted, calibration=tails)  # Student's t, everywhere
    heavy = forecaster.predict(rows).iloc[TRAIN:]
    same_frames(forecaster.forecast(3, df[["u"]]).frame, heavy)
    half = t.ppf(0.975, 3) / np.sqrt(3) * heavy["std"]  # a t of 3 degrees deviates by √3
    np.testing.assert_allclose(heavy["q0.975"] - heavy["mean"], half)
    follow = forecaster.predict(df, adaptive=True).iloc[LAG + 2 : LAG + 5]
    np.testing.assert_allclose(follow["q0.025"], forecaster.predict(df)["q0.025"].loc[follow.index])
    with pytest.raises(ValueError, match="4 steps are asked for, and this forecaster reaches 3"):
        forecaster.forecast(4, df[["u"]])
    with pytest.raises(ValueError, match="horizon=3: use predict"):
        forecaster.simulate(df.iloc[200:], df.iloc[:200])


def test_regression_forecasts_from_future_inputs(df):
    forecaster = make(mode="regression", past_inputs=(), calendar=["hour"]).fit(df.iloc[:TRAIN])
    found = forecaster.forecast(40, df[["u"]]).frame
    expected = forecaster.predict(df[["u"]]).iloc[TRAIN : TRAIN + 40]
    same_frames(found, expected)
    past = make(mode="regression", horizon=2).fit(df.iloc[:TRAIN])
    assert len(past.forecast(2, df[["u"]]).frame) == 2
    with pytest.raises(ValueError, match="past inputs are not known any further"):
        past.forecast(3, df[["u"]])


def test_forecast_says_what_it_needs(df, fitted):
    with pytest.raises(
        ValueError, match=r"needs 'u' in advance.*the 24 rows from 2024-01-07 16:00"
    ):
        fitted.forecast(24)
    with pytest.raises(ValueError, match="'u' is missing at 2024-01-07 18:00:00"):
        fitted.forecast(24, df[["u"]].iloc[: TRAIN + 2])
    with pytest.raises(ValueError, match="no column 'u'"):
        fitted.forecast(2, df[["v"]])
    with pytest.raises(ValueError, match="known data at 2024-01-07 15:00:00"):
        fitted.forecast(2, df[["u"]].iloc[:TRAIN])
    with pytest.raises(ValueError, match="horizon is 0"):
        fitted.forecast(0, df[["u"]])
    gap = df.iloc[:TRAIN].copy()
    gap.iloc[TRAIN - 3, 2] = np.nan
    with pytest.raises(ValueError, match="values are missing among the 6 rows up to 2024-01-07 15"):
        fitted.forecast(2, df[["u"]], df=gap)
    with pytest.raises(ValueError, match="expected at least 6 to start from"):
        fitted.forecast(2, df[["u"]], df=df.iloc[:4])
    with pytest.raises(NotFittedError, match="call fit first"):
        make().forecast(2)
    with pytest.raises(ValueError, match="quantiles has 95"):
        fitted.predict(df, quantiles=(95,))
    with pytest.raises(ValueError, match="give more rows before"):
        fitted.predict(df.iloc[:3])


def test_rows_with_numbers_only(df):
    plain = df.reset_index(drop=True)
    forecaster = make().fit(plain.iloc[:TRAIN])
    assert (forecaster.state_.kind, forecaster.state_.step, forecaster.state_.end) == (
        "row",
        1,
        159,
    )
    future = plain[["u"]].iloc[TRAIN : TRAIN + 5]
    a = forecaster.forecast(5, future, samples=10).frame
    b = forecaster.forecast(5, future.reset_index(drop=True), samples=10).frame  # the next rows
    pd.testing.assert_frame_equal(a, b)
    assert a.index.tolist() == list(range(TRAIN, TRAIN + 5))
    forecaster.update(plain.iloc[TRAIN : TRAIN + 5].reset_index(drop=True))
    assert forecaster.state_.end == TRAIN + 4


@pytest.mark.parametrize("inference", ["exact", "grid"])
@pytest.mark.parametrize("missing", ["drop", "interpolate"])
def test_update_equals_conditioning_on_all_rows(df, inference, missing):
    df = df.copy()
    df.iloc[[40, 41, 158, 161, 165], 2] = np.nan
    df.iloc[157, 0] = np.nan
    df = df.drop(df.index[[170, 181, 182]])  # 181, 182: between two updates
    first, second, third = df.iloc[:TRAIN], df.iloc[TRAIN:180], df.iloc[180:]
    forecaster = make(model=small_model(gp__inference=inference), missing=missing).fit(first)
    before = forecaster.model_.fitted_.rows
    forecaster.update(second).update(third)

    grid = pd.date_range(df.index[0], df.index[-1], freq="h")
    values = df.reindex(grid)[["u", "v", "y"]].to_numpy()
    used = cut(Table(grid, values, np.arange(len(grid)), "h"), forecaster.layout)
    used = used.training_windows()
    model = forecaster.model_
    assert before < model.fitted_.rows == len(used)
    assert forecaster.data_report_.updated_windows == len(used) - before
    assert forecaster.data_report_.updated_rows == len(second) + len(third)
    X, y = used[:], used.y
    fitted = model.fitted_
    x, z, best = fitted.inputs(X), fitted.targets(y), fitted.members[0]
    found = model.predict(X, return_std=True)
    with torch.no_grad():
        latent = encode(best.network, x).latent
        posterior = best.layer.condition(latent, z - fitted.mean.predict(x).mean)
    model.fitted_ = replace(fitted, members=(replace(best, posterior=posterior),))
    scratch = model.predict(X, return_std=True)
    for a, b in zip(found, scratch, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8)
    assert forecaster.history_.index[-1] == df.index[-1]


def test_update_refuses_what_is_known_already(df):
    forecaster = make().fit(df.iloc[:TRAIN])
    state = forecaster.state_
    with pytest.raises(
        ValueError, match=r"begins at 2024-01-07 15:00:00, and rows up to .* are known"
    ):
        forecaster.update(df.iloc[TRAIN - 1 :])
    with pytest.raises(ValueError, match="nothing to update with"):
        forecaster.update(df.iloc[TRAIN:].assign(y=np.nan))
    assert forecaster.state_ is state


def test_evaluation_scores_all_on_the_same_rows(df):
    df = df.copy()
    df.iloc[[TRAIN + 10, TRAIN + 30], 2] = np.nan
    forecaster = make().fit(df.iloc[:TRAIN])
    found = forecaster.evaluate(df.iloc[TRAIN:])
    table, frame = found.metrics["y"], found.frame
    assert table.index.tolist() == ["model", "persistence", "ridge"]
    scored = frame["mean"].notna() & frame["y"].notna()
    assert table["n"].tolist() == [int(scored.sum())] * 3
    assert len(found.pit["y"]) == scored.sum()

    y, train = frame["y"][scored], df["y"].iloc[LAG:TRAIN]
    last = df["y"].ffill().shift(1).loc[y.index]
    rmse = lambda mean: np.sqrt(np.mean((y - mean) ** 2))  # noqa: E731
    assert table.loc["persistence", "rmse"] == pytest.approx(rmse(last))
    assert table.loc["model", "rmse"] == pytest.approx(rmse(frame["mean"][scored]))
    assert table.loc["model", "rmse_z"] == pytest.approx(
        rmse(frame["mean"][scored]) / train.std(ddof=0)
    )
    std = df["y"].iloc[:TRAIN].diff().std(ddof=0)
    assert table.loc["persistence", "nlpd"] == pytest.approx(-norm.logpdf(y, last, std).mean())
    rows = [df.index.get_loc(time) for time in y.index]
    ridge = [forecaster.state_.ridge.predict(window(df, tau))[0, 0] for tau in rows]
    assert table.loc["ridge", "rmse"] == pytest.approx(rmse(ridge))
    assert table.loc["model", "rmse"] < table.loc["persistence", "rmse"]
    inside = np.abs(y - last) <= norm.ppf(0.9) * std
    assert table.loc["persistence", "cov80"] == pytest.approx(inside.mean())
    error = metrics.share_error(inside, 0.8)
    assert table.loc["persistence", "cov80_error"] == pytest.approx(error)
    with pytest.raises(ValueError, match="no row has both"):
        make(mode="regression").fit(df.iloc[:TRAIN]).evaluate(df.iloc[TRAIN:].assign(y=np.nan))


def test_several_targets_have_columns_of_their_own(df):
    forecaster = make(target=["y", "v"], past_inputs=()).fit(df.iloc[:TRAIN])
    found = forecaster.predict(df.iloc[TRAIN:], quantiles=(0.5,))
    assert found.columns.tolist() == ["y.mean", "y.std", "y.q0.5", "v.mean", "v.std", "v.q0.5"]
    assert found.notna().all(axis=None)
    ahead = forecaster.forecast(4, df[["u"]], samples=11)
    assert ahead.paths.shape == (11, 4, 2)
    ranges = forecaster.predict(df.iloc[TRAIN:], (), interval=0.5, adaptive=True)
    assert ranges.columns.tolist() == [
        f"{target}.{name}" for target in "yv" for name in ("mean", "std", "low", "high")
    ]
    radius = forecaster.model_.fitted_.calibration.radius(0.5)
    assert ((ranges["v.high"] - ranges["v.mean"]) / ranges["v.std"]).to_numpy() == pytest.approx(
        radius[1]
    )
    follow = forecaster.predict(df.iloc[TRAIN:], (0.5,), adaptive=True)
    for target, dof in zip("yv", forecaster.model_.dof_, strict=True):
        mean, std = (found[f"{target}.{name}"] for name in ("mean", "std"))
        (median,) = adaptive_quantiles(df[target].iloc[TRAIN:], mean, std, (0.5,), dof)
        np.testing.assert_allclose(follow[f"{target}.q0.5"], median, rtol=1e-6)
    evaluation = forecaster.evaluate(df.iloc[TRAIN:], adaptive=True)
    assert set(evaluation.metrics) == {"y", "v"}
    assert {"y", "v", "v.mean"} <= set(evaluation.frame.columns)


def test_simulation_mode_is_a_free_run():
    df, train = hourly(110), 90
    forecaster = make(mode="simulation", past_inputs=()).fit(df.iloc[:train])
    assert {"one-step", "inputs-only", "round 1"} <= set(forecaster.state_.simulation_scores)
    changed = df.copy()
    changed.iloc[train:, 2] = 99.0  # targets of the run itself are never looked at
    found = forecaster.predict(df.iloc[train:])
    pd.testing.assert_frame_equal(found, forecaster.predict(changed.iloc[train:]))
    run = forecaster.forecast(len(df) - train, df[["u"]])
    np.testing.assert_allclose(found, run.frame)
    table = forecaster.evaluate(df.iloc[train:]).metrics["y"]
    held = df["y"].iloc[train - 1]
    expected = np.sqrt(np.mean((df["y"].iloc[train:] - held) ** 2))
    assert table.loc["persistence", "rmse"] == pytest.approx(expected)
    assert table.loc["model", "rmse"] < table.loc["persistence", "rmse"]
    for options in ({"observed": False}, {"interval": 0.9}, {"adaptive": True}):
        with pytest.raises(ValueError, match="no meaning in simulation"):
            forecaster.predict(df, **options)
    with pytest.raises(ValueError, match="adaptive has no meaning in simulation"):
        forecaster.evaluate(df, adaptive=True)


def test_simulation_mode_survives_gaps_and_updates():
    df, train = hourly(130), 110
    df.iloc[[40, 102], 2] = np.nan
    df.iloc[125, 0] = np.nan
    forecaster = make(mode="simulation", past_inputs=()).fit(df.iloc[:train])
    found = forecaster.predict(df.iloc[train:])
    assert found["mean"].notna().tolist() == [True] * 15 + [False] * 5  # the run ends without u
    assert found.attrs["counts"]["missing_values"] == 5
    table = Table(df.index, df[["u", "y"]].to_numpy(), np.arange(len(df)), "h")
    rows = cut(table, forecaster.layout).training_windows()
    masked = InputsOnly.trained(small_model(epochs=1), 1, rows, rows)
    n = masked.model.fitted_.rows
    update(masked, rows.subset(slice(0, 7)))
    assert masked.model.fitted_.rows == n + 7
    forecaster.model_ = masked
    forecaster.update(df.iloc[train:])
    assert masked.model.fitted_.rows > n + 7


def test_a_plain_network_can_forecast_and_move_on(df):
    model = SequenceNet(LSTM(hidden=4), training=Training(epochs=1), random_state=0, progress=False)
    forecaster = make(model=model).fit(df.iloc[:TRAIN])
    before = forecaster.predict(df)
    forecaster.update(df.iloc[TRAIN:])
    pd.testing.assert_frame_equal(before, forecaster.predict(df))
    assert forecaster.history_.index[-1] == df.index[-1]
    assert not hasattr(model, "fitted_")


def test_validation_rows_are_used_in_place_of_the_last(df):
    forecaster = make().fit(df.iloc[:TRAIN], validation=df.iloc[TRAIN:])
    assert forecaster.model_.fitted_.rows == TRAIN - LAG
    inputs = np.column_stack([np.append(df["u"].to_numpy()[1:], 0.0), df["v"]])
    windows = WindowSet(inputs, df["y"].to_numpy(), lag=LAG, mode="autoregression")
    held = windows.subset(windows.time >= TRAIN)
    by_hand = small_model().fit(windows.subset(windows.time < TRAIN), validation=held)
    np.testing.assert_allclose(
        forecaster.predict(df)["mean"].iloc[LAG:], by_hand.predict(windows), rtol=1e-6
    )
    with pytest.raises(ValueError, match="no complete window"):
        make().fit(df.iloc[:TRAIN], validation=df.iloc[TRAIN + 1 : TRAIN + 4])


def test_stop_ends_training_early(df):
    model = small_model(epochs=50)
    forecaster = make(model=model).fit(df.iloc[:TRAIN], stop=lambda: True)
    assert len(forecaster.model_.history_) == 1
    free = make(mode="simulation", model=model).fit(df.iloc[:TRAIN], stop=lambda: True)
    assert list(free.state_.simulation_scores) == ["one-step"]


def test_default_model_is_a_gp(df):
    forecaster = Forecaster("y", lag=4).fit(df[["y"]].iloc[:40], stop=lambda: True)
    assert type(forecaster.model_).__name__ == "SequenceGP"
    assert forecaster.model is None


def parts_of_state(forecaster):
    header, arrays = forecaster.parts()
    return json.loads(json.dumps(header["state"])), {k: v.copy() for k, v in arrays.items()}


@pytest.mark.parametrize("past_inputs", [[], ["v"]])
def test_state_survives_json_and_arrays(df, past_inputs):
    forecaster = make(past_inputs=past_inputs, holidays=["2024-01-01"]).fit(df.iloc[:TRAIN])
    header, arrays = parts_of_state(forecaster)
    again = Forecaster(**forecaster.params())
    again.state_ = restored_state(header, Shelf(arrays), forecaster.layout)
    again.model_ = forecaster.model_
    assert again.data_report_ == forecaster.data_report_
    pd.testing.assert_frame_equal(
        again.forecast(6, df[["u"]], samples=9).frame,
        forecaster.forecast(6, df[["u"]], samples=9).frame,
    )
    pd.testing.assert_frame_equal(again.history_, forecaster.history_)
    for broken in ({**header, "kind": "row"}, {**header, "report": {}}, {"kind": "time"}):
        with pytest.raises(ValueError, match=r"expected|has no"):
            restored_state(broken, Shelf(arrays), forecaster.layout)
    wrong = arrays | {"state.target_std": np.ones(3)}
    with pytest.raises(ValueError, match="expected"):
        restored_state(header, Shelf(wrong), forecaster.layout)


def test_local_time_survives_the_state(df):
    local = df.tz_localize("Europe/Berlin")
    forecaster = make(calendar=["hour"]).fit(local.iloc[:TRAIN])
    header, arrays = parts_of_state(forecaster)
    forecaster.state_ = restored_state(header, Shelf(arrays), forecaster.layout)
    assert forecaster.history_.index.equals(local.index[TRAIN - LAG : TRAIN])
    found = forecaster.predict(local.iloc[TRAIN:].tz_convert("UTC"))
    assert found.notna().all(axis=None)
    pd.testing.assert_frame_equal(found, forecaster.predict(local.iloc[TRAIN:]), check_freq=False)


@pytest.mark.parametrize("name", ["mean", "std", "q0.025"])
def test_a_target_named_like_a_prediction_is_refused(name):
    with pytest.raises(ValueError, match="rename it"):
        Forecaster(name)
