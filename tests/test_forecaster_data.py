"""Frames in: times, columns, missing values, and the windows cut from them."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecaster_data import hourly, small_model
from seqgp import Forecaster
from seqgp.forecasting.columns import read_times
from seqgp.forecasting.frames import Table, cut, fill_gaps
from seqgp.forecasting.times import calendar_features, infer_step, place


def _forecaster(**options):
    base = dict(target="y", inputs=["u"], past_inputs=["v"], lag=4, model=small_model(epochs=1))
    return Forecaster(**base | options)


def _table(df, forecaster):
    values = df[list(forecaster.layout.columns)].to_numpy(float)
    return Table(df.index, values, np.arange(len(df)), "h")


@pytest.mark.parametrize("mode", ["autoregression", "regression"])
@pytest.mark.parametrize("horizon", [1, 3])
def test_a_window_holds_what_is_known(mode, horizon):
    df = hourly(30)
    forecaster = _forecaster(mode=mode, horizon=horizon)
    data = cut(_table(df, forecaster), forecaster.layout)
    assert data.complete.all()
    assert data.windows.time.tolist() == list(range(4 + horizon - 1, 30))
    for window, tau in zip(data.windows[:], data.windows.time, strict=True):
        now = tau - horizon
        columns = [df["u"].iloc[tau - 3 : tau + 1], df["v"].iloc[now - 3 : now + 1]]
        if mode == "autoregression":
            columns.append(df["y"].iloc[now - 3 : now + 1])
        np.testing.assert_array_equal(window, np.stack([each.to_numpy() for each in columns], 1))
    np.testing.assert_array_equal(data.windows.y, df["y"].to_numpy()[data.windows.time])


def test_regression_on_known_inputs_reaches_the_target_itself():
    forecaster = _forecaster(mode="regression", past_inputs=(), horizon=5)
    windows = cut(_table(hourly(30), forecaster), forecaster.layout).windows
    assert windows.time[0] == 3
    np.testing.assert_array_equal(windows[0][-1], hourly(30)["u"].iloc[3])


@settings(max_examples=60, deadline=None)
@given(
    holes=st.lists(st.tuples(st.integers(0, 29), st.integers(0, 2)), max_size=25),
    now=st.integers(6, 24),
    horizon=st.integers(1, 3),
    mode=st.sampled_from(["autoregression", "regression"]),
    missing=st.sampled_from(["drop", "interpolate"]),
    seed=st.integers(0, 99),
)
def test_windows_do_not_change_with_the_future(holes, now, horizon, mode, missing, seed):
    """Values after a window, and whether they are missing, change neither it nor its completeness."""
    df = hourly(30)
    for row, column in holes:
        df.iloc[row, column] = np.nan
    forecaster = _forecaster(mode=mode, horizon=horizon, missing=missing)
    rng = np.random.default_rng(seed)
    other = df.copy()
    later = np.where(rng.random((30, 3)) < 0.3, np.nan, rng.standard_normal((30, 3)))
    other.iloc[now + 1 :, 1:] = later[now + 1 :, 1:]  # v and y after the window's last row
    other.iloc[now + horizon + 1 :, 0] = later[now + horizon + 1 :, 0]  # u after the target's time
    a, b = (cut(_table(each, forecaster), forecaster.layout) for each in (df, other))
    up_to = a.windows.time <= now + horizon
    np.testing.assert_array_equal(a.complete[up_to], b.complete[up_to])
    same = up_to & a.complete
    np.testing.assert_array_equal(a.windows[same], b.windows[same])


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.one_of(st.none(), st.floats(-9, 9)), min_size=1, max_size=20),
    max_gap=st.integers(1, 4),
)
def test_gaps_are_filled_as_by_pandas_where_they_are_short(values, max_gap):
    column = pd.Series(values, dtype=float)
    line = column.interpolate(limit_area="inside")
    run = column.isna().groupby(column.notna().cumsum()).transform("sum")
    expected = column.where(column.notna() | (run > max_gap), line)
    found = fill_gaps(column.to_numpy()[:, None], max_gap)[:, 0]
    np.testing.assert_allclose(found, expected.to_numpy(), atol=1e-12)


def test_report_counts_what_was_done():
    df = hourly(80)
    df.iloc[20, 0] = np.nan  # u
    df.iloc[40:42, 2] = np.nan  # y
    df["c"] = 5.0
    df = df.drop(df.index[60])
    df.iloc[-2:, 2] = np.nan
    forecaster = _forecaster(inputs=["u", "c"]).fit(df)
    report = asdict(forecaster.data_report_)
    assert json.loads(json.dumps(report)) == report
    assert report["rows"] == 79
    assert report["missing_times"] == 1
    assert report["rows_without_target_at_end"] == 2
    assert report["missing_values"] == {"u": 1, "c": 0, "v": 0, "y": 2}
    assert report["interpolated_values"] == {"u": 0, "c": 0, "v": 0, "y": 0}
    assert report["constant_columns"] == ["c"]
    assert report["features"] == ["u", "c", "v", "y"]
    # Rows 0..77 have 74 windows. u at 20 is in those of rows 20..23; the targets at 40, 41 in those of
    # 41..45, and are wanted at 40 and 41; row 60 is wanted at 60, in windows of 60 (u) to 64.
    assert report["windows"] == 74
    assert report["windows_incomplete"] == 4 + 5 + 5
    assert report["windows_without_target"] == 1
    assert report["windows_used"] == 59

    filled = _forecaster(inputs=["u", "c"], missing="interpolate").fit(df).data_report_
    assert filled.interpolated_values == {"u": 2, "c": 1, "v": 1, "y": 3}
    # What still falls: u unknown at the target's own time (20, 60), the newest row of the past
    # unknown (41, 42, 61); and 40, for the lack of a target.
    assert filled.windows_incomplete == 5
    assert filled.windows_without_target == 1


def test_filled_targets_are_neither_trained_on_nor_scored():
    df = hourly(120)
    df.iloc[50:52, 2] = np.nan
    df.iloc[110, 2] = np.nan
    forecaster = _forecaster(missing="interpolate").fit(df.iloc[:100])
    assert (
        forecaster.model_.fitted_.rows == 96 - 2 - 1
    )  # windows less targets 50, 51, and window of 52
    found = forecaster.evaluate(df.iloc[100:])
    # 111 has no complete window: its newest target is unknown. 110 has no truth.
    assert found.metrics["y"].loc["model", "n"] == 18
    assert np.isnan(found.frame["y"].iloc[10])
    assert np.isfinite(found.frame["mean"].iloc[10])


@pytest.mark.parametrize("freq", ["h", "15min", "D", "2D", "MS", "B", "W-SUN", "500ms", "ME"])
def test_steps_are_inferred(freq):
    times = pd.date_range("2024-01-07", periods=20, freq=freq)
    step = infer_step(times)
    np.testing.assert_array_equal(place(times, step), np.arange(20))


def test_local_days_are_one_step_apart_when_clocks_change():
    times = pd.date_range("2024-03-28", periods=6, freq="D", tz="Europe/Berlin")
    assert infer_step(times) == "D"
    np.testing.assert_array_equal(place(times, "D"), np.arange(6))


def test_the_most_common_step_wins_and_gaps_are_placed():
    times = pd.date_range("2024-01-01", periods=10, freq="h").delete([3, 4, 7])
    assert infer_step(times) == "h"
    assert place(times, "h").tolist() == [0, 1, 2, 5, 6, 8, 9]
    rows = pd.DataFrame({"a": range(5)}, index=[0, 1, 2, 5, 6])
    assert place(read_times(rows, None), infer_step(read_times(rows, None))).tolist() == [
        0,
        1,
        2,
        5,
        6,
    ]


def test_times_in_a_column_or_the_index_are_the_same():
    df = hourly(60)
    text = df.reset_index()
    text["time"] = text["time"].astype(str)
    by_index = _forecaster().fit(df).predict(df)
    by_column = _forecaster(time="time").fit(text).predict(text)
    pd.testing.assert_frame_equal(by_index, by_column, check_freq=False)


def test_calendar_features_are_cycles_of_local_time():
    times = pd.DatetimeIndex(["2024-01-01 00:00", "2024-01-01 18:00", "2024-07-01 12:00"])
    found = calendar_features(times, ("hour", "weekday", "yearday"), ("2024-07-01",))
    angle = (
        2
        * np.pi
        * np.array([[0, 0, 0], [18 / 24, 0.75 / 7, 0.75 / 366], [0.5, 0.5 / 7, 182.5 / 366]])
    )
    waves = np.stack([np.sin(angle), np.cos(angle)], axis=2).reshape(3, 6)
    np.testing.assert_allclose(found, np.column_stack([waves, [0, 0, 1]]), atol=1e-12)
    berlin = calendar_features(times.tz_localize("UTC").tz_convert("Europe/Berlin"), ("hour",), ())
    np.testing.assert_allclose(berlin[:, 0], np.sin(2 * np.pi * np.array([1, 19, 14]) / 24))


def _changed(df, **columns):
    return df.assign(**columns)


BAD = {
    "no such column": (lambda df: df.rename(columns={"u": "uu"}), r"no column 'u'.*'uu'"),
    "text": (
        lambda df: _changed(df, u=["x" if i == 7 else "1.5" for i in range(60)]),
        "'u' has 'x' in data row 8",
    ),
    "infinite": (lambda df: _changed(df, v=np.inf), "'v' has an infinite value in data row 1"),
    "all missing": (lambda df: _changed(df, v=np.nan), "'v' has no value at all"),
    "no rows": (lambda df: df.iloc[:0], "no rows"),
    "too short": (lambda df: df.iloc[:5], "lag=4 and horizon=1 need at least 6"),
    "one row": (lambda df: df.iloc[:1], "1 row"),
    "dates as numbers": (lambda df: _changed(df, u=df.index), "'u' holds datetime"),
    "twice": (
        lambda df: df.iloc[[0, 1, 1, *range(2, 60)]],
        r"2024-01-01 01:00:00 appears twice.* data row 3",
    ),
    "unsorted": (
        lambda df: df.iloc[[0, 2, 1, *range(3, 60)]],
        "not sorted: 2024-01-01 01:00:00 in data row 3",
    ),
    "off the grid": (
        lambda df: df.set_index(
            df.index.where(np.arange(60) != 9, df.index + pd.Timedelta("7min"))
        ),
        "2024-01-01 09:07:00 in data row 10",
    ),
    "a year mistyped": (
        lambda df: df.set_index(df.index.where(np.arange(60) != 59, pd.Timestamp("2084-01-01"))),
        "nearly all of them missing",
    ),
    "nothing complete": (
        lambda df: _changed(df, v=df["v"].where(np.arange(60) % 4 != 0)),
        "only 0 have no missing",
    ),
    "constant target": (lambda df: _changed(df, y=1.0), "y is constant"),
    "column twice": (lambda df: pd.concat([df, df[["u"]]], axis=1), "'u' appears 2 times"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_frames_are_refused_with_a_reason(case):
    change, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        _forecaster().fit(change(hourly(60)))


def test_bad_times_are_refused_with_the_first_of_them():
    df = hourly(60).reset_index()
    df["time"] = df["time"].astype(str)
    df.loc[3, "time"] = "noon"
    with pytest.raises(ValueError, match="'time' has 'noon' in data row 4"):
        _forecaster(time="time").fit(df)
    with pytest.raises(ValueError, match=r"no time column 'tim'.*did you mean 'time'"):
        _forecaster(time="tim").fit(df)
    with pytest.raises(ValueError, match="holds float64 numbers"):
        _forecaster(time="v", past_inputs=()).fit(df)


def test_another_frequency_than_at_fit_is_refused():
    df = hourly(100)
    forecaster = _forecaster().fit(df.iloc[:60])
    with pytest.raises(ValueError, match="mostly 2 steps of h apart"):
        forecaster.predict(df.iloc[60::2])
    finer = df.iloc[60:].resample("30min").interpolate()
    with pytest.raises(ValueError, match="not on the grid of step h"):
        forecaster.predict(finer)
    with pytest.raises(ValueError, match="mostly 2 steps"):
        _forecaster(frequency="30min").fit(df)
    with pytest.raises(ValueError, match="had dates"):
        forecaster.predict(df.reset_index(drop=True))
    with pytest.raises(ValueError, match="zone"):
        forecaster.predict(df.tz_localize("UTC"))
    with pytest.raises(ValueError, match="a step of h is for dates"):
        _forecaster(frequency="h").fit(df.reset_index(drop=True))


def test_near_constant_and_boolean_columns_do_no_harm():
    df = hourly(80)
    df["u"] = 1e9 + 1e-6 * df["u"]
    df["v"] = df["v"] > 0
    found = _forecaster().fit(df).predict(df)
    assert np.isfinite(found.iloc[4:].to_numpy()).all()


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(inputs=["y"]), "'y' is named 2 times"),
        (dict(inputs="u"), r"write \['u'\]"),
        (dict(target=[]), "target is empty"),
        (dict(mode="forward"), "mode='forward' is not known"),
        (dict(mode="simulation", horizon=2), "horizon=2 must be 1"),
        (dict(mode="regression", inputs=(), past_inputs=()), "nothing to predict from"),
        (dict(calendar=["month"]), "calendar='month'"),
        (dict(frequency="often"), "frequency='often'"),
        (dict(missing="zero"), "missing='zero'"),
        (dict(lag=0), "lag is 0"),
        (dict(holidays=["soon"]), "holidays has 'soon'"),
        (dict(model="lstm"), "model is a str"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        _forecaster(**options)


def test_calendar_without_dates_is_refused():
    with pytest.raises(ValueError, match="need dates"):
        _forecaster(calendar=["hour"]).fit(hourly(60).reset_index(drop=True))
