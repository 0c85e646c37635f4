"""Many strategies at once, as arrays: sampled, scored and crossed without making any of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from autodist.carriers import carrier_of_servers
from autodist.search.space._catalogue import Catalogue, spans
from autodist.search.space._configs import configs_of
from autodist.simulator import SERVER, Ints, ShardTable
from autodist.strategies import GraphConfig, Strategy, VariableConfig

if TYPE_CHECKING:
    from autodist.search.space._space import Space
    from autodist.search.space.aspects import Choice

Mask: TypeAlias = "npt.NDArray[np.bool_]"
_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Proposals:
    """Strategies of a space.

    Attributes:
        choices: For each proposal and unit, the number of the choice in the catalogue; shape (proposals, units).
        table: Their shards, in the units' order, with servers and groups.
    """

    choices: Ints
    table: ShardTable

    @classmethod
    def of(cls, choices: Ints, catalogue: Catalogue) -> Proposals:
        """The proposals of these choices; their servers and groups are still to be set."""
        flat = choices.ravel()
        counts = catalogue.counts[flat]
        table = catalogue.shards.take(spans(catalogue.begins[flat], counts))
        owners = np.repeat(np.arange(len(choices), dtype=np.int32), counts.reshape(choices.shape).sum(1))
        return cls(choices, table.replaced(strategy=owners))

    def __len__(self) -> int:
        return len(self.choices)

    def replaced(self, **columns: Ints) -> Proposals:
        """The same with other columns of the table, such as servers."""
        return Proposals(self.choices, self.table.replaced(**columns))

    def take(self, numbers: Ints) -> Proposals:
        """The proposals of these numbers, in this order."""
        begins = np.searchsorted(self.table.strategy, np.arange(len(self) + 1))
        counts = begins[numbers + 1] - begins[numbers]
        table = self.table.take(spans(begins[numbers], counts))
        owners = np.repeat(np.arange(len(numbers), dtype=np.int32), counts)
        taken = Proposals(self.choices[numbers], table.replaced(strategy=owners))
        if "fingerprints" in self.__dict__:  # these need not be computed again
            taken.__dict__["fingerprints"] = self.fingerprints[numbers]
        return taken

    @classmethod
    def joined(cls, several: Sequence[Proposals]) -> Proposals:
        """All of these, one after the other."""
        offsets = np.cumsum([0, *(len(one) for one in several)])
        tables = [
            one.table.replaced(strategy=one.table.strategy + np.int32(offset))
            for one, offset in zip(several, offsets, strict=False)
        ]
        joined = cls(np.concatenate([one.choices for one in several]), ShardTable.joined(tables))
        if all("fingerprints" in one.__dict__ for one in several):
            joined.__dict__["fingerprints"] = np.concatenate([one.fingerprints for one in several])
        return joined

    def crossed(self, other: Proposals, from_other: Mask, catalogue: Catalogue) -> Proposals:
        """Children with some units of the other parents, which are as many.

        Args:
            other: The second parents.
            from_other: For each child and unit, whether it is the second parent's; shape (proposals, units).
            catalogue: Catalogue of the space.
        """
        choices = np.where(from_other, other.choices, self.choices)
        starts = [parent.starts(catalogue) for parent in (self, other)]
        begins = np.where(from_other, starts[1] + len(self.table), starts[0]).ravel()
        counts = catalogue.counts[choices].ravel()
        table = ShardTable.joined([self.table, other.table]).take(spans(begins, counts))
        owners = np.repeat(np.arange(len(self), dtype=np.int32), catalogue.counts[choices].sum(1))
        return Proposals(choices, table.replaced(strategy=owners))

    def starts(self, catalogue: Catalogue) -> Ints:
        """The first shard of each unit, by proposal."""
        counts = catalogue.counts[self.choices]
        ends = np.cumsum(counts).reshape(counts.shape)
        return (ends - counts).astype(np.int32)

    def shards_of(self, units: Mask, catalogue: Catalogue) -> Mask:
        """By shard, whether it belongs to one of these units, which are given by proposal and unit."""
        return np.repeat(units.ravel(), catalogue.counts[self.choices].ravel())

    @cached_property
    def fingerprints(self) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        """A hash of each proposal; equal proposals have the same."""
        table = self.table
        values = np.stack([table.variable, table.kind, table.server, table.group, table.size_bytes.view(np.int32)], 1)
        mixed = _mixed(values.astype(np.uint64))
        found = np.zeros(len(self), np.uint64)
        np.add.at(found, table.strategy, mixed)
        return found + _mixed(self.choices.astype(np.uint64))

    def strategy(self, number: int, space: Space, catalogue: Catalogue, builder: str = "search") -> Strategy:
        """One of the proposals, as a :class:`Strategy`."""
        shards = self.table.take(self.table.strategy == number)
        configs: list[VariableConfig] = []
        for unit, choice, first in zip(space.units, self.choices[number], catalogue.first, strict=False):
            numbers = [space.domain.number_of[variable.name] for variable in unit.variables]
            own = [shards.take(shards.variable == variable) for variable in numbers]
            servers = [part.server.tolist() for part in own]
            groups = [np.maximum(part.group, 0).tolist() for part in own]
            configs += configs_of(unit, unit.choices[choice - first], space.domain.spec, servers, groups)
        by_name = {config.variable: config for config in configs}
        ordered = tuple(by_name[variable.name] for variable in space.domain.graph.trainable)
        used = {c.communicator for c in self._chosen(number, space, catalogue)} - {None}
        communicator = used.pop() if used else carrier_of_servers()
        replicas = tuple(device.name for device in space.domain.spec.replicas)
        assert communicator is not None
        found = Strategy(GraphConfig(replicas, communicator), ordered)
        return replace(found, builder=f"{builder}: {found.mixture}")

    def _chosen(self, number: int, space: Space, catalogue: Catalogue) -> list[Choice]:
        return [
            unit.choices[choice - first]
            for unit, choice, first in zip(space.units, self.choices[number], catalogue.first, strict=False)
        ]

    @property
    def is_served(self) -> Mask:
        """By shard, whether it is on a server."""
        served: Mask = self.table.kind == SERVER
        return served


def _mixed(rows: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """A hash of each row."""
    found = np.zeros(len(rows), np.uint64)
    for column in rows.T:
        found = (found ^ column) * _ODD
        found ^= found >> np.uint64(29)
    return found
