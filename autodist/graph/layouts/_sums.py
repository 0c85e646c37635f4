"""Where terms of a sum are put together: once, where several values depend on it, and before they grow.

A way that takes terms unchanged, as a squeeze or a product with a constant does, costs nothing by itself. But if
several values that depend on a sum are needed whole (a mean that is subtracted, and that a moving mean follows), then
each of them would be an exchange of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass
class PartialRegion:
    """The tensors of a step that replicas have as parts of sums, or as parts of arrays.

    Attributes:
        sent: By tensor that has to be put together as things are, the bytes that this takes.
        made: By tensor, the tensors that nodes make of it without putting it together.
        sources: By tensor that is made of parts, the tensors that these parts belong to.
    """

    sent: Mapping[str, float]
    made: dict[str, list[str]] = field(default_factory=dict)
    sources: dict[str, set[str]] = field(default_factory=dict)

    def add(self, parts: Sequence[str], outputs: Iterable[str]) -> None:
        """Add a node that makes parts of tensors from parts of others; nodes are added in the order of the graph."""
        for output in outputs:
            self.sources[output] = set(parts)
            for tensor in parts:
                self.made.setdefault(tensor, []).append(output)

    def whole_with(self, tensor: str) -> list[str]:
        """The tensors that are whole as soon as one is: itself, and those that are made from it alone."""
        found, members = [tensor], {tensor}
        for reached in found:
            for output in self.made.get(reached, ()):
                if output not in members and self.sources[output] <= members:
                    found.append(output)
                    members.add(output)
        return found

    def worth(self, bytes_of: Callable[[str], float]) -> dict[str, list[str]]:
        """The tensors that are better put together at once, each with the tensors that are whole then.

        Args:
            bytes_of: Gives the bytes that are sent to put a tensor together.
        """
        chosen: dict[str, list[str]] = {}
        handled: set[str] = set()
        for tensor in self.made:
            if tensor in handled:
                continue
            members = self.whole_with(tensor)
            if sum(self.sent.get(member, 0.0) for member in members) > bytes_of(tensor):
                chosen[tensor] = members
                handled.update(members)
        return chosen

    def best(
        self, bytes_of: Callable[[str], float], computing: Callable[[Iterable[str]], float]
    ) -> dict[str, list[str]]:
        """As :meth:`worth`, with the tensors that save most first; it takes longer.

        Args:
            bytes_of: Gives the bytes that are sent to put a tensor together.
            computing: Gives what it costs, in bytes, that replicas compute tensors whole which they would share.
        """
        savings: list[tuple[float, str, list[str]]] = []
        for tensor in self.made:
            members = self.whole_with(tensor)
            saved = sum(self.sent.get(member, 0.0) for member in members) - bytes_of(tensor)
            saved -= computing(members[1:]) if saved > 0 else 0
            if saved > 0:
                savings.append((saved, tensor, members))
        chosen: dict[str, list[str]] = {}
        handled: set[str] = set()
        for _, tensor, members in sorted(savings, key=lambda found: -found[0]):
            if handled.isdisjoint(members):
                chosen[tensor] = members
                handled.update(members)
        return chosen
