from __future__ import annotations

import base64
import copy
import io
import os
import re
import shutil
import subprocess
import warnings
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree.ElementTree import tostring

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from PIL import Image
from seqgp.training.noise import Calibration, NoiseShape

from forecaster_data import hourly, small_model
from seqgp import Forecaster, SequenceNet, metrics, plots
from seqgp.forecasting import Evaluation
from seqgp.plots.canvas import thin
from seqgp.report import write_report
from seqgp.report.findings import gather
from seqgp.report.formats import number
from seqgp.report.tables import learned_table
from seqgp.report.words import corrections, error_bars, quality, rows_used

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
VOID = {"meta", "img", "br"}
TRAINED = 260
EVIL = "<script>alert(1)</script>"


class Page(HTMLParser):
    """What a page holds; refuses elements that are not closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def written(forecaster, df, tmp_path, **options) -> tuple[str, Page]:
    path = tmp_path / "report.html"
    write_report(forecaster, df, path, **options)
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    assert path.stat().st_size < 2_000_000
    html = path.read_text("utf-8")
    return html, Page(html)


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return hourly(500)


@pytest.fixture(scope="module")
def forecaster(rows) -> Forecaster:
    model = small_model(epochs=3)
    made = Forecaster("y", inputs=["u"], past_inputs=["v"], lag=8, calendar=["hour"], model=model)
    return made.fit(rows.iloc[:TRAINED])


@pytest.fixture(scope="module")
def findings(forecaster, rows):
    return gather(forecaster, rows.iloc[TRAINED:])


@pytest.fixture(scope="module")
def report(forecaster, rows, tmp_path_factory) -> tuple[str, Page]:
    return written(forecaster, rows, tmp_path_factory.mktemp("report"), title="My <own> title")


@pytest.fixture
def quick(monkeypatch):
    """Coarse images: the tests that use this look at the text and count images."""
    monkeypatch.setattr("seqgp.report.page._DPI", 30)


def test_page_is_whole_and_needs_nothing_else(report):
    html, page = report
    ids = [part["id"] for part in page.all("section")]
    assert ids == ["summary", "target-1", "training", "latent", "data", "options"]
    assert [link["href"] for link in page.all("a")] == [f"#{each}" for each in ids]
    assert not re.search(r"http|url\(|@import|/work|/tmp|/root", html)
    assert not {"script", "link", "iframe", "object"} & {name for name, _ in page.tags}
    images = page.all("img")
    # forecasts 3, errors 2, calibration 2, training 1, latent space 3
    assert len(images) == len(page.all("figure")) == len(page.all("figcaption")) == 11
    for image in images:
        assert len(image["alt"]) > 10
        head, data = image["src"].split(",")
        assert head == "data:image/png;base64"
        drawn = Image.open(io.BytesIO(base64.b64decode(data)))
        assert drawn.size[0] > 700
        assert len(drawn.convert("RGB").getcolors(10**6)) > 20
    assert page.all("html")[0]["lang"] == "en"
    assert page.text.startswith("My <own> title My <own> title In short")


def test_scores_are_those_of_evaluate(report, forecaster, rows):
    found = forecaster.evaluate(rows.iloc[TRAINED:]).metrics["y"]
    table = re.search(r"score this model persistence ridge (.*) Training", report[1].text)[1]
    for name, key in (("RMSE", "rmse"), ("MAE", "mae"), ("CRPS", "crps")):
        cells = re.search(rf"{name} [a-z][^\d✓]+" + r"(✓ )?([\d.]+) " * 3, table).groups()
        assert list(cells[1::2]) == [number(value) for value in found[key]]
        assert np.flatnonzero(cells[::2]).tolist() == [int(found[key].to_numpy().argmin())]


def test_coverage_comes_with_its_sampling_error(report, findings):
    found = findings.evaluation.metrics["y"]
    for level in (50, 80, 95):
        share, error = (100 * found.loc["model", f"cov{level}{end}"] for end in ("", "_error"))
        written = f"{share:.1f}".removesuffix(".0")
        assert re.search(rf"should be {level}% (✓ )?{written}% ± {error:.1f} ", report[1].text)
        pit = findings.evaluation.pit["y"]
        assert (share / 100, error / 100) == pytest.approx(
            plots.observed_coverage(pit, level / 100)
        )


def calibrated(findings, shape, **options):
    """The findings with another calibration of the model."""
    model = copy.copy(findings.estimator)
    plain = replace(Calibration.none(1), scale=np.full(1, 4.0), trust=np.ones(1), rows=26)
    model.calibration_, model.noise_shape_ = replace(plain, **options), shape
    return replace(findings, estimator=model)


def test_words_about_deviations(findings):
    heavy = calibrated(findings, NoiseShape(3, 1), dof=np.array([4.56]))
    text = corrections(heavy)
    assert "Errors on 26 rows held back" in text
    assert "Student's t" in text
    assert "noise depends on the window" in text
    cells = Page(tostring(learned_table(heavy), encoding="unicode")).text
    assert (
        "correction of deviations × 2, on average shape of errors Student's t, 4.6 degrees of freedom "
        "of what was learned, used 100% shift since training none noise depends on the window yes"
        in cells
    )
    plain = calibrated(findings, None)
    assert "Student" not in corrections(plain)
    assert "the same for all windows" in corrections(plain)
    cells = Page(tostring(learned_table(plain), encoding="unicode")).text
    assert (
        "× 2 shape of errors bell curve of what was learned, used 100% shift since training none noise"
        in cells
    )
    assert "level has moved" not in corrections(plain)
    assert "bore out less" not in corrections(plain)
    less = calibrated(findings, None, slope=np.array([0.35]))
    assert "bore out less than all" in corrections(less)
    assert "used 35%" in Page(tostring(learned_table(less), encoding="unicode")).text
    moved = calibrated(findings, None, shift=np.array([-0.5]))
    assert "level has moved" in corrections(moved)
    cells = Page(tostring(learned_table(moved), encoding="unicode")).text
    assert f"shift since training {number(-0.5 * moved.estimator.y_scaler_.scale)} noise" in cells
    assert "nothing was corrected" in corrections(calibrated(findings, None, rows=0))


def test_words_of_the_page_are_those_of_its_model(report, findings):
    assert corrections(findings) in report[1].text
    (dof,) = findings.estimator.dof_
    shape = f"Student's t, {dof:.1f} degrees" if np.isfinite(dof) else "bell curve"
    assert f"shape of errors {shape}" in report[1].text


def test_what_it_predicts_and_from_what(report):
    assert (
        "predicts y 1 hour ahead, from a window of the latest 8 rows (8 hours) with past values of y; "
        "past values of v; u, known in advance; the hour." in report[1].text
    )


def test_a_forecast_of_many_rows_is_counted(report, forecaster, rows):
    last = rows.iloc[-24:]
    ahead = forecaster.forecast(24, future=last, df=rows.iloc[:-24]).frame
    inside = ((last["y"] >= ahead["q0.025"]) & (last["y"] <= ahead["q0.975"])).sum()
    assert f"nearly all dots: it holds {inside} of 24." in report[1].text
    assert "Each row was predicted 1 hour ahead" in report[1].text


def test_rows_of_training_are_left_out(report, forecaster, rows, findings):
    both = gather(forecaster, rows)
    assert both.left_out == TRAINED
    assert both.seen == 0
    pd.testing.assert_frame_equal(both.evaluation.metrics["y"], findings.evaluation.metrics["y"])
    words = f"The {TRAINED} rows of the data up to the end of training are left out"
    assert words in report[1].text
    assert (
        "rows given to this report 500 of these, rows predicted 240 rows before the first complete window "
        "0 rows not predicted: values are missing 0 rows left out: the model was trained on them 260"
    ) in report[1].text


def test_rows_of_training_alone_are_called_so(forecaster, rows):
    known = gather(forecaster, rows.iloc[:TRAINED])
    assert known.seen == TRAINED - 8
    assert not rows_used(known).good
    assert f"trained on {TRAINED - 8} of them" in rows_used(known).text


def test_numbered_rows_may_be_known(rows):
    plain = rows.reset_index(drop=True)
    made = Forecaster("y", inputs=["u"], lag=4, model=small_model()).fit(plain.iloc[:200])
    assert "cannot tell" in rows_used(gather(made, plain)).text
    later = gather(made, plain.iloc[200:])  # numbered on from there
    assert later.seen == 0
    assert len(later.evaluation.pit["y"]) == 300


def test_names_are_escaped_and_several_targets_have_a_part_each(rows, tmp_path, quick, monkeypatch):
    other = "a & b $^{ 日本"
    data = rows.assign(third=rows["y"] - rows["v"]).rename(columns={"y": EVIL, "v": other})
    made = Forecaster([EVIL, other, "third"], inputs=["u"], lag=6, model=small_model())
    made.fit(data.iloc[:TRAINED])
    monkeypatch.setattr("seqgp.report.sections._MOST_TARGETS", 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        html, page = written(made, data, tmp_path)
    assert "<script" not in html
    for name in (EVIL, other):
        assert page.text.count(f"Predictions of {name}") == 2  # in the contents and as a heading
    assert f"Forecast of {EVIL}, {other} and third" in page.text
    assert len(page.all("img")) == 2 * 10 + 1
    assert "first 2 targets; the table has 1 more" in page.text
    assert "target RMSE persistence ridge in 95% range" in page.text
    assert re.search(r"For \d of 3 targets its errors .* relied on for \d of 3\.", page.text)


def test_plain_network_has_no_latent_space(rows, tmp_path, quick):
    model = SequenceNet(hidden=4, epochs=2, random_state=0, progress=False)
    made = Forecaster("y", inputs=["u"], lag=6, model=model).fit(rows.iloc[:TRAINED])
    _, page = written(made, rows, tmp_path)
    ids = [part["id"] for part in page.all("section")]
    assert ids == ["summary", "target-1", "training", "data", "options"]
    assert len(page.all("img")) == 8
    assert "same width everywhere" in page.text


def test_regression_with_one_latent_dimension(rows, tmp_path, quick):
    model = small_model(latent_dim=1, mean="zero")
    made = Forecaster("y", ["u"], lag=6, mode="regression", model=model).fit(rows.iloc[:TRAINED])
    _, page = written(made, rows, tmp_path)
    assert "predicts y at the same time, from" in page.text
    assert "which the model is not shown" in page.text
    assert len(page.all("img")) == 2 + 2 + 2 + 1 + 2
    assert "into 1 number: a point" in page.text


def test_simulation_with_three_latent_dimensions(rows, tmp_path, quick):
    model = small_model(epochs=1, latent_dim=3)
    made = Forecaster("y", ["u"], lag=4, mode="simulation", model=model).fit(rows.iloc[:120])
    _, page = written(made, rows.iloc[116:200], tmp_path)
    assert "its own predictions standing in for measured values" in page.text
    assert "Ways of training for free runs" in page.text
    assert "The first two dimensions are shown" in page.text


def test_missing_values_and_few_rows(forecaster, rows, tmp_path, quick):
    holes = rows.iloc[TRAINED : TRAINED + 40].copy()
    holes.iloc[10, 0] = np.nan  # an input in 8 windows
    holes.iloc[-3:, 2] = np.nan  # past values in the windows of the last two rows
    _, page = written(forecaster, holes, tmp_path)
    assert "rows not predicted: values are missing 10" in page.text
    assert "too few to tell" in page.text


def test_long_series_is_thinned_and_says_so(forecaster, tmp_path, quick):
    long = hourly(4000)
    _, page = written(forecaster, long, tmp_path)
    assert f"Of {4000 - TRAINED:,} rows 3,000 at most are drawn" in page.text
    assert f"The last 400 of {4000 - TRAINED:,} rows are shown" in page.text
    assert "windows 1,870 are drawn" in page.text  # every second of 3,740


def test_a_failure_leaves_the_old_file(forecaster, rows, tmp_path, quick, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")

    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="no space"):
        write_report(forecaster, rows.iloc[TRAINED:], path)
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_bad_paths_and_rows_are_refused(forecaster, rows, tmp_path):
    with pytest.raises(ValueError, match="is a folder"):
        write_report(forecaster, rows, tmp_path)
    with pytest.raises(ValueError, match="there is no folder"):
        write_report(forecaster, rows, tmp_path / "none" / "report.html")
    with pytest.raises(ValueError, match="no column 'y'"):
        write_report(forecaster, rows.drop(columns="y"), tmp_path / "report.html")
    assert not list(tmp_path.iterdir())


def gaussian(findings, scale, n=2000, seed=0):
    """The findings with predictions whose deviation is ``scale`` times the true one."""
    y = np.random.default_rng(seed).standard_normal(n)
    frame = pd.DataFrame({"mean": 0.0, "std": scale, "y": y})
    found = Evaluation(frame, findings.evaluation.metrics, {"y": metrics.pit(y, 0 * y, scale)})
    return replace(findings, evaluation=found)


@pytest.mark.parametrize(
    "scale, words, good",
    [
        (0.5, "too narrow. Values outside them come 6", False),  # P(|z| > 0.98) = 0.327
        (1.0, "the ranges can be trusted", True),
        (2.0, "wider than needed", True),
    ],
)
def test_verdict_on_ranges(findings, scale, words, good):
    verdict = error_bars(gaussian(findings, scale), "y")
    assert words in verdict.text
    assert verdict.good is good


def test_verdict_is_open_where_chance_explains_much(findings):
    many = [error_bars(gaussian(findings, 0.9, n=60, seed=k), "y").text for k in range(20)]
    assert sum("may be chance" in text for text in many) > 3
    assert "too few" in error_bars(gaussian(findings, 1.0, n=49), "y").text


def test_a_better_rival_is_named(findings):
    table = findings.evaluation.metrics["y"].copy()
    table["rmse"] = [2.0, 4.0, 1.0]
    worse = replace(findings, evaluation=replace(findings.evaluation, metrics={"y": table}))
    verdict = quality(worse, "y")
    assert not verdict.good
    assert "50% smaller than the 4 from" in verdict.text
    assert "100% larger than the 1 from" in verdict.text
    assert verdict.text.endswith("The linear model is the better forecast here.")
    table["rmse"] = [1.001, 4.0, 1.0]
    verdict = quality(worse, "y")
    assert verdict.good
    assert "about the same as the 1 from" in verdict.text


def test_sampling_error_of_dependent_rows():
    rng = np.random.default_rng(0)
    shares, errors = [], []
    for _ in range(200):
        z = np.zeros(1600)
        noise = rng.standard_normal(1600)
        for t in range(1, 1600):
            z[t] = 0.8 * z[t - 1] + 0.6 * noise[t]
        share, error = plots.observed_coverage(metrics.pit(z, 0 * z, 1.0), 0.8)
        shares.append(share)
        errors.append(error)
    assert np.mean(errors) == pytest.approx(np.std(shares), rel=0.25)
    assert metrics.coverage_error(1600, 0.8) < 0.7 * np.std(shares)


@given(st.integers(1, 5000), st.integers(1, 500))
def test_thinning(n, most):
    kept = thin(n, most)
    assert 1 <= len(kept) <= most
    assert kept[-1] == n - 1
    assert len(set(np.diff(kept))) <= 1


def test_forecast_plot_draws_the_frame(findings):
    frame = findings.evaluation.frame
    figure = plots.forecast_plot(frame, "y", last=50)
    assert isinstance(figure, Figure)
    (axis,) = figure.axes
    lines = {line.get_label(): line.get_ydata() for line in axis.lines}
    np.testing.assert_array_equal(lines["predicted"], frame["mean"].iloc[-50:])
    np.testing.assert_array_equal(lines["measured"], frame["y"].iloc[-50:])
    (band,) = axis.collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert heights.min() == pytest.approx(frame["q0.025"].iloc[-50:].min())
    assert heights.max() == pytest.approx(frame["q0.975"].iloc[-50:].max())
    assert band.get_label() == "95% range"


def test_lines_break_where_rows_are_missing(findings):
    frame = findings.evaluation.frame.drop(findings.evaluation.frame.index[20:30])
    axis = plots.forecast_plot(frame, "y").axes[0]
    line = next(line for line in axis.lines if line.get_label() == "predicted")
    assert np.flatnonzero(np.isnan(line.get_ydata())).tolist() == [20]


def test_plots_of_a_forecast_and_of_residuals(forecaster, findings):
    ahead = forecaster.forecast(
        5, future=hourly(500)[["u"]].iloc[TRAINED : TRAINED + 5], samples=20
    )
    labels = [line.get_label() for line in plots.forecast_plot(ahead.frame, "y").axes[0].lines]
    assert labels == ["predicted"]
    frame = findings.evaluation.frame
    for drawn in (plots.residual_plot(frame, "y"), plots.error_plot(frame, "y")):
        offsets = drawn.axes[0].collections[-1].get_offsets()
        np.testing.assert_allclose(offsets[:, 1], frame["y"] - frame["mean"])
    heights = plots.residual_plot(frame, "y").axes[0].collections[0].get_paths()[0].vertices[:, 1]
    assert heights.max() == pytest.approx((frame["q0.975"] - frame["mean"]).max())
    with pytest.raises(ValueError, match="no column 'y' with the measured values"):
        plots.residual_plot(ahead.frame, "y")
    with pytest.raises(ValueError, match=r"expected 'mean' or 'z\.mean'"):
        plots.forecast_plot(frame[["y"]], "z")


def test_calibration_plots(findings):
    frame, pit = findings.evaluation.frame, findings.evaluation.pit["y"]
    axis = plots.coverage_plot(pit).axes[0]
    drawn = next(line for line in axis.lines if len(line.get_xdata()) == 10)
    dof = findings.estimator.dof_[0]
    truth = [
        metrics.coverage(frame["y"], frame["mean"], frame["std"], q, dof) for q in drawn.get_xdata()
    ]
    np.testing.assert_allclose(drawn.get_ydata(), truth)
    bars = plots.pit_plot(pit).axes[0].patches
    assert sum(bar.get_height() * bar.get_width() for bar in bars[:10]) == pytest.approx(1.0)
    for bad in ([], [0.5, np.nan], [1.5]):
        with pytest.raises(ValueError, match="numbers from 0 to 1"):
            plots.pit_plot(bad)


def test_training_plot_leaves_out_what_was_not_measured(forecaster):
    history = forecaster.model_.history_
    assert len(plots.training_plot(history, 2).axes) == 4
    unchecked = history.assign(val_rmse=np.nan, val_nlpd=np.nan)
    assert len(plots.training_plot(unchecked, 2).axes) == 2
    with pytest.raises(ValueError, match="trained for an epoch"):
        plots.training_plot(history.iloc[:0])


def test_latent_plot(rng):
    H, values = rng.uniform(-1, 1, (50, 2)), rng.standard_normal(50)
    values[3] = np.nan
    cloud = plots.latent_plot(H, values, "load").axes[0].collections[0]
    np.testing.assert_array_equal(cloud.get_offsets(), np.delete(H, 3, 0))
    line = plots.latent_plot(H[:, :1], values, "load").axes[0].collections[0]
    np.testing.assert_array_equal(line.get_offsets()[:, 1], np.delete(values, 3))
    with pytest.raises(ValueError, match="expected \\(n, d\\) and \\(n,\\)"):
        plots.latent_plot(H, values[:5], "load")


def browse(tmp_path, *options: str) -> subprocess.CompletedProcess[str]:
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    flags += ["--enable-logging=stderr", "--v=0", f"--user-data-dir={tmp_path / 'profile'}"]
    return subprocess.run(
        [CHROMIUM, *flags, *options], capture_output=True, text=True, timeout=120, check=True
    )


# Beside the page, to ask the browser what it made of it; a frame can be as narrow as a phone.
PROBE = """<iframe src="report.html" width="{width}" height="3000" style="border: 0"></iframe>
<script>
document.querySelector("iframe").onload = event => {{
  const view = event.target.contentWindow, images = [...view.document.images];
  document.body.dataset.found = [view.innerWidth, view.document.documentElement.scrollWidth,
    images.length, images.filter(image => image.complete && image.naturalWidth > 0).length].join(" ");
}};
</script>"""


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
@pytest.mark.parametrize("width", [1280, 390])
def test_in_a_browser(width, report, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(report[0], "utf-8")
    shot = tmp_path / "shot.png"
    options = f"--window-size={width},3000", f"--screenshot={shot}"
    seen = browse(tmp_path, *options, path.as_uri())
    assert "CONSOLE" not in seen.stderr

    probe = tmp_path / "probe.html"
    probe.write_text(PROBE.format(width=width))
    dom = browse(tmp_path, "--allow-file-access-from-files", "--dump-dom", probe.as_uri()).stdout
    inner, scroll, images, loaded = map(int, re.search(r'data-found="([^"]+)"', dom)[1].split())
    assert inner == width
    assert scroll <= inner  # nothing sticks out to the right
    assert images == loaded == 11

    picture = np.asarray(Image.open(shot).convert("RGB"))
    assert picture.shape[1] == width
    assert len(Image.open(shot).convert("RGB").getcolors(10**7)) > 500
    assert 0.02 < (picture.min(2) < 200).mean() < 0.6
    assert (picture[:, -8:] == 255).all()


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_the_browser_would_tell_of_an_error(tmp_path):
    page = tmp_path / "bad.html"
    page.write_text("<script>console.error('broken')</script>")
    seen = browse(tmp_path, f"--screenshot={tmp_path / 'shot.png'}", page.as_uri())
    assert re.search("CONSOLE.*broken", seen.stderr)
