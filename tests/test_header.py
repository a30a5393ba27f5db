"""Headers: values to JSON and back; whatever is not of the declared type is refused, and said where."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqgp import ArtifactError
from seqgp.io import arguments, as_json, from_json


@dataclass(frozen=True)
class Point:
    x: float
    label: str = ""


@dataclass(frozen=True)
class Everything:
    whole: int
    number: float
    text: str
    yes: bool
    maybe: float | None
    either: int | str
    choice: Literal["a", "b", 1]
    many: tuple[int, ...]
    listed: list[float]
    named: dict[str, int]
    mapped: Mapping[str, float | None]
    point: Point
    points: tuple[Point, ...]
    none: None = None
    free: Any = None
    other: object = None
    perhaps: Point | None = None


GOOD = {
    "whole": 3,
    "number": 1.5,
    "text": "t",
    "yes": True,
    "maybe": None,
    "either": "e",
    "choice": "a",
    "many": [1, 2],
    "listed": [1.0, 2.0],
    "named": {"a": 1},
    "mapped": {"a": 1.0, "b": None},
    "point": {"x": 1.0},
    "points": [{"x": 1.0, "label": "p"}],
}


def test_everything_comes_back_through_json():
    value = Everything(
        whole=-3,
        number=0.1,
        text="größer",
        yes=False,
        maybe=2.5,
        either=4,
        choice=1,
        many=(1, 2, 3),
        listed=[0.5],
        named={"a": 1, "b": 2},
        mapped={"a": None},
        point=Point(1.0, "here"),
        points=(Point(2.0), Point(3.0)),
        free=[1, {"a": None}],
        other="o",
        perhaps=Point(4.0),
    )
    data = json.loads(json.dumps(as_json(value), allow_nan=False))
    assert from_json(Everything, data, "it") == value


def test_defaults_are_taken_where_nothing_is_given():
    found = from_json(Everything, GOOD, "it")
    assert (found.none, found.free, found.perhaps) == (None, None, None)
    assert found.point == Point(1.0, "")
    assert found.many == (1, 2)
    assert isinstance(found.many, tuple)
    assert isinstance(found.listed, list)


def test_numpys_values_become_pythons():
    found = as_json({"a": np.float32(0.5), "b": (np.int64(3), np.bool_(True)), 4: np.str_("t")})
    assert found == {"a": 0.5, "b": [3, True], "4": "t"}
    assert [type(each) for each in (found["a"], *found["b"], found["4"])] == [float, int, bool, str]


@pytest.mark.parametrize(
    "value",
    [
        object(),
        b"bytes",
        {1, 2},
        np.zeros(3),
        1j,
        Point,
        [Point(1.0), print],
        {"a": np.zeros(1)},
        Point(object()),
        np.datetime64("2024-01-01"),
    ],
)
def test_what_json_cannot_hold_is_refused(value):
    with pytest.raises(ArtifactError, match="is nothing that a model file can hold"):
        as_json(value)


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("whole", 1.0, "int"),
        ("whole", True, "int"),
        ("whole", None, "int"),
        ("whole", "3", "int"),
        ("whole", 2**63, "int"),
        ("whole", [3], "int"),
        ("number", "0.1", "float"),
        ("number", True, "float"),
        ("number", None, "float"),
        ("number", float("nan"), "float"),
        ("number", float("inf"), "float"),
        ("number", -float("inf"), "float"),
        ("number", 10**400, "float"),
        ("text", 3, "str"),
        ("text", None, "str"),
        ("text", ["t"], "str"),
        ("yes", 1, "bool"),
        ("yes", "true", "bool"),
        ("yes", None, "bool"),
        ("maybe", "x", "float | None"),
        ("maybe", False, "float | None"),
        ("maybe", float("nan"), "float | None"),
        ("either", 1.5, "int | str"),
        ("either", None, "int | str"),
        ("choice", "c", "Literal"),
        ("choice", 1.0, "Literal"),
        ("choice", True, "Literal"),
        ("choice", ["a"], "Literal"),
        ("choice", {}, "Literal"),
        ("many", 1, "tuple"),
        ("many", "12", "tuple"),
        ("many", {"a": 1}, "tuple"),
        ("many", None, "tuple"),
        ("listed", 1.0, "list"),
        ("listed", {}, "list"),
        ("named", [], "dict"),
        ("named", None, "dict"),
        ("mapped", 3, "Mapping"),
        ("point", 1.0, "Point"),
        ("point", [1.0], "Point"),
        ("point", None, "Point"),
        ("points", {"x": 1.0}, "tuple"),
        ("none", 0, "None"),
        ("none", False, "None"),
        ("perhaps", 3, "Point | None"),
    ],
)
def test_other_types_are_refused_by_name_and_value(name, value, kind):
    with pytest.raises(ArtifactError) as caught:
        from_json(Everything, GOOD | {name: value}, "it")
    text = str(caught.value)
    assert text.startswith(f"it.{name} is {value!r:.100}, expected ")
    assert kind in text


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"many": [1, "2"]}, r"it\.many\[1\] is '2', expected int"),
        ({"listed": [1.0, None]}, r"it\.listed\[1\] is None, expected float"),
        ({"named": {"a": 1, "b": 2.5}}, r"it\.named\.b is 2\.5, expected int"),
        ({"mapped": {"b": "x"}}, r"it\.mapped\.b is 'x', expected"),
        ({"point": {"x": "1"}}, r"it\.point\.x is '1', expected float"),
        ({"point": {}}, r"it\.point has no x"),
        ({"point": {"x": 1.0, "y": 2.0}}, r"it\.point has 'y', which is not known here"),
        ({"points": [{"x": 1.0}, {"x": True}]}, r"it\.points\[1\]\.x is True, expected float"),
        ({"points": [{"x": 1.0}, 3]}, r"it\.points\[1\] is 3, expected Point"),
        ({"perhaps": {"x": "1"}}, r"it\.perhaps is \{'x': '1'\}, expected"),
        ({"perhaps": {"z": 1}}, r"it\.perhaps is \{'z': 1\}, expected"),
    ],
)
def test_what_is_wrong_inside_is_said_where(changed, message):
    with pytest.raises(ArtifactError, match=message):
        from_json(Everything, GOOD | changed, "it")


@pytest.mark.parametrize("name", list(GOOD))
def test_a_missing_name_is_refused(name):
    rest = {key: value for key, value in GOOD.items() if key != name}
    with pytest.raises(ArtifactError, match=f"^it has no {name}$"):
        from_json(Everything, rest, "it")


@pytest.mark.parametrize("name", ["extra", "", "x" * 10_000, "__class__", "self"])
def test_an_unknown_name_is_refused(name):
    with pytest.raises(ArtifactError, match="which is not known here") as caught:
        from_json(Everything, GOOD | {name: 1}, "it")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("data", [None, 3, "text", [], [["x", 1.0]], True])
def test_what_is_no_mapping_is_refused(data):
    with pytest.raises(ArtifactError, match="expected names with values"):
        from_json(Point, data, "it")


def test_long_values_are_cut_in_messages():
    with pytest.raises(ArtifactError) as caught:
        from_json(Point, {"x": "long " * 10_000}, "it")
    assert len(str(caught.value)) < 200


def test_arguments_are_those_of_a_constructor_or_a_function():
    class Model:
        def __init__(self, size: int, name: str | None = None, point: Point | str = "none") -> None:
            raise AssertionError("it is not called")

    def function(size: int, rate: float = 0.5) -> None: ...

    assert arguments(Model, {"size": 3}, "it") == {"size": 3}
    assert arguments(Model, {"size": 3, "point": {"x": 2.0}}, "it")["point"] == Point(2.0)
    assert arguments(function, {"size": 3, "rate": 1}, "it") == {"size": 3, "rate": 1}
    with pytest.raises(ArtifactError, match=r"it\.rate is 'fast', expected float"):
        arguments(function, {"size": 3, "rate": "fast"}, "it")


def test_objects_that_are_made_already_stay_as_they_are():
    """Options that are objects are made before those of what holds them."""
    point = Point(1.0)

    def function(point: Point, other: Point | str) -> None: ...

    found = arguments(function, {"point": point, "other": point}, "it")
    assert found["point"] is point
    assert found["other"] is point
    with pytest.raises(
        ArtifactError, match=r"it\.point is <built-in function print>, expected Point"
    ):
        arguments(function, {"point": print, "other": "x"}, "it")


@dataclass(frozen=True)
class Deep:
    inner: tuple[Deep, ...] = ()
    table: dict[str, list[int]] = field(default_factory=dict)


def test_dataclasses_may_hold_themselves():
    value = Deep((Deep(), Deep((Deep(),), {"a": [1, 2]})))
    assert from_json(Deep, as_json(value), "it") == value
    with pytest.raises(ArtifactError, match=r"it\.inner\[1\]\.table\.a\[0\] is 'x', expected int"):
        from_json(Deep, {"inner": [{}, {"table": {"a": ["x"]}}]}, "it")


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["x", "label", "a"]) | st.text(max_size=3), inner)
    ),
    max_leaves=6,
)


@given(name=st.sampled_from(sorted(Everything.__dataclass_fields__)), value=_json)
def test_any_value_makes_an_object_of_the_declared_types_or_is_refused(name, value):
    try:
        found = from_json(Everything, GOOD | {name: value}, "it")
    except ArtifactError:
        return
    again = from_json(Everything, as_json(found), "it")
    if name not in ("free", "other"):  # which may hold NaN
        assert again == found
