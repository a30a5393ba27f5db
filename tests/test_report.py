from __future__ import annotations

import base64
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
from PIL import Image

from forecaster_data import hourly, small_model
from seqgp import LSTM, Forecaster, SequenceNet, Training, metrics
from seqgp.forecasting import Evaluation
from seqgp.report import write_report
from seqgp.report.findings import gather
from seqgp.report.html import number
from seqgp.report.tables import learned_table
from seqgp.report.verdicts import accuracy, calibrated, calibration_text, overall, scored_rows

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
        self.html = html
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

    def rows(self) -> dict[str, list[str]]:
        """Cells of all table rows by the row's name; explanations in small print are left out."""
        found: dict[str, list[str]] = {}
        for row in re.findall(r"<tr>(.*?)</tr>", self.html):
            row = re.sub(r"<small>.*?</small>", "", row)
            name, *cells = (
                re.sub("<[^>]*>", "", each) for each in re.findall(r"<t[hd].*?</t[hd]>", row)
            )
            found[name] = cells
        return found

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
    monkeypatch.setattr("seqgp.report.html._DPI", 30)


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
    assert page.text.startswith("My <own> title My <own> title Summary")


def test_scores_are_those_of_evaluate(report, forecaster, rows):
    found = forecaster.evaluate(rows.iloc[TRAINED:]).metrics["y"]
    table = report[1].rows()
    assert table["score"] == ["this model", "persistence", "ridge"]
    for name, key in (("RMSE", "rmse"), ("MAE", "mae"), ("CRPS", "crps"), ("NLPD", "nlpd")):
        expected = [number(value) for value in found[key]]
        best = int(found[key].to_numpy().argmin())
        expected[best] = f"✓ {expected[best]}"
        assert table[name] == expected


def test_coverage_comes_with_its_sampling_error(report, findings):
    found, table = findings.evaluation.metrics["y"], report[1].rows()
    for level in (50, 80, 95):
        share, error = (100 * found.loc["model", f"cov{level}{end}"] for end in ("", "_error"))
        cell = table[f"coverage of {level}% interval"][0].removeprefix("✓ ")
        assert cell == f"{share:.1f}".removesuffix(".0") + f"% ± {error:.1f}"


def test_learned_numbers_are_those_of_the_model(findings, report):
    model, learned, table = findings.forecaster.model_, findings.learned, report[1].rows()
    unit = model.fitted_.y_scaler.scale
    fitted, gp = model.fitted_, model.fitted_.members[0].layer
    noise = gp.noise.detach().sqrt().item() * unit
    assert learned.noise == pytest.approx(noise)
    assert learned.signal == pytest.approx(gp.kernel.outputscale.detach().sqrt().item() * unit)
    assert learned.lengthscales.shape == (1, 2)
    assert learned.scale**2 == pytest.approx(fitted.calibration.scale)
    assert learned.validation_rows == fitted.calibration.rows
    assert learned.columns["u"] == (fitted.x_scaler.shift[0], fitted.x_scaler.scale[0])
    assert learned.columns["y"][1] == pytest.approx(float(np.ravel(unit)[0]))
    assert table["noise, standard deviation"] == [number(float(np.ravel(noise)[0]))]
    assert table["scale factor"] == [f"× {number(learned.scale[0])}"]
    assert table["lengthscale, dimension 2"] == [number(learned.lengthscales[0, 1])]
    assert calibration_text(learned) in report[1].text


def test_table_of_calibration(findings):
    one, yes = np.ones(1), np.ones(1, bool)
    heavy = replace(findings.learned, scale=2 * one, dof=4.56 * one, heteroscedastic=yes)
    table = Page(tostring(learned_table(heavy, ["y"]), encoding="unicode")).rows()
    assert table["scale factor"] == ["× 2"]
    assert table["distribution"] == ["Student's t, 4.6 degrees of freedom"]
    assert table["noise depends on window"] == ["yes"]
    plain = replace(heavy, dof=np.inf * one, heteroscedastic=~yes, shift=-0.5 * one)
    table = Page(tostring(learned_table(plain, ["y"]), encoding="unicode")).rows()
    assert table["distribution"] == ["Gaussian"]
    assert table["noise depends on window"] == ["no"]
    assert table["shift of the mean"] == ["-0.5"]
    # Every piece of the calibration has a sentence of its own.
    texts = [calibration_text(replace(plain, shift=0 * one)), calibration_text(plain)]
    texts += [calibration_text(replace(plain, members=3)), calibration_text(heavy)]
    texts += [calibration_text(replace(plain, validation_rows=0))]
    assert len(set(texts)) == len(texts)


