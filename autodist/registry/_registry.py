"""Finds classes by name: our own and those that other packages bring through entry points."""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, get_type_hints

from autodist.errors import StrategyError
from autodist.registry._named import Named
from autodist.registry._parse_call import parameters
from autodist.registry._typed import suggestion

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


class _Summarized(Protocol):
    @classmethod
    def summary(cls) -> str:
        """Return one line."""


T = TypeVar("T", bound=_Summarized)


class PluginWarning(UserWarning):
    """A part of another package that can't be used."""


@dataclass(frozen=True)
class Registered:
    """The description of a registered class.

    Attributes:
        name: What users call it.
        summary: One line.
        parameters: Its parameters with their defaults.
    """

    name: str
    summary: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class Registry(Generic[T]):
    """The classes of one kind.

    Attributes:
        kind: What messages call one, ``"strategy builder"``.
        base: What they are derived from.
        group: The entry points by which other packages bring theirs.
        own: Ours.
        tag: The class attribute that is a class' name. If it is another one, fields need no defaults.
    """

    kind: str
    base: type[Any]
    group: str
    own: tuple[type[T], ...]
    tag: str = "name"

    def find(self, name: str) -> type[T] | None:
        """Return the class of this name, None if there is none.

        Raises:
            StrategyError: If it can't be loaded, or two packages bring a class of one name.
        """
        load = self._loaders().get(name)
        return None if load is None else self._loaded(name, load)

    def spelled(self, name: str) -> str:
        """Return a name as it is registered, if it differs from that of one class alone in upper and lower case."""
        known = self._loaders()
        alike = [other for other in known if other.casefold() == name.casefold()]
        return alike[0] if name not in known and len(alike) == 1 else name

    def registered(self) -> tuple[Registered, ...]:
        """All classes in alphabetical order; those of other packages that can't be loaded give a warning.

        Raises:
            StrategyError: If two packages bring a class of one name.
        """
        return tuple(
            Registered(self._name(cls), cls.summary(), parameters(cls) if issubclass(cls, Named) else {})
            for cls in self.classes()
        )

    def classes(self) -> tuple[type[T], ...]:
        """All classes, in the order of :meth:`registered`."""
        found = []
        for name, load in sorted(self._loaders().items()):
            try:
                found.append(self._loaded(name, load))
            except StrategyError as error:
                warnings.warn(f"{error.message}; it is left out", PluginWarning, stacklevel=4)
        return tuple(found)

    def near(self, name: str) -> tuple[str, list[str]]:
        """For a name that is unknown: the suggestion, and a line for each that is known."""
        known = self.registered()
        return suggestion(name, [one.name for one in known]), [f"  {one.name} - {one.summary}" for one in known]

    def _loaders(self) -> dict[str, Callable[[], type[T]]]:
        loaders = {self._name(cls): _given(cls) for cls in self.own}
        for entry in _entries(self.group, _places()):
            if entry.name in loaders:
                raise StrategyError(
                    f"two packages bring a {self.kind} named `{entry.name}`, one of them is `{entry.value}`",
                    hint=f"uninstall one of the packages, or rename its entry point in the group `{self.group}`",
                )
            loaders[entry.name] = entry.load
        return loaders

    def _loaded(self, name: str, load: Callable[[], type[T]]) -> type[T]:
        try:
            cls: type[T] = load()
            self._check_contract(name, cls)
        except Exception as error:  # whatever another package's code raises
            reason = str(error) if isinstance(error, StrategyError) else f"{type(error).__name__}: {error}"
            raise StrategyError(f"the {self.kind} `{name}` can't be loaded: {reason}") from error
        return cls

    def _check_contract(self, name: str, cls: Any) -> None:
        if not (isinstance(cls, type) and issubclass(cls, self.base) and is_dataclass(cls)):
            raise StrategyError(f"it is {cls!r}, allowed: a dataclass from {self.base.__name__}")
        if self._name(cls) != name:
            raise StrategyError(f"its `{self.tag}` is {self._name(cls)!r}, allowed: that of its entry point")
        get_type_hints(cls)
        if issubclass(cls, Named):
            parameters(cls)  # raises where a parameter has no default

    def _name(self, cls: Any) -> Any:
        return getattr(cls, self.tag, None)


def _places() -> tuple[tuple[str, int], ...]:
    """Where packages are installed, and when something was last installed there."""
    return tuple((path, os.stat(path).st_mtime_ns) for path in map(os.path.abspath, sys.path) if os.path.isdir(path))


@functools.lru_cache(maxsize=16)
def _entries(group: str, places: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:
    """The entry points of a group, in order; to look them up takes as long as to build a strategy."""
    from importlib.metadata import entry_points  # 30 ms, which `import autodist` need not pay

    # A set: a package that is found twice on the path (an editable install and its metadata) is no duplicate.
    return tuple(sorted(set(entry_points(group=group)), key=lambda entry: (entry.name, entry.value)))


def _given(cls: type[T]) -> Callable[[], type[T]]:
    return lambda: cls
