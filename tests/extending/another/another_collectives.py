"""A package of another's: a carrier on plain sockets, and an all-reduce that sums in floats of 64 bits."""

from __future__ import annotations

import queue
import struct
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from autodist import carriers
from autodist.carriers import Carrier, CarrierName, CollectivePlace, Communicator, Process
from autodist.graph import NodeList
from autodist.kernels import Combine, DistributedGraph, SynchronizerKernel, SyncPoint
from autodist.strategies import (
    Choice,
    ChoiceContext,
    Form,
    GraphConfig,
    OnEveryWorker,
    Problem,
    ShardMessages,
    Strategy,
    StrategyBuilder,
    Synchronizer,
    VariableConfig,
)

# --- the carrier

_HEADER = struct.Struct("!IQ")


class _Peers:
    """The sockets to the other workers, and what came by them."""

    def __init__(self, process: Process) -> None:
        self.rank, self.timeout_s = process.rank, process.timeout_s
        self.sockets = {rank: found.socket for rank, found in process.connections("sockets").items()}
        self.locks = {rank: threading.Lock() for rank in self.sockets}
        self.came: dict[tuple[int, bytes], queue.Queue[bytes | None]] = {}
        self.is_lost = False
        for rank, sock in self.sockets.items():
            sock.settimeout(None)
            threading.Thread(target=self._listen, args=(rank, sock), daemon=True).start()

    def exchange(self, name: bytes, own: bytes) -> Iterator[bytes]:
        """What each worker has for a collective, in rank order."""
        for rank, sock in self.sockets.items():
            with self.locks[rank]:
                sock.sendall(_HEADER.pack(len(name), len(own)) + name + own)
        for rank in sorted({self.rank, *self.sockets}):
            yield own if rank == self.rank else self._take(rank, name)

    def _take(self, rank: int, name: bytes) -> bytes:
        found = None if self.is_lost else self._queue(rank, name).get(timeout=self.timeout_s)
        if found is None:
            raise ConnectionError(f"worker {rank} is gone")
        return found

    def _queue(self, rank: int, name: bytes) -> queue.Queue[bytes | None]:
        """That of a collective; who gives and who takes may both be the first to ask for it."""
        return self.came.setdefault((rank, name), queue.Queue())

    def _listen(self, rank: int, sock: Any) -> None:
        try:
            with sock.makefile("rb") as stream:
                while header := stream.read(_HEADER.size):
                    name_bytes, size = _HEADER.unpack(header)
                    name = stream.read(name_bytes)
                    self._queue(rank, name).put(stream.read(size))
        except OSError:
            pass
        self.is_lost = True
        for waiting in list(self.came.values()):
            waiting.put(None)

    def close(self) -> None:
        for sock in self.sockets.values():
            sock.close()


_PEERS: list[_Peers] = []
_FUNCTIONS: list[Any] = []
"""TensorFlow keeps none of them itself."""


@dataclass(frozen=True)
class Sockets(Carrier):
    """Plain sockets: every worker sends all it has to each other one."""

    name: ClassVar[str] = "sockets"
    called: ClassVar[str] = "plain sockets"
    is_direct: ClassVar[bool] = True

    def communicator(self, place: CollectivePlace) -> Communicator:
        return _Nodes(place.step)

    def open(self, process: Process) -> None:
        _PEERS.append(_Peers(process))
        process.on_exit(_PEERS[-1].close)

    def links(self, load, sums):
        parts = {host: part + load.summed_bytes for host, part in load.parts.items()}
        return {(host, other): parts[host] for host in parts for other in parts if host != other}


@dataclass(frozen=True)
class _Nodes(Communicator):
    step: str

    def all_reduce(self, nodes: NodeList, name: str, tensor: str, dtype: str) -> str:
        return self._called(nodes, name, tensor, dtype, lambda parts: np.sum(parts, axis=0, dtype=parts[0].dtype))

    def all_gather(self, nodes: NodeList, name: str, tensor: str, dtype: str) -> str:
        return self._called(nodes, name, tensor, dtype, np.concatenate)

    def _called(self, nodes: NodeList, name: str, tensor: str, dtype: str, join: Any) -> str:
        from tensorflow.python.ops.script_ops import _py_funcs

        key = f"{self.step}/{name}".encode()

        def collective(own: np.ndarray) -> np.ndarray:
            parts = [np.frombuffer(part, own.dtype) for part in _PEERS[-1].exchange(key, own.tobytes())]
            rest = own.shape[1:]
            return join([part.reshape((-1, *rest) if own.ndim else ()) for part in parts])

        _FUNCTIONS.append(collective)
        return nodes.add("PyFunc", name, [tensor], Tin=[dtype], Tout=[dtype], token=_py_funcs.insert(collective))


# --- the synchronizer, and its kernel


@dataclass(frozen=True)
class WideSum(OnEveryWorker):
    """All-reduce of dense gradients, whose sums are floats of 64 bits."""

    type: ClassVar[str] = "WideSum"
    form: ClassVar[Form] = Form.REDUCED
    verb: ClassVar[str] = "summed widely"
    communicator: CarrierName = "sockets"

    def sent(self, message: ShardMessages, graph: GraphConfig, later_reads: int) -> ShardMessages:
        return replace(message.never_coded, summed_bytes=2 * message.summed_bytes)

    @classmethod
    def checks(cls):
        return (_dense,)

    @classmethod
    def suits(cls, choice: Choice, context: ChoiceContext) -> bool:
        return all(variable.dtype == "float32" and not variable.is_sparse for variable in context.variables)

    @classmethod
    def of_choice(cls, choice: Choice, home: str, group: int, stations: tuple[str, ...]) -> WideSum:
        assert choice.communicator is not None
        return cls(choice.communicator)


def _dense(strategy, graph, spec):
    sparse = {variable.name for variable in graph.trainable if variable.is_sparse}
    for name, _ in strategy.synchronized_by(WideSum):
        if name in sparse:
            yield Problem(name, "synchronizer", "'WideSum'", "'AllReduce'", "its gradient is sparse")


@dataclass(frozen=True)
class WideSums(SynchronizerKernel[WideSum]):
    """Has gradients meet as floats of 64 bits."""

    name: ClassVar[str] = "WideSums"
    synchronizer: ClassVar[type[Synchronizer]] = WideSum

    def meet(self, graph: DistributedGraph, points: Sequence[tuple[SyncPoint, WideSum]], step: str) -> DistributedGraph:
        nodes, inputs = NodeList(device=graph.layout.main_device), {}
        for point, synchronizer in points:
            carry = carriers.get(synchronizer.communicator).communicator(graph.layout.place(step))
            assert point.combine is Combine.SUM, "verification lets dense gradients through alone"
            [own], [synced], [dtype] = point.local, point.synced, point.dtypes
            name = f"wide_sum/{point.name}"
            total = carry.all_reduce(nodes, name, nodes.cast(f"{name}/wide", own, dtype, "float64"), "float64")
            inputs[synced] = nodes.cast(f"{name}/narrow", total, "float64", dtype)
        return graph.rewired(inputs, nodes.nodes)


# --- a strategy with both


@dataclass(frozen=True)
class Wide(StrategyBuilder):
    """Sums everything widely."""

    name: ClassVar[str] = "Wide"
    communicator: CarrierName = "sockets"

    def build(self, graph, spec):
        configs = tuple(VariableConfig.whole(v.name, WideSum(self.communicator)) for v in graph.trainable)
        replicas = tuple(device.name for device in spec.replicas)
        return Strategy(GraphConfig(replicas, self.communicator), configs, builder=str(self))
