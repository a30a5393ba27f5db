"""The package as it is imported: what it loads, what it offers, what it says of a name that it has not."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib import import_module

import pytest

import seqgp


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split()


def test_import_is_quiet_and_takes_nothing_but_the_standard_library():
    """Torch takes seconds, and ``seqgp --help`` does without it."""
    loaded = run(
        "import sys; before = set(sys.modules)\n"
        "import seqgp\n"
        "print(*sorted({name.split('.')[0] for name in set(sys.modules) - before}))"
    )
    assert "seqgp" in loaded
    assert set(loaded) - {"seqgp"} <= sys.stdlib_module_names


def test_models_are_loaded_without_what_is_made_of_them():
    loaded = run("import sys; from seqgp import Forecaster, load; print(*sys.modules)")
    assert "torch" in loaded
    rooms = {name.split(".")[1] for name in loaded if name.startswith("seqgp.")}
    assert {"forecasting", "loading"} <= rooms
    assert not {"plots", "report", "demo", "cli"} & rooms
    assert not {"typer", "paper"} & set(loaded)


def test_a_name_is_imported_from_its_room_when_it_is_asked_for():
    loaded = run("import sys; from seqgp import ArtifactError; print(*sys.modules)")
    rooms = {name for name in loaded if name.startswith("seqgp.")}
    assert rooms == {"seqgp._version", "seqgp.exceptions"}


@pytest.mark.parametrize("name", sorted(set(seqgp.__all__) - {"__version__"}))
def test_every_public_name_is_one_of_its_room_and_says_what_it_is(name):
    value = getattr(seqgp, name)
    room = import_module(".".join(value.__module__.split(".")[:2]))
    assert name in room.__all__
    assert getattr(room, name) is value
    assert inspect.getdoc(value)


def test_the_names_are_those_that_are_listed():
    found = {}
    exec("from seqgp import *", found)
    assert set(found) - {"__builtins__"} == set(seqgp.__all__)
    assert len(set(seqgp.__all__)) == len(seqgp.__all__)
    assert set(seqgp.__all__) <= set(dir(seqgp))


def test_a_name_that_it_has_not_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'seqgp' has no attribute 'SequenceNN'"):
        seqgp.SequenceNN  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'artifact'"):
        from seqgp import artifact  # noqa: F401
