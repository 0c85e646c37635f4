"""S: the representation of a strategy (thesis 7.3), its JSON and its identity."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeAlias

from autodist import carriers
from autodist.carriers import CarrierName, Collective, one_of
from autodist.errors import StrategyError
from autodist.registry import plain, raise_mistakes, read, shared, suggestion

__all__ = [
    "PACK_BYTES",
    "SCHEMA_VERSION",
    "AllReduceSynchronizer",
    "BroadcastSynchronizer",
    "Communicator",
    "GraphCommunicator",
    "GraphConfig",
    "PSSynchronizer",
    "ShardConfig",
    "Strategy",
    "Synchronizer",
    "VariableConfig",
    "is_factors",
]

SCHEMA_VERSION = 1
PACK_BYTES = 1 << 19
"""What builders pack beside servers: on links of 1 Gbit/s as good as any other size, or better."""

_FORMERLY = (("order", "ring"), ("order", "hierarchical"))
"""What an all-reduce says in older files and is passed over: it never changed what ran."""

_FACTORS = re.compile(r"\s*SufficientFactors\s*(\(\s*\)\s*)?")

Communicator: TypeAlias = CarrierName
GraphCommunicator: TypeAlias = Annotated[str, one_of(lambda carrier: True)]


@dataclass(frozen=True)
class PSSynchronizer:
    """(Reduce, Broadcast): the variable lives on one device, which gets the gradients and gives the value away.

    Thesis 7.3.2, synchronization and bridging models; the sparse form is (Gather, Scatter).

    Attributes:
        destination: The device that holds the variable and its slots and applies the update, ``"host:CPU:0"``.
        sync: Whether a step waits for the gradients of all replicas.
        staleness: How many steps the fastest worker may be ahead of the slowest, >= 0; 0 is bulk-synchronous.
        local_proxy: Whether every worker reads from a cached copy of its own.
        transfer: One device per host where gradients are summed and values fetched once for the whole host.

    """

    type: ClassVar[str] = "PS"
    destination: str
    sync: bool = True
    staleness: int = 0
    local_proxy: bool = False
    transfer: tuple[str, ...] = ()

    @property
    def is_relaxed(self) -> bool:
        """Whether a worker may go on before the others' gradients have been applied."""
        return not self.sync or self.staleness > 0


@dataclass(frozen=True)
class AllReduceSynchronizer:
    """(AllReduce): every replica's worker holds the variable and applies the same reduced gradient.

    Thesis 7.3.2, group; the sparse form is (AllGather). Over which structure it reduces, its reduction sequence, is the
    communicator's own matter: a ring of workers, or with AutoDist's own library each its part; replicas of a host are
    summed before.

    Attributes:
        group: Variables with one number travel in one buffer, >= 0.
        communicator: What carries the collective: Horovod, TensorFlow's own collectives, or AutoDist's own library.

    """

    type: ClassVar[str] = "AllReduce"
    group: int
    communicator: Communicator = Collective.name


@dataclass(frozen=True)
class BroadcastSynchronizer:
    """(Broadcast): sufficient factors go to every worker, each rebuilds the gradient from them (Poseidon).

    For gradients that are products over the batch, those of the weights of dense layers. Exact.

    Attributes:
        communicator: What carries the factors: Horovod, TensorFlow's own collectives, or AutoDist's own library.

    """

    type: ClassVar[str] = "Broadcast"
    communicator: Communicator = Collective.name


Synchronizer: TypeAlias = PSSynchronizer | AllReduceSynchronizer | BroadcastSynchronizer


@dataclass(frozen=True)
class ShardConfig:
    """How one shard of a variable is synchronized.

    Attributes:
        synchronizer: One of the three.
        compressor: Name of the encoder and decoder of its messages; None sends them as they are.

    """

    synchronizer: Synchronizer
    compressor: str | None = None


def is_factors(compressor: str | None) -> bool:
    """Whether a compressor's text is that of :class:`~autodist.compressors.SufficientFactors`.

    Example:
        >>> is_factors("SufficientFactors()"), is_factors("FP16")
        (True, False)

    """
    return compressor is not None and _FACTORS.fullmatch(compressor) is not None


