"""``paper/`` stands outside the package: it imports public names of ``seqgp`` only."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

PAPER = Path(__file__).parent.parent
# Ablates the calibration, which has no public parts yet.
PRIVATE = {"pieces.py"}
FILES = sorted(path for path in PAPER.rglob("*.py") if path.name not in PRIVATE)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PAPER)))
def test_only_public_names_are_imported(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                assert not alias.name.startswith("seqgp."), f"import {alias.name}"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "seqgp":
            assert node.module.count(".") <= 1, f"from {node.module} import ..."
            public = import_module(node.module).__all__
            for alias in node.names:
                known = alias.name in public or _is_public_module(node.module, alias.name)
                assert known, f"from {node.module} import {alias.name}: not in its __all__"


def _is_public_module(package: str, name: str) -> bool:
    """Whether ``from seqgp import name`` imports a module directly below seqgp."""
    folder = Path(import_module("seqgp").__file__).parent
    there = (folder / f"{name}.py").is_file() or (folder / name).is_dir()
    return package == "seqgp" and there and not name.startswith("_")
