"""Collectives by TensorFlow itself: no dependency, three to five times slower than Horovod on CPUs."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, final

from autodist.carriers._base import Carrier, CollectivePlace, Load
from autodist.carriers._communicator import Communicator
from autodist.carriers._widened import SMALL, Widened
from autodist.cost import Links

if TYPE_CHECKING:
    from autodist.graph import NodeList

_LENGTHS = [*range(1, 8), *(part << power for power in range(1, 29) for part in range(4, 8)), 2**31 - 1]
"""The lengths to which tensors are padded, at most a quarter longer than needed."""


@final
@dataclass(frozen=True)
class Collective(Carrier):
    """TensorFlow's own collectives, by gRPC around a ring."""

    name: ClassVar[str] = "collective"
    called: ClassVar[str] = "TensorFlow's collectives"
    unfit: ClassVar[str] = (
        "TensorFlow's collectives number the steps of all workers in one sequence, and the clean-up after one worker's "
        "step then aborts what servers compute for another's"
    )
    needs_servers: ClassVar[bool] = True
    carries_strings: ClassVar[bool] = True
    missing: ClassVar[str] = ""
    peer_messages: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("Collective ops is aborted", "from remote target"),
        ("BufRendezvous", "from remote target"),
    )
    op_prefix: ClassVar[str] = "Collective"
    has_own_connections: ClassVar[bool] = False

    def communicator(self, place: CollectivePlace) -> Communicator:
        """See the base class."""
        return Widened(_CollectiveCommunicator(place.world_size, place.step), SMALL, {**SMALL, "bfloat16": "float32"})

    def links(self, load: Load, sums: Mapping[str, float]) -> Links:
        """See the base class; rows are padded to one length on all hosts."""
        longest = padded_length(max(load.rows.values(), default=0.0))
        return super().links(replace(load, rows=dict.fromkeys(load.rows, float(longest))), sums)


