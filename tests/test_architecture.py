"""The shape of the package, read from its source: order of rooms, cycles, who sets what."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import seqgp

SOURCE = Path(seqgp.__file__).parent
ROOMS = (
    "_version",
    "exceptions",
    "registry",
    "options",
    "io",
    "data",
    "distributions",
    "metrics",
    "encoders",
    "kernels",
    "likelihoods",
    "inference",
    "gp",
    "means",
    "training",
    "calibration",
    "blueprint",
    "fitted",
    "trial",
    "fitting",
    "estimators",
    "saving",
    "restoring",
    "forecasting",
    "loading",
    "plots",
    "report",
    "demo",
    "cli",
    "__main__",
)
"""Modules and folders directly under ``seqgp``: each knows only those above it."""

# Makers of fitted objects out of files; and scikit-learn's own names, which it keeps on the estimator.
MAKERS = {
    "loading.py": {"state_", "model_"},
    "restoring.py": {"fitted_", "window_shape_", "n_features_in_", "feature_names_in_"},
    "estimators/rows.py": {"n_features_in_"},
}

CYCLES = {
    "seqgp.forecasting.evaluate",
    "seqgp.forecasting.fit",
    "seqgp.forecasting.forecaster",
}
"""Modules that import one another still (for a type alone): names in here only become fewer."""

LONGEST = 350
LONGER = {"forecasting/forecaster.py": 358, "metrics.py": 371}
"""Files that are too long still: numbers and names in here only become fewer."""


class Module:
    """A file of the package."""

    def __init__(self, path: Path) -> None:
        self.path = path.relative_to(SOURCE).as_posix()
        parts = ("seqgp", *path.relative_to(SOURCE).with_suffix("").parts)
        self.is_package = parts[-1] == "__init__"
        self.name = ".".join(parts[:-1] if self.is_package else parts)
        self.text = path.read_text(encoding="utf-8")
        self.tree = ast.parse(self.text)
        self.lines = len(self.text.splitlines())

    @property
    def room(self) -> str:
        return room_of(self.name)

    def at(self, node: ast.AST) -> str:
        return f"{self.path}:{node.lineno}"

    def imports(self) -> Iterator[tuple[ast.AST, str]]:
        """What is imported from the package, wherever the statement stands."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name.partition(".")[0] == "seqgp":
                        yield node, alias.name
            elif isinstance(node, ast.ImportFrom):
                base = node.module or ""
                if node.level:
                    parent = self.name.split(".")
                    parent = parent[: len(parent) - node.level + self.is_package]
                    base = ".".join([*parent, base] if base else parent)
                if base.partition(".")[0] == "seqgp":
                    for alias in node.names:
                        full = f"{base}.{alias.name}"
                        yield node, full if full in modules() else base
            elif is_import_call(node) and isinstance(node.args[0], ast.Constant):
                name = str(node.args[0].value)
                if name.partition(".")[0] == "seqgp":
                    yield node, name


def is_import_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in (
        "import_module",
        "__import__",
    )


def room_of(name: str) -> str:
    """Of a module's name; that of the package itself has none."""
    return name.split(".")[1] if "." in name else ""


@cache
def modules() -> dict[str, Module]:
    found = (Module(path) for path in sorted(SOURCE.rglob("*.py")))
    return {module.name: module for module in found}


def walk(*kinds: type[ast.AST]) -> Iterator[tuple[Module, ast.AST]]:
    for module in modules().values():
        for node in ast.walk(module.tree):
            if isinstance(node, kinds):
                yield module, node


def test_the_source_is_read_whole():
    """So that the tests below do not pass for want of anything to look at."""
    assert {"seqgp", "seqgp.gp", "seqgp.inference.grid.grid", "seqgp.cli.main"} <= set(modules())
    edges = {(m.name, to) for m in modules().values() for _, to in m.imports()}
    assert ("seqgp.fitting", "seqgp.blueprint") in edges  # absolute
    assert ("seqgp.inference.grid.statistics", "seqgp.inference.grid.interpolation") in edges
    assert ("seqgp.__main__", "seqgp.cli.main") in edges  # inside a function


def test_every_room_has_its_place():
    rooms = {module.room for module in modules().values()} - {""}
    assert rooms == set(ROOMS)
    assert len(set(ROOMS)) == len(ROOMS)


def test_a_room_knows_only_those_above_it():
    """Also inside functions and for types alone; the package's own ``__init__`` knows all."""
    wrong = [
        f"{module.at(node)} imports {name}"
        for module in modules().values()
        if module.room
        for node, name in module.imports()
        if not room_of(name) or ROOMS.index(room_of(name)) > ROOMS.index(module.room)
    ]
    assert not wrong, "\n".join(wrong)