@dataclass(frozen=True)
class VariableConfig:
    """The node config of thesis 7.3.2: one trainable variable's partition and its shards.

    Attributes:
        variable: Its name in G.
        shards: One config per shard in row-major order; exactly one for a variable that is not partitioned.
        partition: Per dim, either into how many even parts or the explicit sizes; None leaves it whole. Even parts of
            a dim that does not divide evenly are those of ``numpy.array_split``: the first have one element more.

    Example:
        >>> VariableConfig.whole("w", PSSynchronizer("a:CPU:0")).synchronizer.destination
        'a:CPU:0'

    """

    variable: str
    shards: tuple[ShardConfig, ...]
    partition: tuple[tuple[int, ...] | int, ...] | None = None

    @classmethod
    def whole(cls, variable: str, synchronizer: Synchronizer, compressor: str | None = None) -> VariableConfig:
        """Return the config of a variable that is not partitioned."""
        return cls(variable, (ShardConfig(synchronizer, compressor),))

    @property
    def synchronizer(self) -> Synchronizer:
        """The first shard's synchronizer: the only one of a variable that is not partitioned."""
        return self.shards[0].synchronizer

    @property
    def is_factored(self) -> bool:
        """Whether sufficient factors travel in the place of its gradient: by Broadcast, or as an encoder."""
        broadcast = any(isinstance(shard.synchronizer, BroadcastSynchronizer) for shard in self.shards)
        return broadcast or any(is_factors(shard.compressor) for shard in self.shards)


@dataclass(frozen=True)
class GraphConfig:
    """The graph config of thesis 7.3.1.

    Attributes:
        replicas: The devices that each hold a copy of G; the batch is split in this order.
        communicator: What carries the small per-step state: batch size, loss, metrics. ``queue`` is queues on the
            chief's TensorFlow server; next to parameter servers it takes the place of ``collective``. ``tcp`` also
            carries what servers get and give.
        pack_bytes: Up to this size, gradients that a worker sends to one server share messages, and so do values that
            it reads there; with it, values of any size come once for all reads that wait for nothing. None if each
            travels alone. Not where staleness lets workers go on.

    """

    replicas: tuple[str, ...]
    communicator: GraphCommunicator
    pack_bytes: int | None = None

    @classmethod
    def packing(
        cls,
        replicas: tuple[str, ...],
        communicator: GraphCommunicator,
        variables: Iterable[VariableConfig],
        pack_bytes: int | None = PACK_BYTES,
    ) -> GraphConfig:
        """Return the config of these variables' graph that packs what servers get and give, if there are any."""
        packs = _have_servers(variables) and not cls(replicas, communicator).has_streams
        return cls(replicas, communicator, pack_bytes if packs else None)

    @property
    def has_streams(self) -> bool:
        """Whether what servers get and give goes from worker to worker by AutoDist's own library."""
        carrier = carriers.find(self.communicator)
        return carrier is not None and carrier.has_streams


