"""Names and the components behind them."""

import difflib
import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from pdnas.errors import UnknownNameError, first_complaint, shown

K = TypeVar("K", str, int)
T = TypeVar("T")


def unknown(kind: str, name: object, known: Iterable[object]) -> UnknownNameError:
    """The error for a name nobody knows: lists the known names and the closest of them."""
    names = [str(entry) for entry in known]
    close = difflib.get_close_matches(shown(name), names, n=1, cutoff=0.5)
    end = f"; did you mean '{close[0]}'?" if close else "."
    return UnknownNameError(f"Unknown {kind} '{shown(name)}'; known are: {', '.join(names)}{end}")


def refusal(error: ValidationError, kind: str, known: Iterable[object]) -> str:
    """Why pydantic refused some settings, as the end of a sentence.

    Args:
        error: Of pydantic.
        kind: What a setting is called.
        known: The settings that there are.
    """
    problem = error.errors(include_url=False)[0]
    if problem["type"] == "extra_forbidden" and len(problem["loc"]) == 1:
        return str(unknown(kind, problem["loc"][0], known))
    return f"{first_complaint(error)}, but got {shown(repr(problem['input']))}."


class Registry(Generic[K, T]):
    """Components of one kind under their names, in the order of registration.

    Args:
        kind: What is kept here, as an error message would call it.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[K, T] = {}

    def register(self, *names: K) -> Callable[[T], T]:
        """Decorator that files a component under one name, or under several."""

        def file(component: T) -> T:
            for name in names:
                if name in self._entries:
                    raise ValueError(f"The {self.kind} '{name}' is registered already.")
                self._entries[name] = component
            return component

        return file

    def __getitem__(self, name: K) -> T:
        try:
            return self._entries[name]
        except KeyError:
            raise unknown(self.kind, name, self._entries) from None

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[K]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def discover(package: str) -> None:
    """Import every module of a package, so that a new file registers itself by lying there."""
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")


def make_callable(package: str, home: str, function: str) -> None:
    """Let a package be a function too, for those who write ``import pdnas``.

    Args:
        package: Its name, ``pdnas.search``.
        home: The module of the function, which is imported when it is called.
        function: Its name.
    """

    class Package(ModuleType):
        def __call__(self, *arguments: Any, **settings: Any) -> Any:
            return getattr(importlib.import_module(home), function)(*arguments, **settings)

    sys.modules[package].__class__ = Package
