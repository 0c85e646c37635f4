"""Makes configs of variables from a choice with servers and groups."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from autodist.carriers import carrier_of_servers
from autodist.strategies import (
    GraphConfig,
    ShardConfig,
    Strategy,
    VariableConfig,
    kind_of,
    num_shards,
)

if TYPE_CHECKING:
    from autodist.resource_spec import ResourceSpec
    from autodist.search.space._space import Unit
    from autodist.search.space.aspects import Choice


def configs_of(
    unit: Unit,
    choice: Choice,
    spec: ResourceSpec,
    servers: Sequence[Sequence[int]] = (),
    groups: Sequence[Sequence[int]] = (),
) -> Iterator[VariableConfig]:
    """The configs of a unit's variables.

    Args:
        unit: The variables.
        choice: The choice for them.
        spec: D.
        servers: By variable, the rank of each shard's server; by default the chief's.
        groups: By variable, the group of each shard; by default 0.
    """
    kinds = choice.by_shard or (choice.synchronizer,) * num_shards(choice.partition)
    stations = tuple(h.cpu_devices[0].name for h in spec.hosts if choice.transfer and len(h.replica_devices) > 1)
    nothing = [[0] * num_shards(choice.partition)] * len(unit.variables)

    @functools.cache  # many shards of a variable are equal
    def shard(kind: str, rank: int, number: int) -> ShardConfig:
        home = spec.hosts[rank].cpu_devices[0].name
        return ShardConfig(kind_of(kind).of_choice(choice, home, number, stations), choice.compressor)

    for variable, ranks, numbers in zip(unit.variables, servers or nothing, groups or nothing, strict=True):
        yield VariableConfig(variable.name, tuple(map(shard, kinds, ranks, numbers)), choice.partition)


def strategies_of_choices(units: Sequence[Unit], spec: ResourceSpec) -> Iterator[tuple[int, Strategy]]:
    """Strategies that together have every choice of every unit once, each with the number of its choices.

    None of them has choices that exclude each other, but variables are missing in all.
    """
    replicas = tuple(device.name for device in spec.replicas)
    for number in range(max((len(unit.choices) for unit in units), default=0)):
        having = [unit for unit in units if number < len(unit.choices)]
        for communicator in dict.fromkeys(unit.choices[number].communicator for unit in having):
            alike = [unit for unit in having if unit.choices[number].communicator == communicator]
            configs = [config for unit in alike for config in configs_of(unit, unit.choices[number], spec)]
            yield number, Strategy(GraphConfig(replicas, communicator or carrier_of_servers()), tuple(configs))
