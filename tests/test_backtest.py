"""The rolling origin against a loop written by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from forecaster_data import hourly, small_model
from seqgp import Forecaster
from seqgp.estimators import SequenceRegressor
from seqgp.metrics import scores


def make(**options):
    base = dict(target="y", inputs=["u"], past_inputs=["v"], lag=5, model=small_model(epochs=1))
    return Forecaster(**base | options)


@pytest.mark.parametrize("refit", [False, True])
def test_backtest_is_the_loop_written_by_hand(refit):
    df = hourly(150)
    found = make().backtest(df, horizon=6, stride=15, refit=refit, start=0.6, samples=12, seed=4)
    forecaster, rows = make().fit(df.iloc[:90]), []
    for origin in range(90, 150 - 6 + 1, 15):
        if origin > 90:
            if refit:
                forecaster = make().fit(df.iloc[:origin])
            else:
                forecaster.update(df.iloc[origin - 15 : origin])
        frame = forecaster.forecast(6, df[["u"]], samples=12, seed=4).frame
        truth = df["y"].iloc[origin : origin + 6]
        for k in range(6):
            head = [df.index[origin - 1], truth.index[k], k + 1, truth.iloc[k]]
            rows.append([*head, *frame.iloc[k]])
    names = ["origin", "time", "step", "y", "mean", "std", "q0.025", "q0.975"]
    expected = pd.DataFrame(rows, columns=names)
    pd.testing.assert_frame_equal(found.forecasts, expected, check_dtype=False)
    assert found.skipped == 0

    assert found.metrics.index.tolist() == [1, 2, 3, 4, 5, 6, "all"]
    scale = df["y"].iloc[5:90].std(ddof=0)
    third = expected[expected["step"] == 3]
    by_hand = scores(third["y"], third["mean"], third["std"], scale)
    assert found.metrics.loc[3].to_dict() == pytest.approx(by_hand)
    by_hand = scores(expected["y"], expected["mean"], expected["std"], scale)
    assert found.metrics.loc["all"].to_dict() == pytest.approx(by_hand)


def test_direct_forecasts_are_scored_with_their_tails(monkeypatch):
    monkeypatch.setattr(SequenceRegressor, "dof_", property(lambda self: np.array([3.0])))
    found = make(horizon=4).backtest(hourly(120), horizon=4, start=0.6, samples=5)
    rows = found.forecasts
    inside = rows["y"].between(rows["q0.025"], rows["q0.975"])
    assert found.metrics.loc["all", "cov95"] == pytest.approx(inside.mean())
    by_hand = scores(rows["y"], rows["mean"], rows["std"], dof=3.0)
    assert found.metrics.loc["all", "nlpd"] == pytest.approx(by_hand["nlpd"])
    widths = (rows["q0.975"] - rows["q0.025"]).mean()
    assert found.metrics.loc["all", "width95"] == pytest.approx(widths)


def test_backtest_leaves_the_forecaster_alone_and_takes_a_time():
    df = hourly(120)
    forecaster = make()
    found = forecaster.backtest(df, horizon=4, start="2024-01-05 00:00", samples=5)
    assert not hasattr(forecaster, "state_")
    assert found.forecasts["time"].iloc[0] == pd.Timestamp("2024-01-05 00:00")
    assert len(found.forecasts) == 24  # 96 .. 119, four by four


def test_backtest_passes_over_origins_after_missing_values():
    df = hourly(120)
    df.iloc[88, 2] = np.nan  # among the five rows before the origins 90 and 93
    df.iloc[95, 2] = np.nan  # the newest row of the origin 96, and among the rows before 99
    df.iloc[110, 2] = np.nan  # a truth that is missing
    found = make().backtest(df, horizon=3, start=0.75, samples=5)
    first = found.forecasts.loc[found.forecasts["step"] == 1, "time"]
    assert [df.index.get_loc(time) for time in first] == [102, 105, 108, 117]
    assert found.skipped == 6
    assert found.metrics.loc["all", "n"] == 11
    with pytest.raises(ValueError, match="before every one of the 1 origins"):
        make().backtest(df.iloc[:93], horizon=3, start=90 / 93, samples=5)


def test_backtest_of_several_targets_and_of_row_numbers():
    df = hourly(100).reset_index(drop=True)
    found = make(target=["y", "v"], past_inputs=()).backtest(df, 2, stride=10, samples=5)
    assert found.metrics.index.names == ["target", "step"]
    assert found.metrics.loc[("v", "all"), "n"] == 6
    assert found.forecasts["origin"].tolist() == [69, 69, 79, 79, 89, 89]


def test_backtest_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match=r"no forecast of 50 rows fits after start=0\.7"):
        make().backtest(hourly(100), horizon=50)
    with pytest.raises(ValueError, match="share of the rows"):
        make().backtest(hourly(100), horizon=5, start=1.5)
    with pytest.raises(ValueError, match="stride is 0"):
        make().backtest(hourly(100), horizon=5, stride=0)
