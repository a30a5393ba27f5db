"""``paper/`` stands outside the package: it imports public names of ``seqgp`` only."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

PAPER = Path(__file__).parent.parent
FILES = sorted(PAPER.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PAPER)))
def test_only_public_names_are_imported(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                assert not alias.name.startswith("seqgp."), f"import {alias.name}"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "seqgp":
            module = import_module(node.module)
            shallow = node.module.count(".") <= 1 or hasattr(module, "__path__")
            assert shallow, f"from {node.module} import ...: a module inside a package"
            public = module.__all__
            for alias in node.names:
                known = alias.name in public or _is_public_module(node.module, alias.name)
                assert known, f"from {node.module} import {alias.name}: not in its __all__"


def _is_public_module(package: str, name: str) -> bool:
    """Whether ``from seqgp import name`` imports a module directly below seqgp."""
    folder = Path(import_module("seqgp").__file__).parent
    there = (folder / f"{name}.py").is_file() or (folder / name).is_dir()
    return package == "seqgp" and there and not name.startswith("_")
