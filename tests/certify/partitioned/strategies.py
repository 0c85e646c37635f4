"""Strategies that cut every variable which can be cut, by hand: no builder says all that can be said."""

import itertools
from dataclasses import dataclass
from typing import ClassVar

from autodist.strategies import (
    AllReduceSynchronizer,
    GraphConfig,
    PSSynchronizer,
    ShardConfig,
    Strategy,
    StrategyBuilder,
    VariableConfig,
    num_shards,
)

LAYINGS = ("servers", "collective", "horovod", "mixed")


@dataclass(frozen=True)
class InParts(StrategyBuilder):
    """Cuts all that can be cut along all dims; where the shards go is the laying."""

    name: ClassVar[str] = "InParts"
    laying: str = "servers"

    def build(self, graph, spec):
        kinds = synchronizers(self.laying, spec)
        configs = []
        for variable in graph.trainable:
            partition = None if graph.update_regions.of(variable.name).obstacles else cut(variable.shape)
            shards = [ShardConfig(next(kinds)) for _ in range(num_shards(partition))]
            configs.append(VariableConfig(variable.name, tuple(shards), partition))
        replicas = tuple(device.name for device in spec.replicas)
        communicator = {"servers": "tcp", "mixed": "tcp"}.get(self.laying, self.laying)
        return Strategy(GraphConfig(replicas, communicator), tuple(configs), builder=str(self))


def cut(shape):
    """Rows in uneven parts (the last is the smallest), columns in even ones that may differ by one."""
    if not shape or shape == (1,):
        return None
    rows = (shape[0] - shape[0] // 3, shape[0] // 3) if shape[0] > 2 else 1
    return (rows, *(2 if size > 1 else 1 for size in shape[1:]))


def synchronizers(laying, spec):
    """One synchronizer after another."""
    servers = itertools.cycle(host.cpu_devices[0].name for host in spec.hosts)
    for number in itertools.count():
        if laying == "servers" or (laying == "mixed" and number % 3):
            yield PSSynchronizer(next(servers))
        else:
            yield AllReduceSynchronizer(number, communicator="horovod" if laying == "mixed" else laying)