def test_nothing_is_imported_by_a_name_made_at_run_time():
    """Where the order could not be read from the source."""
    found = [
        (module, node)
        for module, node in walk(ast.Call)
        if is_import_call(node) and not isinstance(node.args[0], ast.Constant)
    ]
    # Public names on demand, and whether an extra is there.
    assert {module.path for module, _ in found} == {"__init__.py", "__main__.py"}


def test_no_module_comes_to_itself_through_its_imports():
    graph = {m.name: {to for _, to in m.imports() if to != m.name} for m in modules().values()}
    graph["seqgp"] = set()  # which everything is under
    # Take away what imports nothing that is left, again and again: cycles, and what leads to them, stay.
    while free := {name for name, to in graph.items() if not to & graph.keys()}:
        graph = {name: to for name, to in graph.items() if name not in free}
    # And what nothing left is importing only leads to a cycle.
    while free := graph.keys() - set().union(*graph.values()):
        graph = {name: to for name, to in graph.items() if name not in free}
    assert set(graph) == CYCLES


def test_no_model_is_any():
    """A parameter, field or variable of that name has a type that says what it can do."""
    wrong = []
    for module, node in walk(ast.arg, ast.AnnAssign):
        name = node.arg if isinstance(node, ast.arg) else ast.unparse(node.target)
        last = name.rpartition(".")[2].strip("_")
        annotation = "" if node.annotation is None else ast.unparse(node.annotation)
        if last in ("model", "estimator", "forecaster") and "Any" in annotation.split(" | "):
            wrong.append(f"{module.at(node)} {name}: {annotation}")
    assert not wrong, "\n".join(wrong)


def test_what_was_fitted_is_set_by_its_owner_alone():
    """``other.name_ = …`` stands only where fitted objects are made out of files."""
    wrong = [
        f"{module.at(node)} {ast.unparse(node)} = …"
        for module, node in walk(ast.Attribute)
        if isinstance(node.ctx, ast.Store | ast.Del)
        if node.attr.endswith("_") and not node.attr.startswith("_")
        if ast.unparse(node.value) != "self"
        if node.attr not in MAKERS.get(module.path, ())
    ]
    assert not wrong, "\n".join(wrong)


def test_attributes_are_set_by_name():
    """``setattr`` would hide what the other tests look for."""
    wrong = [
        f"{module.at(node)} {ast.unparse(node)}"
        for module, node in walk(ast.Call)
        if ast.unparse(node.func) in ("setattr", "object.__setattr__")
        if ast.unparse(node.args[0]) != "self"
    ]
    assert not wrong, "\n".join(wrong)


def test_objects_are_not_copied_to_be_changed():
    """``dataclasses.replace`` makes a new one; a set of windows has arrays that nothing copies."""
    wrong = [
        module.at(node)
        for module, node in walk(ast.Call)
        if ast.unparse(node) in ("copy.copy(self)", "copy(self)")
        if module.path != "data/windows.py"
    ]
    assert not wrong, "\n".join(wrong)


def private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def own_names(module: Module) -> set[str]:
    """Private names that a module's own classes define."""
    names = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("self", "cls"):
            names.add(node.attr)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return names


def test_no_module_reaches_into_anothers_objects():
    wrong = []
    for module in modules().values():
        own = own_names(module)
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Attribute) and private(node.attr) and node.attr not in own:
                wrong.append(f"{module.at(node)} {ast.unparse(node)}")
            elif isinstance(node, ast.ImportFrom):
                wrong += [
                    f"{module.at(node)} imports {alias.name}"
                    for alias in node.names
                    if private(alias.name)
                ]
    assert not wrong, "\n".join(wrong)


def test_every_module_says_what_it_offers():
    def names(module: Module) -> list[str]:
        return [
            target.id
            for node in module.tree.body
            for target in (
                node.targets
                if isinstance(node, ast.Assign)
                else [node.target]
                if isinstance(node, ast.AnnAssign)
                else []
            )
            if isinstance(target, ast.Name)
        ]

    wrong = [module.path for module in modules().values() if "__all__" not in names(module)]
    assert not wrong, "\n".join(wrong)


def test_files_are_not_too_long():
    lengths = {module.path: module.lines for module in modules().values()}
    wrong = {path: lines for path, lines in lengths.items() if lines > LONGER.get(path, LONGEST)}
    assert not wrong
    done = {path for path in LONGER if lengths.get(path, 0) <= LONGEST}
    assert not done, "no longer too long: take these off the list"


@pytest.mark.xfail(strict=False, reason="until the last branches are merged")
def test_the_package_is_not_too_large():
    assert len(modules()) <= 95
    assert sum(module.lines for module in modules().values()) <= 13_000


def test_the_design_page_names_the_rooms_in_their_order():
    page = Path(__file__).parents[1] / "docs" / "design.md"
    table = page.read_text(encoding="utf-8").partition("## Rooms")[2].partition("\n\nBeside")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    found = [name.strip("` ") for row in rows for name in row.split(",")]
    assert found == [room for room in ROOMS if not room.startswith("_")]
