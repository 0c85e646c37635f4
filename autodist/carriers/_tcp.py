"""Collectives by AutoDist's own library, over TCP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, final

from autodist.carriers._base import Carrier, CollectivePlace, Load, Process
from autodist.carriers._communicator import Communicator
from autodist.carriers._scatter import Passed, Scattered
from autodist.carriers._tcp_group import TcpGroup
from autodist.carriers._widened import SMALL, Widened
from autodist.cost import Links, added, direct_gather, direct_reduce
from autodist.transport import (
    OP_PREFIX,
    connect,
    disconnect,
    is_built,
    is_coded,
    owner_places,
    reduction_shares,
    register,
)

if TYPE_CHECKING:
    from autodist.graph import NodeList


@final
@dataclass(frozen=True)
class Tcp(Carrier):
    """AutoDist's own library: one TCP connection for each pair of workers."""

    name: ClassVar[str] = "tcp"
    called: ClassVar[str] = "AutoDist's own library"
    has_streams: ClassVar[bool] = True
    is_direct: ClassVar[bool] = True
    encrypts: ClassVar[bool] = True
    codes_floats: ClassVar[bool] = True
    carries_strings: ClassVar[bool] = True
    has_groups: ClassVar[bool] = True
    missing: ClassVar[str] = "not built"
    remedy: ClassVar[str] = "install AutoDist there where there is a compiler of C++ (`apt-get install g++`)"
    cost: ClassVar[str] = (
        "several workers need Horovod, or TensorFlow's collectives, which are slower and open ports "
        "(`--allow-open-ports`); nothing can be encrypted"
    )
    op_prefix: ClassVar[str] = OP_PREFIX

    def is_available(self) -> bool:
        """Whether the library was built."""
        return is_built()

    def instructions(self, python: str, compiler: str) -> str:
        """See the base class."""
        again = f"`{python} -m pip install --force-reinstall --no-deps .` in AutoDist's directory builds it"
        again = again if compiler else f"`apt-get install g++`, then {again}"
        return f"{again}; the wheel that `make wheel` builds has it, and needs no compiler"

    def communicator(self, place: CollectivePlace) -> Communicator:
        """See the base class."""
        if place.members is not None:
            return Widened(TcpGroup(place), SMALL, {})
        return Widened(_TcpCommunicator(place.step, place.world_size), SMALL, {})

    def open(self, process: Process) -> None:
        """See the base class; hosts sum as much as their links allow, and floats are encoded for slow ones."""
        register()
        found = process.connections(self.name)
        ranks = range(process.world_size)
        keys = [found[rank].key if rank in found else b"" for rank in ranks] if process.is_encrypted else None
        sockets = [found[rank].socket.detach() if rank in found else -1 for rank in ranks]
        coding = [rank in found and is_coded(process.links_gbps[rank]) for rank in ranks]
        shares = reduction_shares(process.bandwidths_gbps)
        connect(process.rank, sockets, shares, coding, keys, process.timeout_s)
        process.on_exit(disconnect)

    def links(self, load: Load, sums: Mapping[str, float]) -> Links:
        """See the base class."""
        return added(direct_reduce(load.summed_bytes, sums), direct_gather(load.parts))


@final
@dataclass(frozen=True)
class _TcpCommunicator(Communicator):
    """The library finds the partners of a collective by its name, so order does not matter.

    Attributes:
        step: Name of the compiled step: names repeat between steps, collectives must not.
        world_size: How many workers there are.
    """

    joins_all: ClassVar[bool] = False
    step: str
    world_size: int

    def __post_init__(self) -> None:
        """Register the library's ops with TensorFlow."""
        register()

    def all_reduce(self, nodes: NodeList, name: str, tensor: str, dtype: str) -> str:
        """See the base class."""
        return nodes.add("AutodistAllReduce", name, [tensor], T=dtype, collective=f"{self.step}/{name}")

    def spread(self, nodes: NodeList, sizes: Mapping[str, int]) -> None:
        """See the base class."""
        places = dict(zip(sizes, owner_places(list(sizes.values()), self.world_size), strict=True))
        for node in nodes.nodes:
            place = places.get(node.name)
            if place is not None:
                node.attr["place"].i = place

    def all_gather(self, nodes: NodeList, name: str, tensor: str, dtype: str) -> str:
        """See the base class."""
        return nodes.add("AutodistAllGather", name, [tensor], T=dtype, collective=f"{self.step}/{name}")

    def reduce_scatter(
        self, nodes: NodeList, name: str, scattered: Scattered, own: str, dtype: str, place: CollectivePlace
    ) -> str:
        """Each worker sends every other one only that one's rows."""
        return TcpGroup(place).reduce_scatter(nodes, name, scattered, own, dtype, place)

    def pass_rows(
        self, nodes: NodeList, name: str, passed: Passed, dtype: str, place: CollectivePlace
    ) -> tuple[list[str], list[str]]:
        """Each worker sends others only what they are given."""
        return TcpGroup(place).pass_rows(nodes, name, passed, dtype, place)
