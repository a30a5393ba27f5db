from __future__ import annotations

import subprocess
import sys

import seqgp


def test_import_is_quiet_and_light():
    code = (
        "import sys, warnings; warnings.simplefilter('error', UserWarning); import seqgp;"
        "heavy = {'matplotlib', 'typer', 'pydantic', 'pooch'} & set(sys.modules);"
        "print(sorted(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert done.stderr == ""


def test_public_names_exist():
    for name in seqgp.__all__:
        assert getattr(seqgp, name) is not None
