"""A table is read once and cut once, and parts of it are as good as frames."""

from __future__ import annotations

import sys
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from cli_data import TRAINING, run, series
from forecaster_data import hourly, small_model
from seqgp import Forecaster
from seqgp.forecasting import columns, frames, times

COUNTED = {
    "read_times": columns,
    "read_columns": columns,
    "cut": frames,
    "calendar_features": times,
}


@pytest.fixture
def calls(monkeypatch):
    """How often each function that reads or cuts has been called, from any module."""
    counts = Counter()

    def counted(name, function):
        def call(*args, **options):
            counts[name] += 1
            return function(*args, **options)

        return call

    for name, home in COUNTED.items():
        function = getattr(home, name)
        stand_in = counted(name, function)
        for module in list(sys.modules.values()):
            if module.__name__.startswith("seqgp.") and vars(module).get(name) is function:
                monkeypatch.setattr(module, name, stand_in)
    return counts


def make(**options):
    base = dict(target="y", inputs=["u"], past_inputs=["v"], lag=6, calendar=["hour"])
    return Forecaster(**base | dict(model=small_model()) | options)


ONCE = dict.fromkeys(COUNTED, 1)


def test_fit_reads_and_cuts_once(calls):
    make().fit(hourly(120))
    assert calls == ONCE


@pytest.mark.parametrize("options", [(), ("--mode", "simulation"), ("--missing", "interpolate")])
def test_the_command_reads_and_cuts_once(calls, capsys, tmp_path, options):
    """Training, baselines, scores of the rows held back and the update with them share one table."""
    series().to_csv(tmp_path / "data.csv", index=False)
    args = ("fit", tmp_path / "data.csv", "--target", "load", "--inputs", "temp", *TRAINING)
    more = ("--calendar", "hour", "--test", 0.2, "--out", tmp_path / "m.seqgp")
    code, _, err = run(capsys, *args, *more, *options)
    assert code == 0, err
    assert calls == ONCE


def test_each_later_frame_is_read_and_cut_once(calls):
    df = hourly(150)
    forecaster = make().fit(df.iloc[:120])
    for use in (forecaster.predict, forecaster.evaluate, forecaster.update):
        calls.clear()
        use(df.iloc[120:])
        assert calls == ONCE


@pytest.mark.parametrize("options", [{}, {"horizon": 3}, {"missing": "interpolate"}])
def test_parts_of_a_dataset_are_as_good_as_frames(options):
    df = hourly(200)
    df.iloc[[40, 41, 150, 170], 2] = np.nan
    df = df.drop(df.index[[60, 190]])
    held = int(0.2 * len(df))
    by_frame, by_part = make(**options), make(**options)
    training, rest = by_part.read(df).split(0.2)
    assert (len(training), len(rest)) == (len(df) - held, held)
    by_frame.fit(df.iloc[:-held])
    by_part.fit(training)
    assert by_part.data_report_ == by_frame.data_report_
    for adaptive in (False, True):
        a = by_frame.evaluate(df.iloc[-held:], adaptive)
        b = by_part.evaluate(rest, adaptive)
        pd.testing.assert_frame_equal(a.frame, b.frame, check_exact=True, check_freq=False)
        pd.testing.assert_frame_equal(a.metrics["y"], b.metrics["y"], check_exact=True)
    by_frame.update(df.iloc[-held:])
    by_part.update(rest)
    assert by_part.data_report_ == by_frame.data_report_
    pd.testing.assert_frame_equal(by_part.history_, by_frame.history_)
    a, b = (each.predict(df) for each in (by_frame, by_part))
    pd.testing.assert_frame_equal(a, b, check_exact=True)


def test_a_split_ends_at_the_last_target():
    df = hourly(100)
    df.iloc[90:, 2] = np.nan
    data = make().read(df)
    training, rest = data.split(0.1)
    assert (len(training), len(rest)) == (81, 9)
    whole, none = data.split(0.0)
    assert (len(whole), len(none)) == (90, 0)


def test_datasets_that_do_not_fit_are_refused():
    forecaster = make()
    training, rest = forecaster.read(hourly(100)).split(0.2)
    with pytest.raises(ValueError, match="the first part of a split"):
        forecaster.fit(rest)
    with pytest.raises(ValueError, match="other columns or windows"):
        make(lag=7).fit(training)
    forecaster.fit(training)
    with pytest.raises(ValueError, match="no row after"):
        forecaster.update(training)
