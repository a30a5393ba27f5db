"""A small table and ways to run the command line on it."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pandas as pd

from seqgp.cli.main import main

ROWS, NEW, LAG = 160, 24, 6
TRAINING = ("--lag", str(LAG), "--hidden", "4", "--epochs", "2", "--device", "cpu")


def series(rows: int = ROWS + NEW) -> pd.DataFrame:
    """Hours ``ts``, an input ``temp`` and the target ``load`` that it drives."""
    rng = np.random.default_rng(0)
    ts = pd.date_range("2024-01-01", periods=rows, freq="h")
    temp = 10 + 5 * np.sin(2 * np.pi * ts.hour / 24) + rng.standard_normal(rows)
    load = 100 + 3 * temp + np.roll(temp, 1) + rng.standard_normal(rows)
    return pd.DataFrame({"ts": ts, "temp": temp, "load": load})


def run(capsys, *args):
    """Exit code, stdout and stderr of a command run in this process."""
    capsys.readouterr()
    try:
        main([str(arg) for arg in args])
    except SystemExit as stop:
        out, err = capsys.readouterr()
        return stop.code, out, err


def process(*args, stdin=None, folder=None, **environment):
    """The command as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "seqgp", *map(str, args)],
        capture_output=True,
        input=stdin,
        timeout=300,
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    )
