"""Options: names for things of one kind, and modules that know the arguments they were made with."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, Generic, Self, TypeVar

from torch import nn

from seqgp.exceptions import UnknownNameError

__all__ = ["OptionsModule", "Registry"]

T = TypeVar("T")
Item = TypeVar("Item")


class Registry(Generic[T]):
    """Things of one kind by name, in the order in which they were registered.

    Args:
        kind: what they are called in messages.
        otherwise: what may be given in place of a name, for the same messages.

    >>> shapes: Registry[type] = Registry("shape")
    >>> @shapes.register("round")
    ... class Round: ...
    >>> shapes["round"] is Round, "round" in shapes, list(shapes)
    (True, True, ['round'])
    """

    def __init__(self, kind: str, otherwise: str = "") -> None:
        self.kind, self.otherwise = kind, otherwise
        self._items: dict[str, T] = {}

    def register(self, name: str) -> Callable[[Item], Item]:
        """Decorator: the class or function below it is known by ``name`` from then on."""

        def add(item: Item) -> Item:
            known = self._items.get(name)
            # The same module run again (a notebook's cell) may register its own name again.
            if known is not None and _origin(known) != _origin(item):
                raise ValueError(
                    f"{self.kind} {name!r} is registered already, by {_origin(known)}: choose another name"
                )
            self._items[name] = item  # type: ignore[assignment]
            return item

        return add

    def __getitem__(self, name: str) -> T:
        if not isinstance(name, str) or name not in self._items:
            known = ", ".join(map(repr, self._items)) + self.otherwise
            raise UnknownNameError(
                f"{self.kind}={name!r} is not known: use one of {known}. A name from outside seqgp is "
                "known once the module that registers it has been imported"
            )
        return self._items[name]

    def __contains__(self, name: object) -> bool:
        return name in self._items

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def name_of(self, item: object) -> str | None:
        """The name of a registered thing, None for any other."""
        return next((name for name, known in self._items.items() if known is item), None)


def _origin(item: object) -> str:
    return f"{getattr(item, '__module__', '?')}.{getattr(item, '__qualname__', item)}"


class OptionsModule(nn.Module):
    """A module whose constructor's arguments are options: to be cloned, set by name, and saved.

    Args:
        **options: all arguments of the subclass's constructor, as they were given.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        changed = [
            f"{name}={value!r}"
            for name, value in self.options.items()
            if name not in defaults or repr(value) != repr(defaults[name].default)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The options by name; with ``deep`` those of options that have their own, as ``name__own``.

        Args:
            deep: whether nested options are listed too.
        """
        found = dict(self.options)
        for name, value in self.options.items():
            if deep and hasattr(value, "get_params"):
                found |= {f"{name}__{own}": each for own, each in value.get_params().items()}
        return found

    def set_params(self, **params: Any) -> Self:
        """Start anew with other options; parameters that were trained are lost.

        Args:
            **params: options by name, or ``name__own`` for those of an option.
        """
        plain = {name: value for name, value in params.items() if "__" not in name}
        unknown = sorted(set(plain) - set(self.options))
        if unknown:
            raise ValueError(
                f"{type(self).__name__} has no option {unknown[0]!r}: use one of {', '.join(self.options)}"
            )
        options = self.options | plain
        for name in set(params) - set(plain):
            own, _, rest = name.partition("__")
            options[own].set_params(**{rest: params[name]})
        type(self).__init__(self, **options)
        return self

    def with_options(self, **changes: Any) -> Self:
        """An untrained one like this, with some options changed.

        Args:
            **changes: options by name.
        """
        return type(self)(**(self.options | changes))
