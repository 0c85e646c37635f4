"""Dtypes that a communicator does not carry, as wider ones that it does; strings as bytes, complex numbers as pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, final

from autodist.carriers._communicator import Communicator
from autodist.carriers._strings import gathered_strings

if TYPE_CHECKING:
    from autodist.carriers._base import CollectivePlace
    from autodist.carriers._scatter import Passed, Scattered
    from autodist.graph import NodeList

UNSIGNED: Mapping[str, str] = {"uint32": "int64", "uint64": "int64"}
"""Unsigned dtypes with the signed ones that carry them; int64 keeps the bits of uint64, not its numbers."""

COMPLEX: Mapping[str, str] = {"complex64": "float32", "complex128": "float64"}
"""Complex dtypes with those of the pairs that carry them, along one more dim."""

SMALL: Mapping[str, str] = {
    **dict.fromkeys(["bool", "int8", "uint8", "int16", "uint16"], "int32"),
    **UNSIGNED,
    **COMPLEX,
}

_Collective: TypeAlias = "Callable[[NodeList, str, str, str], str]"


@final
@dataclass(frozen=True)
class Widened(Communicator):
    """Casts before and after a collective; the wider dtype has all values of the narrower one, so nothing is lost.

    Attributes:
        inner: The communicator for the wider dtypes.
        summed: By dtype that it can't sum, the dtype in which it can.
        gathered: By dtype that it can't gather, the dtype in which it can.
    """

    inner: Communicator
    summed: Mapping[str, str]
    gathered: Mapping[str, str]

    @property
    def joins_all(self) -> bool:  # type: ignore[override]
        """See the base class."""
        return self.inner.joins_all

    def all_reduce(self, nodes: NodeList, name: str, tensor: str, dtype: str) -> str:
        """See the base class."""
        return _carried(self.inner.all_reduce, self.summed.get(dtype, dtype), nodes, name, tensor, dtype)

    def all_reduce_varying(self, nodes: NodeList, name: str, tensor: str, dtype: str) -> str:
        """See the base class."""
        return _carried(self.inner.all_reduce_varying, self.summed.get(dtype, dtype), nodes, name, tensor, dtype)

    def spread(self, nodes: NodeList, sizes: Mapping[str, int]) -> None:
        """See the base class."""
        self.inner.spread(nodes, sizes)

    def reduce_scatter(
        self, nodes: NodeList, name: str, scattered: Scattered, own: str, dtype: str, place: CollectivePlace
    ) -> str:
        """See the base class."""
        if dtype in self.summed:
            return super().reduce_scatter(nodes, name, scattered, own, dtype, place)
        return self.inner.reduce_scatter(nodes, name, scattered, own, dtype, place)

    def pass_rows(
        self, nodes: NodeList, name: str, passed: Passed, dtype: str, place: CollectivePlace
    ) -> tuple[list[str], list[str]]:
        """See the base class."""
        if dtype == "string" or dtype in self.gathered:
            return super().pass_rows(nodes, name, passed, dtype, place)
        return self.inner.pass_rows(nodes, name, passed, dtype, place)

    def all_gather(self, nodes: NodeList, name: str, tensor: str, dtype: str) -> str:
        """See the base class."""
        if dtype == "string":
            return gathered_strings(self.all_gather, nodes, name, tensor)
        return _carried(self.inner.all_gather, self.gathered.get(dtype, dtype), nodes, name, tensor, dtype)

    def all_gather_rows(
        self, nodes: NodeList, names: Sequence[str], tensors: Sequence[str], dtypes: Sequence[str]
    ) -> list[str]:
        """See the base class."""
        if "string" in dtypes:
            return super().all_gather_rows(nodes, names, tensors, dtypes)
        wider = [self.gathered.get(dtype, dtype) for dtype in dtypes]
        wide = [_cast(nodes, f"{n}/{w}", t, d, w) for n, t, d, w in zip(names, tensors, dtypes, wider, strict=True)]
        gathered = self.inner.all_gather_rows(nodes, names, wide, wider)
        return [_cast(nodes, f"{n}/{d}", t, w, d) for n, t, d, w in zip(names, gathered, dtypes, wider, strict=True)]

    def all_gather_even(self, nodes: NodeList, name: str, tensor: str, dtype: str) -> str:
        """See the base class."""
        return _carried(self.inner.all_gather_even, self.gathered.get(dtype, dtype), nodes, name, tensor, dtype)


def _carried(collective: _Collective, wider: str, nodes: NodeList, name: str, tensor: str, dtype: str) -> str:
    wide = _cast(nodes, f"{name}/{wider}", tensor, dtype, wider)
    return _cast(nodes, f"{name}/{dtype}", collective(nodes, name, wide, wider), wider, dtype)


def _cast(nodes: NodeList, name: str, tensor: str, before: str, after: str) -> str:
    if before != after and (before in COMPLEX or after in COMPLEX):
        return nodes.add("Bitcast", name, [tensor], T=before, type=after)
    return nodes.cast(name, tensor, before, after)
