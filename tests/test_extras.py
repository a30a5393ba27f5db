"""The extras: without a package, one sentence says what to install, and the core does not need it."""

from __future__ import annotations

import subprocess
import sys

import pytest

BLOCKED = """
import importlib.abc, sys
class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, *_):
        if name.split(".")[0] in {names}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Finder())
"""


def without(names, code, *args):
    """Python code run by a process that cannot import the packages ``names``."""
    code = BLOCKED.format(names=names) + code
    return subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True)


@pytest.mark.parametrize("name", ["typer", "rich"])
def test_without_typer_or_rich_one_sentence_says_what_to_install(name):
    done = without([name], "from seqgp.__main__ import main; main()", "--help")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "Error: the command line needs typer and rich: pip install 'seqgp[cli]'\n"
    )


def test_without_matplotlib_fit_stops_before_training(tmp_path):
    data = tmp_path / "data.csv"
    data.write_text("ts,load\n2024-01-01,1\n")
    args = "fit", str(data), "--target", "load", "--report", str(tmp_path / "report.html")
    done = without(["matplotlib"], "from seqgp.__main__ import main; main()", *args)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "Error: plots and reports need matplotlib: pip install 'seqgp[report]'\n"
    )


def test_the_library_needs_none_of_the_extras():
    code = (
        "import numpy as np; from seqgp import LSTM, SequenceGP, Training, metrics;"
        "X = np.zeros((30, 3, 1));"
        "X[:] = np.random.default_rng(0).standard_normal(X.shape);"
        "model = SequenceGP(LSTM(hidden=2), training=Training(epochs=1)).fit(X, X[:, -1, 0]);"
        "print(model.predict(X).shape)"
    )
    done = without(["matplotlib", "PIL", "typer", "rich", "pyarrow"], code)
    assert done.stdout == "(30,)\n", done.stderr


@pytest.mark.parametrize("module", ["seqgp.plots", "seqgp.report", "seqgp.demo"])
def test_without_matplotlib_plots_say_what_to_install(module):
    done = without(["matplotlib"], f"import {module}")
    assert done.stderr.splitlines()[-1] == (
        "ImportError: plots and reports need matplotlib: pip install 'seqgp[report]'"
    )
