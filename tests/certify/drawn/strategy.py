"""Strategies drawn from a seed: any sentence of the representation, within reach of being right."""

import random
from dataclasses import dataclass
from typing import ClassVar

from autodist.strategies import (
    AllReduceSynchronizer,
    BroadcastSynchronizer,
    GraphConfig,
    PSSynchronizer,
    ShardConfig,
    Strategy,
    StrategyBuilder,
    TileSynchronizer,
    VariableConfig,
    can_tile,
    verify,
)

FAMILIES = ("servers", "collectives")
ATTEMPTS = 500


@dataclass(frozen=True)
class Drawn(StrategyBuilder):
    """The first drawn strategy that `verify` lets pass; variables that it complains of are drawn again."""

    name: ClassVar[str] = "Drawn"
    seed: int = 0
    family: str = "servers"

    def build(self, graph, spec):
        chance = random.Random(f"strategy {self.seed} {self.family}")
        draw = Draw(chance, graph, spec, self.family, Tiles(random.Random(f"tiles {self.seed}"), graph))
        for refused in range(ATTEMPTS):
            strategy = draw.strategy(str(self))
            problems = verify(strategy, graph, spec)
            if not problems:
                print(f"drawn strategy {strategy.id} after {refused} refused", flush=True)
                return strategy
            draw.forget({problem.variable for problem in problems})
        raise AssertionError(f"{ATTEMPTS} strategies refused, the last because of {problems}")


class Draw:
    """One draw; what the parts of a strategy have to agree in is drawn first."""

    def __init__(self, chance, graph, spec, family, tiles):
        self.chance = chance
        self.tiles = tiles
        self.graph = graph
        self.spec = spec
        self.servers = family == "servers"
        self.carriers = ["horovod", "tcp"] if self.servers else ["horovod", "collective", "tcp"]
        self.devices = [device.name for device in spec.devices]
        self.groups = {}
        self.units = {}
        self.configs = {}

    def forget(self, variables):
        """Draw these again next time; all, if it is about the strategy as a whole."""
        if None in variables:
            self.groups, self.units, self.configs = {}, {}, {}
        self.tiles.forget(variables)
        for name in variables & self.configs.keys():
            coupled = self.graph.variable(name).coupled or (name,)
            self.units.pop(min(coupled), None)
            for other in coupled:
                self.configs.pop(other, None)

    def strategy(self, builder):
        for variable in self.graph.trainable:
            if variable.name not in self.configs:
                self.configs[variable.name] = self.config(variable)
        communicator, replicas = self.chance.choice(self.carriers), self.replicas()
        tiled = self.tiles.configs(replicas) if self.servers else {}
        configs = tuple({**self.configs, **tiled}[variable.name] for variable in self.graph.trainable)
        return Strategy(GraphConfig(replicas, "tcp" if tiled else communicator), configs, builder=builder)

    def replicas(self):
        """All devices, or on every host at least one."""
        chosen = []
        for host in self.spec.hosts:
            names = [device.name for device in host.replica_devices]
            count = len(names) if self.chance.random() < 0.7 else self.chance.randint(1, len(names))
            chosen += names[:count]
        return tuple(chosen)

    def config(self, variable):
        if len(variable.coupled) > 1 and self.chance.random() < 0.95:
            unit = min(variable.coupled)
            if unit not in self.units:
                self.units[unit] = self.synchronizer(variable, allow_broadcast=False)
            synchronizer = self.units[unit]
            if isinstance(synchronizer, AllReduceSynchronizer):
                synchronizer = self.all_reduce(variable)
            return VariableConfig.whole(variable.name, synchronizer)
        partition = self.partition(variable) if self.chance.random() < 0.5 else None
        count = 1
        for parts in partition or ():
            count *= parts if isinstance(parts, int) else len(parts)
        shards = tuple(self.shard(variable, partition is None) for _ in range(count))
        return VariableConfig(variable.name, shards, partition)

    def partition(self, variable):
        """In two parts of three, a dim stays whole."""
        return tuple(self.parts(size) if self.chance.random() < 0.4 else 1 for size in variable.shape) or None

    def parts(self, size):
        count = self.chance.randint(1, max(1, min(3, size)))
        if self.chance.random() < 0.5:
            return count
        ends = sorted(self.chance.sample(range(1, size), count - 1)) if size > 1 else []
        return tuple(end - begin for begin, end in zip([0, *ends], [*ends, size], strict=True))

    def shard(self, variable, is_whole):
        synchronizer = self.synchronizer(variable, allow_broadcast=is_whole)
        servers = isinstance(synchronizer, PSSynchronizer)
        factors = is_whole and servers and len(variable.shape) == 2 and self.chance.random() < 0.2
        return ShardConfig(synchronizer, "SufficientFactors" if factors else None)

    def synchronizer(self, variable, *, allow_broadcast):
        if allow_broadcast and len(variable.shape) == 2 and self.chance.random() < 0.2:
            return BroadcastSynchronizer(self.chance.choice(self.carriers))
        if self.servers and self.chance.random() < 0.7:
            return PSSynchronizer(
                self.chance.choice(self.devices),
                local_proxy=self.chance.random() < 0.25,
                transfer=self.transfer() if self.chance.random() < 0.3 else (),
            )
        return self.all_reduce(variable)

    def transfer(self):
        hosts = [host for host in self.spec.hosts if len(host.replica_devices) > 1]
        return tuple(self.chance.choice(host.replica_devices).name for host in hosts)

    def all_reduce(self, variable):
        """In a group of its own, or in one that fits."""
        carrier = self.chance.choice(self.carriers)
        key = (variable.dtype, carrier, variable.name if variable.is_sparse else "")
        fitting = self.groups.setdefault(key, [])
        if not fitting or self.chance.random() < 0.3:
            fitting.append(sum(map(len, self.groups.values())))
        return AllReduceSynchronizer(self.chance.choice(fitting), carrier)


class Tiles:
    """Which variables of every second program are tiled, and along which dim."""

    def __init__(self, chance, graph):
        self.chance = chance
        self.graph = graph
        self.refused = set()
        self.are_drawn = chance.random() < 0.5

    def forget(self, variables):
        """Leave these whole; all, if it is about the strategy as a whole."""
        self.refused |= variables
        self.are_drawn &= None not in variables

    def configs(self, replicas):
        found = {}
        for variable in self.graph.trainable if self.are_drawn else ():
            dims = [d for d in range(len(variable.shape)) if can_tile(self.graph, variable.name, d, len(replicas))]
            if dims and variable.name not in self.refused and self.chance.random() < 0.6:
                cut = self.chance.choice(dims)
                parts = tuple(len(replicas) if dim == cut else 1 for dim in range(len(variable.shape)))
                shards = tuple(ShardConfig(TileSynchronizer(device)) for device in replicas)
                found[variable.name] = VariableConfig(variable.name, shards, parts)
        return found
