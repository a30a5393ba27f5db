"""Names for things of one kind, such as encoders: how a new one joins the package, and is saved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

__all__ = ["Registry"]

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
            raise ValueError(
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
