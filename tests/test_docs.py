"""Every code block of the README and of docs/ runs as written, and every link leads somewhere."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from seqgp.cli.main import main
from seqgp.encoders import ENCODERS
from seqgp.inference import INFERENCES
from seqgp.kernels import KERNELS
from seqgp.likelihoods import LIKELIHOODS
from seqgp.training import SCHEDULES, SURROGATES

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
OTHERS = [ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
NOT_RUN = {"text", "sh"}  # output and formulas; installation and long runs

ROWS, AHEAD = 400, 48


class Block(NamedTuple):
    line: int
    """Of the page, counted from 0, on which the code begins."""
    language: str
    code: str


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [Block(text[: b.start(2)].count("\n"), b[1], b[2]) for b in found]


def commands(code: str) -> list[str]:
    """The lines that begin with ``$``, continued ones joined; other lines are output."""
    lines = code.replace("\\\n", " ").splitlines()
    return [line[2:] for line in lines if line.startswith("$ ")]


def without_blocks(page: Path) -> str:
    return re.sub(
        r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )


def anchors(page: Path) -> set[str]:
    """The names under which a forge links to the page's headings."""
    heads = re.findall(r"^#+ (.*)$", without_blocks(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


def write_tables() -> None:
    """The files that pages name and do not make: hours of a load and of the weather."""
    rng = np.random.default_rng(0)
    time = pd.date_range("2025-01-01", periods=ROWS + 2 * AHEAD, freq="h", name="time")
    temperature = 15 + 8 * np.sin(2 * np.pi * time.hour / 24) + rng.standard_normal(len(time))
    load = 50 - 0.8 * temperature + 5 * np.cos(2 * np.pi * time.hour / 12)
    load = load + rng.standard_normal(len(time))
    table = pd.DataFrame({"load": load, "temperature": temperature}, index=time).round(3)
    table[:ROWS].to_csv("load.csv")
    table[ROWS : ROWS + AHEAD].to_csv("newer.csv")
    table[["temperature"]][ROWS:].to_csv("weather.csv")


@pytest.fixture
def small_tables(tmp_path, monkeypatch):
    """A folder of its own for each page, with those files."""
    monkeypatch.chdir(tmp_path)
    write_tables()


@pytest.fixture
def own_registries(monkeypatch):
    """Whatever a page registers is forgotten after it."""
    for registry in (ENCODERS, INFERENCES, KERNELS, LIKELIHOODS, SCHEDULES, SURROGATES):
        monkeypatch.setattr(registry, "_items", dict(registry._items))


@pytest.mark.usefixtures("small_tables", "own_registries")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page(page, capsys):
    names: dict[str, object] = {"__name__": page.stem}
    for block in blocks(page):
        if block.language == "python":
            # Empty lines before it: a traceback then names the line of the page.
            source = "\n" * block.line + block.code
            exec(compile(source, page, "exec", dont_inherit=True), names)
        elif block.language == "console":
            found = commands(block.code)
            assert found, f"{page.name}:{block.line}: a console block without a command"
            for command in found:
                assert run(command) == 0, f"{command}\n{capsys.readouterr().err}"
        else:
            assert block.language in NOT_RUN, f"{page.name}:{block.line}: which language?"
            assert "seqgp fit" not in block.code or block.language == "text"


def run(command: str) -> object:
    """The exit code of a seqgp command, run in this process."""
    program, *arguments = shlex.split(command)
    assert program == "seqgp", f"{command}: only seqgp is run here"
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    return stop.value.code


@pytest.mark.parametrize("page", PAGES + OTHERS, ids=lambda page: page.stem)
def test_links(page):
    for target in re.findall(r"\]\(([^)]+)\)", without_blocks(page)):
        if target.startswith("http"):
            continue
        name, _, anchor = target.partition("#")
        other = page.parent / name if name else page
        assert other.exists(), f"{page.name} links to {target}, which is not there"
        assert not anchor or anchor in anchors(other), f"{page.name}: no heading for {target}"


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120