@dataclass(frozen=True)
class Strategy:
    """S: for every trainable variable of G how it is synchronized, and where the replicas are (thesis 7.3).

    Two strategies are equal if they say the same, whoever built them.

    Attributes:
        graph: What holds for the whole graph.
        variables: One config per trainable variable.
        builder: Who built it with which parameters; for people only.

    Example:
        >>> config = VariableConfig.whole("w", AllReduceSynchronizer(group=0))
        >>> strategy = Strategy(GraphConfig(("a:CPU:0", "b:CPU:0"), "collective"), (config,), builder="by hand")
        >>> Strategy.from_json(strategy.to_json()) == strategy
        True
        >>> strategy.groups
        {0: ('w',)}

    """

    graph: GraphConfig
    variables: tuple[VariableConfig, ...]
    builder: str = field(default="", compare=False)

    def config(self, variable: str) -> VariableConfig:
        """Return the config of the variable of this name.

        Raises:
            StrategyError: If the strategy has none.

        """
        if variable not in self._by_name:
            near = suggestion(variable, self._by_name)
            raise StrategyError(f"the strategy has no config for the variable `{variable}`{near}")
        return self._by_name[variable]

    @functools.cached_property
    def _by_name(self) -> dict[str, VariableConfig]:
        return {config.variable: config for config in self.variables}

    @property
    def has_servers(self) -> bool:
        """Whether any shard lives on a parameter server."""
        return _have_servers(self.variables)

    @property
    def is_relaxed(self) -> bool:
        """Whether any worker may be ahead of the others."""
        synchronizers = (shard.synchronizer for config in self.variables for shard in config.shards)
        return any(isinstance(s, PSSynchronizer) and s.is_relaxed for s in synchronizers)

    @property
    def carriers(self) -> tuple[str, ...]:
        """Names of everything that carries collectives of the strategy, in alphabetical order."""
        shards = (shard.synchronizer for config in self.variables for shard in config.shards)
        used = {s.communicator for s in shards if not isinstance(s, PSSynchronizer)}
        return tuple(sorted({*used, self.graph.communicator}))

    @property
    def groups(self) -> dict[int, tuple[str, ...]]:
        """The variables of each all-reduce group, groups in ascending order, members in the strategy's order."""
        members: dict[int, dict[str, None]] = {}
        for config in self.variables:
            for shard in config.shards:
                if isinstance(shard.synchronizer, AllReduceSynchronizer):
                    members.setdefault(shard.synchronizer.group, {})[config.variable] = None
        return {group: tuple(members[group]) for group in sorted(members)}

    @functools.cached_property
    def id(self) -> str:
        """Hash of the content, the builder's text aside: the same in every process and on every machine."""
        content = {"graph": plain(self.graph), "variables": plain(self.variables)}
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]

    def to_json(self) -> str:
        """Readable JSON that :meth:`from_json` reads back."""
        return json.dumps({"schema_version": SCHEMA_VERSION, "builder": self.builder} | plain(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Strategy:
        """Return the strategy of the JSON text.

        Raises:
            StrategyError: Lists every unknown, missing, doubled or ill-typed key; or the schema is a newer one.

        """
        mistakes: list[str] = []
        content = _content(text, mistakes)
        strategy = read(cls, content, "", mistakes)
        raise_mistakes("the strategy's JSON", mistakes)
        assert isinstance(strategy, Strategy)
        return strategy

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the JSON file, whole or not at all."""
        from autodist.documents import whole_file  # brings YAML, which few need

        with whole_file(path) as draft:
            draft.write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Strategy:
        """Read a file that :meth:`save` (or a person) wrote.

        Raises:
            StrategyError: If it can't be read, or for the reasons of :meth:`from_json`; names the file.

        """
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:  # a ValueError also of a name with a null character
            told = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else str(error)
            reason = getattr(error, "strerror", None) or told
            raise StrategyError(f"the strategy file `{os.fspath(path)}` can't be read: {reason}") from error
        try:
            return cls.from_json(text)
        except StrategyError as error:
            raise StrategyError(f"`{os.fspath(path)}`: {error.message}", hint=error.hint) from error


def _have_servers(variables: Iterable[VariableConfig]) -> bool:
    shards = (shard for config in variables for shard in config.shards)
    return any(isinstance(shard.synchronizer, PSSynchronizer) for shard in shards)


def _content(text: str, mistakes: list[str]) -> Any:
    """Return the JSON object without its schema version, checked first: a newer file's other keys mean nothing."""
    one_of = shared()

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if ("type", AllReduceSynchronizer.type) in pairs:
            pairs = [pair for pair in pairs if pair not in _FORMERLY]
        found = one_of(pairs)
        if len(found) < len(pairs):
            keys = [key for key, _ in pairs]
            doubled = [key for key in found if keys.count(key) > 1]
            mistakes.extend(f"`{key}` is given twice in one object" for key in doubled)
        return found

    try:
        content = json.loads(text, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise StrategyError(f"the strategy's JSON can't be parsed: {error}") from error
    if not isinstance(content, dict):
        raise StrategyError(f"the strategy's JSON is {type(content).__name__}, allowed: one object")
    _check_version(content.pop("schema_version", None), mistakes)
    return content


def _check_version(version: Any, mistakes: list[str]) -> None:
    if type(version) is int and version > SCHEMA_VERSION:
        raise StrategyError(
            f"the strategy's JSON has `schema_version` {version}, allowed: up to {SCHEMA_VERSION}",
            hint="it was written by a newer AutoDist: upgrade this one",
        )
    if type(version) is not int or version < 1:
        mistakes.append(f"`schema_version` is {version!r}, allowed: {SCHEMA_VERSION}")
