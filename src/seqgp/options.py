"""Modules that know the arguments they were made with, as scikit-learn's estimators do."""

from __future__ import annotations

import inspect
from typing import Any, Self

from torch import nn

__all__ = ["OptionsModule"]


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
