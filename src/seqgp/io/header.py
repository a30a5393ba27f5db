"""Headers of files: Python values to JSON and back, every value compared with the type that is declared."""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from seqgp.exceptions import ArtifactError

__all__ = ["arguments", "as_json", "from_json"]

T = TypeVar("T")


def as_json(value: Any) -> Any:
    """What JSON can hold of a value: numbers, text, sequences, mappings, and dataclasses of these.

    Raises:
        ArtifactError: it is of another kind.

    >>> as_json({"a": (1, 2.0), "b": np.float64(3.0)})
    {'a': [1, 2.0], 'b': 3.0}
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [as_json(each) for each in value]
    if isinstance(value, Mapping):
        return {str(name): as_json(each) for name, each in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: as_json(getattr(value, field.name)) for field in fields(value)}
    raise ArtifactError(f"a {type(value).__name__} is nothing that a model file can hold")


def from_json(kind: Callable[..., T], data: Any, where: str) -> T:
    """An object made by its constructor from JSON, every argument of the declared type.

    Args:
        kind: the class.
        data: a mapping of its arguments.
        where: what the data is, for messages.

    Raises:
        ArtifactError: an argument is missing, unknown, or of another type.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Point:
    ...     x: float
    ...     y: tuple[int, ...] = ()
    >>> from_json(Point, {"x": 1.5, "y": [2, 3]}, "point")
    Point(x=1.5, y=(2, 3))
    """
    return kind(**arguments(kind, data, where))


def arguments(kind: Callable[..., Any], data: Any, where: str) -> dict[str, Any]:
    """The arguments of a constructor from JSON; values that are objects already stay as they are.

    Args:
        kind: the class.
        data: a mapping of its arguments.
        where: what the data is, for messages.
    """
    if not isinstance(data, Mapping):
        raise ArtifactError(f"{where} is {data!r:.100}, expected names with values")
    hints = get_type_hints(kind.__init__) if isinstance(kind, type) else get_type_hints(kind)  # type: ignore[misc]
    parameters = list(inspect.signature(kind).parameters.values())
    known = {p.name for p in parameters}
    for name in data:
        if name not in known:
            raise ArtifactError(f"{where} has {name!r:.100}, which is not known here")
    for parameter in parameters:
        if parameter.default is parameter.empty and parameter.name not in data:
            raise ArtifactError(f"{where} has no {parameter.name}")
    return {
        name: _typed(hints.get(name, object), value, f"{where}.{name}")
        for name, value in data.items()
    }


def _typed(hint: Any, value: Any, where: str) -> Any:
    """The value as the type that is declared, or a refusal."""
    origin = get_origin(hint)
    if hint is object or hint is Any:
        return value
    if origin in (Union, types.UnionType):
        for option in get_args(hint):
            try:
                return _typed(option, value, where)
            except ArtifactError:
                continue
    elif origin is Literal:
        if any(value == choice and type(value) is type(choice) for choice in get_args(hint)):
            return value
    elif origin in (tuple, Sequence) and isinstance(value, list | tuple):
        (item, *_) = get_args(hint)
        return tuple(_typed(item, each, f"{where}[{k}]") for k, each in enumerate(value))
    elif origin is list and isinstance(value, list):
        (item,) = get_args(hint)
        return [_typed(item, each, f"{where}[{k}]") for k, each in enumerate(value)]
    elif origin in (dict, Mapping) and isinstance(value, dict):
        _, item = get_args(hint)
        return {str(name): _typed(item, each, f"{where}.{name}") for name, each in value.items()}
    elif hint is float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if number and abs(value) <= sys.float_info.max:  # which NaN is not either
            return value
    elif hint is int:
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63:
            return value
    elif hint is None or hint is type(None):
        if value is None:
            return None
    elif isinstance(hint, type):
        if is_dataclass(hint) and isinstance(value, dict):
            return from_json(hint, value, where)
        if isinstance(value, hint) and not (isinstance(value, bool) and hint is not bool):
            return value
    name = getattr(hint, "__name__", str(hint))
    raise ArtifactError(f"{where} is {value!r:.100}, expected {name}")
