"""Collectives of some of the workers, which send messages directly to each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, final

from autodist.carriers._base import CollectivePlace
from autodist.carriers._communicator import Communicator
from autodist.carriers._scatter import Passed, Scattered, rows_of
from autodist.transport import register

if TYPE_CHECKING:
    from autodist.graph import NodeList


@final
@dataclass(frozen=True)
class TcpGroup(Communicator):
    """Sends and receives by AutoDist's own library, which finds the partners of a message by its name.

    Attributes:
        place: The workers that take part.
    """

    joins_all: ClassVar[bool] = False
    place: CollectivePlace

    def __post_init__(self) -> None:
        """Register the library's ops with TensorFlow."""
        register()

    def all_reduce(self, nodes: NodeList, name: str, tensor: str, dtype: str) -> str:
        """Each member sums one part of the elements, and sends the sum to the others.

        With two members, each sends its whole tensor to the other: as many bytes, and one message less.
        """
        members = len(self.place.among)
        if members == 2:
            return nodes.sum(name, self._exchanged(nodes, name, [tensor] * 2, dtype), dtype)
        flat = nodes.reshape(f"{name}/elements", tensor, [-1], dtype)
        parts = self._parts(nodes, f"{name}/parts", flat, dtype)
        own = nodes.sum(f"{name}/own", self._exchanged(nodes, f"{name}/summed", parts, dtype), dtype)
        found = self._exchanged(nodes, f"{name}/given", [own] * members, dtype)
        whole = nodes.concat(f"{name}/all", found, dtype)
        shape = nodes.add("Shape", f"{name}/shape", [tensor], T=dtype, out_type="int32")
        return nodes.add("Reshape", name, [whole, shape], T=dtype, Tshape="int32")

    def all_gather(self, nodes: NodeList, name: str, tensor: str, dtype: str) -> str:
        """See the base class."""
        found = self._exchanged(nodes, name, [tensor] * len(self.place.among), dtype)
        return nodes.concat(f"{name}/together", found, dtype)

    def reduce_scatter(
        self, nodes: NodeList, name: str, scattered: Scattered, own: str, dtype: str, place: CollectivePlace
    ) -> str:
        """Each member sends every other one only that one's rows."""
        index, members = place.index, place.among
        parts = [
            own if k == index else rows_of(nodes, f"{name}/to_{other}", scattered, k, dtype)
            for k, other in enumerate(members)
        ]
        return nodes.sum(f"{name}/rows", self._exchanged(nodes, name, parts, dtype), dtype)

    def pass_rows(
        self, nodes: NodeList, name: str, passed: Passed, dtype: str, place: CollectivePlace
    ) -> tuple[list[str], list[str]]:
        """Each member sends others only what they are given."""
        members, index = place.among, place.index
        sent = [
            self._sent(nodes, name, members[k], rows, dtype)
            for k, rows in zip(passed.to(index), passed.rows, strict=True)
        ]
        return sent, [self._received(nodes, name, members[k], sent, dtype) for k in passed.by(index)]

    def _exchanged(self, nodes: NodeList, name: str, parts: Sequence[str], dtype: str) -> list[str]:
        """Every member's part for this one, in the order of members, so that every run adds in the same order.

        Args:
            nodes: Where to add nodes.
            name: Prefix of their names, the same for all members.
            parts: This member's part for each member.
            dtype: The element type.
        """
        pairs, rank = list(zip(self.place.among, parts, strict=True)), self.place.rank
        sent = [self._sent(nodes, name, other, part, dtype) for other, part in pairs if other != rank]
        return [part if other == rank else self._received(nodes, name, other, sent, dtype) for other, part in pairs]

    def _sent(self, nodes: NodeList, name: str, other: int, part: str, dtype: str) -> str:
        message = f"{self.place.step}/{name}/{self.place.rank}_{other}"
        return nodes.add("AutodistSend", f"{name}/sent_{other}", [part], T=[dtype], collective=message, ranks=[other])

    def _received(self, nodes: NodeList, name: str, other: int, sent: Sequence[str], dtype: str) -> str:
        """The rows that another member has sent; the wait begins after everything is on its way."""
        waits = [f"^{node}" for node in sent]
        message = f"{self.place.step}/{name}/{other}_{self.place.rank}"
        return nodes.add("AutodistReceive", f"{name}/from_{other}", waits, T=[dtype], collective=message, ranks=[other])

    def _parts(self, nodes: NodeList, name: str, flat: str, dtype: str) -> list[str]:
        """Nearly equal parts of a vector, one for each member."""
        count = len(self.place.among)
        size = nodes.add("Size", f"{name}/size", [flat], T=dtype, out_type="int64")
        shares = nodes.constant(f"{name}/shares", range(count + 1), "int64")
        times = nodes.add("Mul", f"{name}/times", [shares, size], T="int64")
        number = nodes.constant(f"{name}/count", count, "int64")
        bounds = nodes.add("FloorDiv", f"{name}/bounds", [times, number], T="int64")
        one = nodes.constant(f"{name}/one", [1], "int64")
        found = []
        for k in range(count):
            first, last = (nodes.constant(f"{name}/{k}/{what}", [k + d], "int64") for d, what in enumerate("ab"))
            begin, end = (
                nodes.add("Slice", f"{at}/bound", [bounds, at, one], T="int64", Index="int64") for at in (first, last)
            )
            stride = nodes.constant(f"{name}/{k}/stride", [1], "int64")
            found.append(nodes.add("StridedSlice", f"{name}/{k}", [flat, begin, end, stride], T=dtype, Index="int64"))
        return found
