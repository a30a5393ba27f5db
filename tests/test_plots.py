"""What is drawn: axes, labels and data."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from seqgp import metrics, plots
from seqgp.demo.picture import forecast_picture, save_picture
from seqgp.plots.style import thin, time_axis


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """The result of an evaluation: 200 hours of predictions and measured values."""
    rng = np.random.default_rng(0)
    times = pd.date_range("2024-01-01", periods=200, freq="h", tz="Europe/Berlin")
    mean, std = 5000 + 100 * rng.standard_normal(200), 10 + rng.random(200)
    columns = {"mean": mean, "std": std, "q0.1": mean - 1.3 * std, "q0.025": mean - 2.0 * std}
    columns |= {"q0.9": mean + 1.3 * std, "q0.975": mean + 2.5 * std}
    return pd.DataFrame({**columns, "y": mean + std * rng.standard_normal(200)}, index=times)


@pytest.fixture(scope="module")
def pit(frame) -> np.ndarray:
    return metrics.pit(frame["y"], frame["mean"], frame["std"])


def lines_of(axis):
    return {line.get_label(): line for line in axis.lines}


def labels_of(axis):
    return axis.get_xlabel(), axis.get_ylabel(), axis.get_legend_handles_labels()[1]


@given(st.integers(1, 5000), st.integers(1, 500))
def test_thinning(n, most):
    kept = thin(n, most)
    assert 1 <= len(kept) <= most
    assert kept[-1] == n - 1
    assert len(set(np.diff(kept))) <= 1


def test_forecast_plot(frame):
    (axis,) = plots.forecast_plot(frame, "y", last=50).axes
    lines = lines_of(axis)
    np.testing.assert_array_equal(lines["predicted"].get_ydata(), frame["mean"].iloc[-50:])
    np.testing.assert_array_equal(lines["measured"].get_ydata(), frame["y"].iloc[-50:])
    (band,) = axis.collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert heights.min() == pytest.approx(frame["q0.025"].iloc[-50:].min())
    assert heights.max() == pytest.approx(frame["q0.975"].iloc[-50:].max())
    x, y, legend = labels_of(axis)
    assert (x, y) == ("07 Jan 2024 to 09 Jan 2024", "y")
    assert legend == ["95% interval", "measured", "predicted"]


def test_a_frame_without_quantiles_has_a_gaussian_band(frame):
    (axis,) = plots.forecast_plot(frame[["mean", "std"]], "y").axes
    assert list(lines_of(axis)) == ["predicted"]
    heights = axis.collections[0].get_paths()[0].vertices[:, 1]
    assert heights.max() == pytest.approx((frame["mean"] + 1.959964 * frame["std"]).max())


def test_several_targets_are_told_apart(frame):
    both = frame.add_prefix("y.").assign(**{"y": frame["y"], "z.mean": 0.0, "z.std": 1.0})
    (axis,) = plots.forecast_plot(both, "y").axes
    np.testing.assert_array_equal(lines_of(axis)["predicted"].get_ydata(), frame["mean"])
    (axis,) = plots.forecast_plot(both, "z").axes
    assert set(lines_of(axis)["predicted"].get_ydata()) == {0.0}


def test_lines_break_where_rows_are_missing(frame):
    axis = plots.forecast_plot(frame.drop(frame.index[20:30]), "y").axes[0]
    assert np.flatnonzero(np.isnan(lines_of(axis)["predicted"].get_ydata())).tolist() == [20]


@pytest.mark.parametrize("draw", [plots.residual_plot, plots.error_plot])
def test_residuals_are_those_of_the_frame(frame, draw):
    axis = draw(frame.assign(y=frame["y"].where(np.arange(200) != 7)), "y").axes[0]
    residual = (frame["y"] - frame["mean"]).drop(frame.index[7])
    np.testing.assert_allclose(axis.collections[-1].get_offsets()[:, 1], residual)
    assert axis.get_ylabel() == "residual"


def test_residual_plot_has_the_interval_around_zero(frame):
    axis = plots.residual_plot(frame, "y").axes[0]
    heights = axis.collections[0].get_paths()[0].vertices[:, 1]
    assert heights.max() == pytest.approx((frame["q0.975"] - frame["mean"]).max())
    assert heights.min() == pytest.approx((frame["q0.025"] - frame["mean"]).min())


def test_error_plot_has_the_mean_of_every_bin(frame):
    axis = plots.error_plot(frame, "y").axes[0]
    x, y = lines_of(axis)["mean residual"].get_data()
    order = np.argsort(frame["mean"].to_numpy(), kind="stable")
    residual = (frame["y"] - frame["mean"]).to_numpy()
    first = np.array_split(order, len(x))[0]
    assert (x[0], y[0]) == pytest.approx((frame["mean"].iloc[first].mean(), residual[first].mean()))
    assert axis.get_xlabel() == "predicted y"


def test_frames_that_cannot_be_drawn_are_refused(frame):
    with pytest.raises(ValueError, match="no column 'y' with the measured values"):
        plots.residual_plot(frame.drop(columns="y"), "y")
    with pytest.raises(ValueError, match=r"expected 'mean' or 'z\.mean'"):
        plots.forecast_plot(frame[["y"]], "z")


def test_coverage_plot(frame, pit):
    axis = plots.coverage_plot(pit).axes[0]
    drawn = next(line for line in axis.lines if len(line.get_xdata()) == 10)
    levels = drawn.get_xdata()
    truth = [metrics.coverage(frame["y"], frame["mean"], frame["std"], q) for q in levels]
    np.testing.assert_allclose(drawn.get_ydata(), truth)
    (bars,) = axis.collections[1].get_segments()[:1]
    error = metrics.observed_coverage(pit, levels[0])[1]
    assert np.ptp(bars[:, 1]) == pytest.approx(4 * error)
    assert labels_of(axis)[:2] == ("nominal coverage", "observed coverage")


def test_pit_plot(pit):
    axis = plots.pit_plot(pit).axes[0]
    bars = axis.patches[:10]
    assert sum(bar.get_height() * bar.get_width() for bar in bars) == pytest.approx(1.0)
    assert bars[0].get_height() == pytest.approx((pit < 0.1).sum() / 20)
    band = axis.patches[10].get_bbox()
    assert (band.y0 * 20, band.y1 * 20) == pytest.approx(tuple(binom.ppf([0.025, 0.975], 200, 0.1)))
    for bad in ([], [0.5, np.nan], [1.5]):
        with pytest.raises(ValueError, match="numbers from 0 to 1"):
            plots.pit_plot(bad)


def test_training_plot_leaves_out_what_was_not_measured():
    curves = {name: [3.0, 2.0, 1.0] for name in ("nlml", "val_nlpd", "val_rmse", "noise")}
    history = pd.DataFrame({"epoch": [1, 2, 3], **curves})
    axes = plots.training_plot(history, 2).axes
    assert [axis.get_ylabel().replace("\n", " ") for axis in axes] == [
        *("NLML per row", "validation NLPD", "validation RMSE", "noise variance")
    ]
    assert axes[0].lines[0].get_ydata().tolist() == [3.0, 2.0, 1.0]
    assert set(lines_of(axes[0])["kept: epoch 2"].get_xdata()) == {2}
    unchecked = history.assign(val_rmse=np.nan, val_nlpd=np.nan)
    assert len(plots.training_plot(unchecked, 2).axes) == 2
    with pytest.raises(ValueError, match="at least one epoch"):
        plots.training_plot(history.iloc[:0])


def test_latent_plot(rng):
    H, values = rng.uniform(-1, 1, (50, 2)), rng.standard_normal(50)
    values[3] = np.nan
    axis, bar = plots.latent_plot(H, values, "load").axes
    cloud = axis.collections[0]
    np.testing.assert_array_equal(cloud.get_offsets(), np.delete(H, 3, 0))
    np.testing.assert_array_equal(cloud.get_array(), np.delete(values, 3))
    assert labels_of(axis)[:2] == ("latent dimension 1", "latent dimension 2")
    assert bar.get_ylabel() == "load"
    (axis,) = plots.latent_plot(H[:, :1], values, "load").axes
    np.testing.assert_array_equal(axis.collections[0].get_offsets()[:, 1], np.delete(values, 3))
    assert axis.get_ylabel() == "load"
    with pytest.raises(ValueError, match="expected \\(n, d\\) and \\(n,\\)"):
        plots.latent_plot(H, values[:5], "load")


def test_times_are_local_and_row_numbers_stay(frame):
    axis = plots.forecast_plot(frame, "y").axes[0]
    assert time_axis(axis, frame.index)[0] == np.datetime64("2024-01-01T00:00")
    axis = plots.forecast_plot(frame.reset_index(drop=True), "y").axes[0]
    assert axis.get_xlabel() == "row"
    assert lines_of(axis)["predicted"].get_xdata().tolist() == list(range(200))


def test_picture_of_the_demo(frame, tmp_path):
    figure = forecast_picture(frame.rename(columns={"y": "load"}), "A load")
    week, close = figure.axes
    assert [len(lines_of(axis)["measured"].get_ydata()) for axis in (week, close)] == [168, 48]
    np.testing.assert_array_equal(lines_of(close)["predicted"].get_ydata(), frame["mean"][-48:])
    assert figure.get_suptitle() == "A load"
    assert week.get_ylabel() == "load (MW)"
    save_picture(figure, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