def test_what_it_predicts_and_from_what(report):
    lead = re.search('<p class="lead">(.*?)</p>', report[0])[1]
    for words in ("1 hour ahead", "8 rows (8 hours)", "y and v", "u (known in advance)", "hour"):
        assert words in lead


def test_a_forecast_of_many_rows_is_counted(report, forecaster, rows):
    last = rows.iloc[-24:]
    ahead = forecaster.forecast(24, future=last, df=rows.iloc[:-24]).frame
    inside = ((last["y"] >= ahead["q0.025"]) & (last["y"] <= ahead["q0.975"])).sum()
    assert f"{inside} of 24" in report[1].text


def test_rows_of_training_are_left_out(report, forecaster, rows, findings):
    both = gather(forecaster, rows)
    assert (both.left_out, both.seen) == (TRAINED, 0)
    pd.testing.assert_frame_equal(both.evaluation.metrics["y"], findings.evaluation.metrics["y"])
    verdict = scored_rows(both)
    assert (verdict.value, verdict.grade) == (0, "good")
    assert verdict.text in report[1].text
    table = report[1].rows()
    assert table["rows given to this report"] == ["500"]
    assert table["of these predicted"] == ["240"]
    assert table["left out as training data"] == ["260"]
    assert table["before the first complete window"] == ["0"]
    assert table["not predicted for missing values"] == ["0"]


def test_rows_of_training_alone_are_called_so(forecaster, rows):
    known = gather(forecaster, rows.iloc[:TRAINED])
    assert known.seen == TRAINED - 8
    verdict = scored_rows(known)
    assert (verdict.value, verdict.grade) == (TRAINED - 8, "bad")


def test_numbered_rows_may_be_known(rows):
    plain = rows.reset_index(drop=True)
    made = Forecaster("y", inputs=["u"], lag=4, model=small_model()).fit(plain.iloc[:200])
    verdict = scored_rows(gather(made, plain))
    assert np.isnan(verdict.value)
    assert verdict.grade == "fair"
    later = gather(made, plain.iloc[200:])  # numbered on from there
    assert later.seen == 0
    assert len(later.evaluation.pit["y"]) == 300


