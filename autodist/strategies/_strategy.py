"""S: the representation of a strategy (thesis 7.3), its JSON and its identity."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar

from autodist import carriers
from autodist.carriers import CarrierName, one_of
from autodist.errors import StrategyError
from autodist.registry import Tagged, plain, raise_mistakes, read, shared, suggestion
from autodist.strategies.synchronizers import AllReduceSynchronizer, Synchronizer, TileSynchronizer, synchronizers

SCHEMA_VERSION = 1
_WITHOUT_FILE = (
    "`autodist search SCRIPT --out FILE` makes such a file; `autodist strategies` lists the strategies that need none"
)
PACK_BYTES = 1 << 19
"""Values up to this many bytes share messages; on links of 1 Gbit/s no other size was better."""

_FORMERLY = (("order", "ring"), ("order", "hierarchical"))
"""Keys and values of an all-reduce in older files that are ignored: they never had an effect."""

_FACTORS = re.compile(r"\s*SufficientFactors\s*(\(\s*\)\s*)?")

Communicator: TypeAlias = CarrierName
S = TypeVar("S", bound=Synchronizer)

GraphCommunicator: TypeAlias = Annotated[str, one_of(lambda carrier: True, reads_former=True)]
"""The name of a carrier of small state; earlier versions' records may have others, which verification refuses."""


@dataclass(frozen=True)
class ShardConfig:
    """How one shard of a variable is synchronized.

    Attributes:
        synchronizer: How workers agree on its value.
        compressor: Name of the encoder and decoder of its messages; None sends them as they are.
    """

    synchronizer: Annotated[Synchronizer, Tagged(synchronizers)]
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
        >>> from autodist.strategies import PSSynchronizer
        >>> VariableConfig.whole("w", PSSynchronizer("a:CPU:0")).synchronizer.home
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
    def kinds(self) -> str:
        """The kinds of its shards' synchronizers, in words: ``PS``, or ``PS and AllReduce``."""
        names = (type(shard.synchronizer).__name__.removesuffix("Synchronizer") for shard in self.shards)
        return " and ".join(dict.fromkeys(names))

    @property
    def is_factored(self) -> bool:
        """Whether sufficient factors travel instead of its gradient: by the synchronizer, or as an encoder."""
        return any(shard.synchronizer.sends_factors or is_factors(shard.compressor) for shard in self.shards)

    def in_buffers_from(self, first: int) -> VariableConfig:
        """The same, as part of a strategy whose buffers have numbers below `first`: its own come behind these."""
        shards = []
        for shard in self.shards:
            number = shard.synchronizer.group_number
            moved = shard.synchronizer if number is None else shard.synchronizer.in_group(first + number)
            shards.append(replace(shard, synchronizer=moved))
        return replace(self, shards=tuple(shards))


@dataclass(frozen=True)
class GraphConfig:
    """The graph config of thesis 7.3.1.

    Attributes:
        replicas: The devices that each hold a copy of G; the batch is split in this order.
        communicator: What carries the small per-step state: batch size, loss, metrics. Next to parameter servers it
            is ``tcp``, which also carries what they get and give.
        pack_bytes: In records of earlier versions: the size in bytes up to which a server's messages were joined.
    """

    replicas: tuple[str, ...]
    communicator: GraphCommunicator
    pack_bytes: int | None = None

    @property
    def has_streams(self) -> bool:
        """Whether messages to and from servers go from worker to worker, as in all but records of earlier versions."""
        carrier = carriers.find(self.communicator)
        return carrier is not None and carrier.has_streams


@dataclass(frozen=True)
class Strategy:
    """S: for every trainable variable of G how it is synchronized, and where the replicas are (thesis 7.3).

    Two strategies are equal if they say the same, whatever built them.

    Attributes:
        graph: The settings for the whole graph.
        variables: One config per trainable variable.
        builder: The builder and its parameters; for people only.

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
    def synchronizers(self) -> Iterator[tuple[str, Synchronizer]]:
        """For each shard, the name of its variable and its synchronizer."""
        return ((config.variable, shard.synchronizer) for config in self.variables for shard in config.shards)

    def synchronized_by(self, kind: type[S]) -> Iterator[tuple[str, S]]:
        """For each shard that has a synchronizer of a kind, the name of its variable, and this synchronizer."""
        return ((variable, found) for variable, found in self.synchronizers if isinstance(found, kind))

    @property
    def has_servers(self) -> bool:
        """Whether any shard lives on a parameter server."""
        return any(synchronizer.home is not None for _, synchronizer in self.synchronizers)

    @property
    def has_tiles(self) -> bool:
        """Whether replicas compute with parts of any variable."""
        return any(synchronizer.tiled_for is not None for _, synchronizer in self.synchronizers)

    @property
    def groups_of_replicas(self) -> int:
        """Into how many groups replicas fall, each of which has all parts of tiled variables."""
        return max((tile.groups for _, tile in self.synchronized_by(TileSynchronizer)), default=1)

    @property
    def is_asynchronous(self) -> bool:
        """Whether any worker may be ahead of the others."""
        return any(synchronizer.is_asynchronous for _, synchronizer in self.synchronizers)

    @property
    def carriers(self) -> tuple[str, ...]:
        """Names of everything that carries collectives of the strategy, in alphabetical order."""
        used = (synchronizer.carrier for _, synchronizer in self.synchronizers)
        return tuple(sorted({*filter(None, used), self.graph.communicator}))

    @property
    def groups(self) -> dict[int, tuple[str, ...]]:
        """The variables of each all-reduce group, groups in ascending order, members in the strategy's order."""
        members: dict[int, dict[str, None]] = {}
        for variable, synchronizer in self.synchronizers:
            if synchronizer.group_number is not None:
                members.setdefault(synchronizer.group_number, {})[variable] = None
        return {group: tuple(members[group]) for group in sorted(members)}

    @property
    def free_group(self) -> int:
        """The first number behind those of all groups of all-reduce."""
        return 1 + max(self.groups, default=-1)

    @property
    def mixture(self) -> str:
        """The parts of the strategy, in words, as ``2 PS, 1 AllReduce over tcp, 1 cut``."""
        kinds = Counter(config.kinds for config in self.variables)
        parts = [f"{count} {kind}" for kind, count in kinds.most_common()]
        cut = sum(config.partition is not None for config in self.variables)
        carriers = f" over {' and '.join(self.carriers)}" if self.carriers else ""
        return ", ".join(parts) + carriers + (f", {cut} cut" if cut else "")

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
            hint = _WITHOUT_FILE if isinstance(error, FileNotFoundError) else None
            raise StrategyError(f"the strategy file `{os.fspath(path)}` can't be read: {reason}", hint=hint) from error
        try:
            return cls.from_json(text)
        except StrategyError as error:
            raise StrategyError(f"`{os.fspath(path)}`: {error.message}", hint=error.hint) from error


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