def padded_length(length: float) -> int:
    """The number of rows after padding, at most a quarter more.

    Example:
        >>> [padded_length(rows) for rows in (0, 5, 8, 9, 1366)]
        [0, 5, 8, 10, 1536]
    """
    rows = -int(-length // 1)
    unit = 1 << max(rows.bit_length() - 3, 0)
    return -(-rows // unit) * unit


@final
@dataclass(frozen=True)
class _CollectiveCommunicator(Communicator):
    """TensorFlow finds the partners of a collective by numbers, which are derived from its name.

    All workers are one group, but each step has a group of its own: in a group, each number may only ever stand for one
    collective, and among all strategies that a search tries in one process, some names would collide.

    Attributes:
        world_size: Number of workers.
        step: Name of the compiled step: names repeat between steps, collectives must not.
    """

    world_size: int
    step: str

    def all_reduce(self, nodes: NodeList, name: str, tensor: str, dtype: str) -> str:
        """See the base class."""
        return self._reduce(nodes, name, tensor, dtype, self._keys(nodes, name))

    def all_reduce_varying(self, nodes: NodeList, name: str, tensor: str, dtype: str) -> str:
        """See the base class. A collective keeps the shape of its first run, so there is one for each size."""
        group_size, group_key, key = self._keys(nodes, name)
        size = nodes.add("Size", f"{name}/size", [tensor], T=dtype, out_type="int32")
        end = nodes.constant(f"{name}/instance_key/end", 2**31 - 1, "int32")
        room = nodes.add("Sub", f"{name}/instance_key/room", [end, size], T="int32")
        below = nodes.add("FloorMod", f"{name}/instance_key/below", [key, room], T="int32")
        instance = nodes.add("AddV2", f"{name}/instance_key/of_size", [below, size], T="int32")
        shape = nodes.add("Shape", f"{name}/shape", [tensor], T=dtype, out_type="int32")
        flat = nodes.reshape(f"{name}/flat", tensor, [-1], dtype)
        summed = self._reduce(nodes, f"{name}/sum", flat, dtype, [group_size, group_key, instance])
        return nodes.add("Reshape", name, [summed, shape], T=dtype, Tshape="int32")

    def all_gather(self, nodes: NodeList, name: str, tensor: str, dtype: str) -> str:
        """See the base class."""
        return self.all_gather_rows(nodes, [name], [tensor], [dtype])[0]

    def all_gather_rows(
        self, nodes: NodeList, names: Sequence[str], tensors: Sequence[str], dtypes: Sequence[str]
    ) -> list[str]:
        """See the base class.

        TensorFlow gathers only equal shapes, so all workers pad to one length and drop the padding afterwards. A
        collective keeps the shape of its first run, so there is one for each length in a table. The workers' numbers of
        rows are gathered once for all tensors.
        """
        shapes = [
            nodes.add("Shape", f"{name}/shape", [tensor], T=dtype, out_type="int32")
            for name, tensor, dtype in zip(names, tensors, dtypes, strict=True)
        ]
        first = names[0]
        count = _row_count(nodes, first, shapes[0])
        counts = self._gather(nodes, f"{first}/counts", count, "int32", self._keys(nodes, f"{first}/counts"))
        position, length = _padded_length(nodes, first, counts)
        rows = _real_rows(nodes, first, counts, length)
        found = []
        for name, tensor, dtype, shape in zip(names, tensors, dtypes, shapes, strict=True):
            padded = _padded(nodes, name, tensor, dtype, shape, count, length)
            gathered = self._gather(nodes, f"{name}/padded_all", padded, dtype, self._keys_at(nodes, name, position))
            found.append(_pick(nodes, name, gathered, rows, dtype, "int64"))
        return found

    def all_gather_even(self, nodes: NodeList, name: str, tensor: str, dtype: str) -> str:
        """See the base class."""
        return self._gather(nodes, name, tensor, dtype, self._keys(nodes, name))

    def _reduce(self, nodes: NodeList, name: str, tensor: str, dtype: str, keys: list[str]) -> str:
        return nodes.add(
            "CollectiveReduceV2",
            name,
            [tensor, *keys],
            T=dtype,
            merge_op="Add",
            final_op="Id",
            communication_hint="ring",
            Nordering_token=0,
            max_subdivs_per_device=-1,
        )

    def _gather(self, nodes: NodeList, name: str, tensor: str, dtype: str, keys: list[str]) -> str:
        return nodes.add(
            "CollectiveGatherV2", name, [tensor, *keys], T=dtype, communication_hint="ring", Nordering_token=0
        )

    def _keys(self, nodes: NodeList, name: str) -> list[str]:
        return [
            nodes.constant(f"{name}/group_size", self.world_size, "int32"),
            nodes.constant(f"{name}/group_key", _key(self.step), "int32"),
            nodes.constant(f"{name}/instance_key", self._instance_key(name), "int32"),
        ]

    def _instance_key(self, name: str) -> int:
        return _key(f"{self.step}/{name}")

    def _keys_at(self, nodes: NodeList, name: str, position: str) -> list[str]:
        """The keys of the collective that has the length at this position of the table."""
        instances = [self._instance_key(f"{name}/{length}") for length in _LENGTHS]
        table = nodes.constant(f"{name}/instances", instances, "int32")
        instance = _pick(nodes, f"{name}/instance/vector", table, position, "int32", "int32")
        group_size, group_key, _ = self._keys(nodes, f"{name}/padded_all")
        return [group_size, group_key, nodes.reshape(f"{name}/instance", instance, [], "int32")]


def _row_count(nodes: NodeList, name: str, shape: str) -> str:
    """The length of dim 0, as a vector of length 1."""
    begin = nodes.constant(f"{name}/shape/begin", [0], "int32")
    size = nodes.constant(f"{name}/shape/size", [1], "int32")
    return nodes.add("Slice", f"{name}/count", [shape, begin, size], T="int32", Index="int32")


def _padded_length(nodes: NodeList, name: str, counts: str) -> tuple[str, str]:
    """The position and the value of the first length in the table that is enough for all; vectors of length 1."""
    dim = nodes.constant(f"{name}/counts/dim", 0, "int32")
    longest = nodes.add("Max", f"{name}/longest", [counts, dim], T="int32", Tidx="int32", keep_dims=True)
    wanted = nodes.reshape(f"{name}/longest/matrix", longest, [1, 1], "int32")
    lengths = nodes.constant(f"{name}/lengths", [_LENGTHS], "int32")
    found = nodes.add("LowerBound", f"{name}/position/matrix", [lengths, wanted], T="int32", out_type="int32")
    position = nodes.reshape(f"{name}/position", found, [1], "int32")
    row = nodes.constant(f"{name}/lengths/row", _LENGTHS, "int32")
    return position, _pick(nodes, f"{name}/length", row, position, "int32", "int32")


def _padded(nodes: NodeList, name: str, tensor: str, dtype: str, shape: str, count: str, length: str) -> str:
    """The tensor with zero rows added up to a length."""
    missing = nodes.add("Sub", f"{name}/missing", [length, count], T="int32")
    begin = nodes.constant(f"{name}/tail/begin", [1], "int32")
    rest = nodes.constant(f"{name}/tail/size", [-1], "int32")
    tail = nodes.add("Slice", f"{name}/tail", [shape, begin, rest], T="int32", Index="int32")
    zeros = nodes.concat(f"{name}/padding/shape", [missing, tail], "int32")
    zero = nodes.constant(f"{name}/zero", 0, dtype)
    padding = nodes.add("Fill", f"{name}/padding", [zeros, zero], T=dtype, index_type="int32")
    return nodes.concat(f"{name}/padded", [tensor, padding], dtype)


def _real_rows(nodes: NodeList, name: str, counts: str, length: str) -> str:
    """The numbers of the gathered rows without padding: row k of a worker is real if k is less than its count."""
    zero = nodes.constant(f"{name}/mask/zero", 0, "int32")
    one = nodes.constant(f"{name}/mask/one", 1, "int32")
    end = nodes.reshape(f"{name}/length/scalar", length, [], "int32")
    numbers = nodes.add("Range", f"{name}/mask/range", [zero, end, one], Tidx="int32")
    column = nodes.reshape(f"{name}/mask/counts", counts, [-1, 1], "int32")
    less = nodes.add("Less", f"{name}/mask/matrix", [numbers, column], T="int32")
    mask = nodes.reshape(f"{name}/mask", less, [-1], "bool")
    where = nodes.add("Where", f"{name}/where", [mask], T="bool")
    return nodes.reshape(f"{name}/rows", where, [-1], "int64")


def _key(name: str) -> int:
    # Stable over workers and runs, unlike hash(); 31 bits, because TensorFlow's keys are int32.
    return zlib.crc32(name.encode()) & 0x7FFFFFFF


def _pick(nodes: NodeList, name: str, tensor: str, rows: str, dtype: str, row_dtype: str) -> str:
    """Rows of a tensor by their numbers."""
    dim = nodes.constant(f"{name}/dim", 0, "int32")
    return nodes.add(
        "GatherV2", name, [tensor, rows, dim], Tparams=dtype, Tindices=row_dtype, Taxis="int32", batch_dims=0
    )