def test_names_are_escaped_and_several_targets_have_a_part_each(rows, tmp_path, quick, monkeypatch):
    other = "a & b $^{ 日本"
    data = rows.assign(third=rows["y"] - rows["v"]).rename(columns={"y": EVIL, "v": other})
    made = Forecaster([EVIL, other, "third"], inputs=["u"], lag=6, model=small_model())
    made.fit(data.iloc[:TRAINED])
    monkeypatch.setattr("seqgp.report.page._MOST_TARGETS", 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        html, page = written(made, data, tmp_path)
    assert "<script" not in html
    for name in (EVIL, other):
        assert page.text.count(f"Predictions of {name}") == 2  # in the contents and as a heading
    assert f"Forecast of {EVIL}, {other} and third" in page.text
    assert len(page.all("img")) == 2 * 10 + 1
    assert "first 2 targets" in page.text
    assert ">coverage of 95% interval</th></tr></thead>" in html  # heads the table of all targets
    assert re.search(r"For \d of 3 targets .* for \d of 3\.", page.text)


def test_plain_network_has_no_latent_space(rows, tmp_path, quick):
    model = SequenceNet(LSTM(hidden=4), training=Training(epochs=2), random_state=0, progress=False)
    made = Forecaster("y", inputs=["u"], lag=6, model=model).fit(rows.iloc[:TRAINED])
    _, page = written(made, rows, tmp_path)
    ids = [part["id"] for part in page.all("section")]
    assert ids == ["summary", "target-1", "training", "data", "options"]
    assert len(page.all("img")) == 8
    assert gather(made, rows).learned.constant_width


def test_regression_with_one_latent_dimension(rows, tmp_path, quick):
    model = small_model(gp__latent_dim=1, mean="zero")
    made = Forecaster("y", ["u"], lag=6, mode="regression", model=model).fit(rows.iloc[:TRAINED])
    _, page = written(made, rows, tmp_path)
    assert "predicts y at the same time" in page.text
    assert len(page.all("img")) == 2 + 2 + 2 + 1 + 2
    assert "with 1 coordinate," in page.text


def test_simulation_with_three_latent_dimensions(rows, tmp_path, quick):
    model = small_model(epochs=1, gp__latent_dim=3)
    made = Forecaster("y", ["u"], lag=4, mode="simulation", model=model).fit(rows.iloc[:120])
    _, page = written(made, rows.iloc[116:200], tmp_path)
    assert "predicts y by free simulation" in page.text
    assert set(made.state_.simulation_scores) < set(page.rows())
    assert "The first two dimensions are shown" in page.text


def test_missing_values_and_few_rows(forecaster, rows, tmp_path, quick):
    holes = rows.iloc[TRAINED : TRAINED + 40].copy()
    holes.iloc[10, 0] = np.nan  # an input in 8 windows
    holes.iloc[-3:, 2] = np.nan  # past values in the windows of the last two rows
    _, page = written(forecaster, holes, tmp_path)
    assert page.rows()["not predicted for missing values"] == ["10"]
    assert calibrated(gather(forecaster, holes), "y").grade == "fair"


def test_long_series_is_thinned_and_says_so(forecaster, tmp_path, quick):
    long = hourly(4000)
    _, page = written(forecaster, long, tmp_path)
    n = f"{4000 - TRAINED:,}"
    assert f"Of {n} rows at most 3,000 are drawn" in page.text
    assert f"The last 400 of {n} rows are shown" in page.text
    assert f"Of {n} windows 1,870 are drawn" in page.text  # every second


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
    """The findings with Gaussian predictions whose deviation is ``scale`` times the true one."""
    y = np.random.default_rng(seed).standard_normal(n)
    ends = {"q0.025": -1.96 * scale, "q0.975": 1.96 * scale}
    frame = pd.DataFrame({"mean": 0.0, "std": scale, **ends, "y": y})
    found = Evaluation(frame, findings.evaluation.metrics, {"y": metrics.pit(y, 0 * y, scale)})
    return replace(findings, evaluation=found)


@pytest.mark.parametrize(
    "scale, share, factor, grade",
    [
        (0.5, 0.673, "2 times as wide", "bad"),  # P(|z| < 0.98) = 0.673
        (1.0, 0.95, "", "good"),
        (2.0, 1.0, "4[89]|5[01]", "fair"),
    ],
)
def test_verdict_on_calibration(findings, scale, share, factor, grade):
    verdict = calibrated(gaussian(findings, scale), "y")
    assert verdict.value == pytest.approx(share, abs=0.015)
    assert verdict.grade == grade
    assert re.search(factor, verdict.text)


def test_verdict_is_open_where_chance_explains_much(findings):
    grades = [calibrated(gaussian(findings, 0.9, n=60, seed=k), "y").grade for k in range(20)]
    assert grades.count("fair") > 3
    assert calibrated(gaussian(findings, 1.0, n=49), "y").grade == "fair"


@pytest.mark.parametrize(
    "errors, ratio, grade",
    [
        ([2.0, 4.0, 1.0], 2.0, "bad"),
        ([1.001, 4.0, 1.0], 1.001, "fair"),
        ([0.5, 4.0, 1.0], 0.5, "good"),
        ([2.0, 1.0, 4.0], 2.0, "bad"),
    ],
)
def test_verdict_on_accuracy(findings, errors, ratio, grade):
    table = findings.evaluation.metrics["y"].copy()
    table["rmse"] = errors
    found = replace(findings, evaluation=replace(findings.evaluation, metrics={"y": table}))
    verdict = accuracy(found, "y")
    assert verdict.value == pytest.approx(ratio)
    assert verdict.grade == grade
    better = "ridge regression" if errors[2] < errors[1] else "persistence"
    assert (f"{better} is more accurate" in verdict.text) == (grade == "bad")
    both = overall(found)
    fine = grade != "bad" and calibrated(found, "y").grade == "good"
    assert both.value == float(fine)
    assert (both.grade == "bad") == (grade == "bad")


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
