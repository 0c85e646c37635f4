"""Sets of things that belong together."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

_Thing = TypeVar("_Thing", bound=Hashable)


class Unions(Generic[_Thing]):
    """Disjoint sets, joined one by one; the thing that came first represents its set.

    Example:
        >>> unions = Unions(["a", "b", "c"])
        >>> unions.join("c", "b")
        >>> [unions.of(thing) for thing in "abc"]
        ['a', 'b', 'b']
    """

    def __init__(self, things: Iterable[_Thing] = ()) -> None:
        self._parent: dict[_Thing, _Thing] = {}
        self._place: dict[_Thing, int] = {}
        for thing in things:
            self.add(thing)

    def add(self, thing: _Thing) -> None:
        """Put a thing into a set of its own, if it is in none."""
        self._parent.setdefault(thing, thing)
        self._place.setdefault(thing, len(self._place))

    def __contains__(self, thing: _Thing) -> bool:
        return thing in self._parent

    def of(self, thing: _Thing) -> _Thing:
        """The thing that represents the set of this one."""
        root = thing
        while self._parent[root] != root:
            root = self._parent[root]
        while self._parent[thing] != root:
            self._parent[thing], thing = root, self._parent[thing]
        return root

    def join(self, one: _Thing, other: _Thing) -> None:
        """Put the things of two sets into one."""
        first, second = sorted((self.of(one), self.of(other)), key=self._place.__getitem__)
        self._parent[second] = first
