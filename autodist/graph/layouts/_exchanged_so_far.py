"""The exchanges of a plan while it is made: into which layouts tensors are brought for the nodes that have a way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from autodist.graph._graph_def import normalize
from autodist.graph.layouts._base import Layout


class ExchangedSoFar:
    """The layouts, besides its own, in which some node takes a tensor; in the order in which nodes were given ways.

    Example:
        >>> from autodist.graph.layouts._base import Cut
        >>> exchanged = ExchangedSoFar()
        >>> exchanged.add("x:0", Cut(0))
        >>> exchanged.has("x", Cut(0)), list(exchanged.of("x")), list(exchanged.of("y"))
        (True, [Cut(dim=0, outer=1, times=1)], [])
    """

    def __init__(self) -> None:
        # Dicts, not sets: workers go through them, and all of them must plan alike.
        self._layouts: dict[str, dict[Layout, None]] = {}

    def add(self, tensor: str, layout: Layout) -> None:
        """Note that a tensor is brought into a layout."""
        self._layouts.setdefault(normalize(tensor), {})[layout] = None

    def add_all(self, pairs: Iterable[tuple[str, Layout]]) -> None:
        """Note that some tensors are brought into a layout each."""
        for tensor, layout in pairs:
            self.add(tensor, layout)

    def has(self, tensor: str, layout: Layout) -> bool:
        """Whether a tensor is brought into a layout."""
        return layout in self._layouts.get(normalize(tensor), ())

    def of(self, tensor: str) -> Iterable[Layout]:
        """The layouts into which a tensor is brought."""
        return self._layouts.get(normalize(tensor), ())

    def forget(self, tensors: Iterable[str]) -> None:
        """Drop all layouts of some tensors."""
        for tensor in tensors:
            self._layouts.pop(normalize(tensor), None)

    def __iter__(self) -> Iterator[tuple[str, Layout]]:
        for tensor, layouts in self._layouts.items():
            for layout in layouts:
                yield tensor, layout
