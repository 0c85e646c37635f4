"""Plan files: YAML that an expert writes by hand, with sections for the variables that name patterns match.

The keys and their meanings are described in ``docs/manual_strategy.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from autodist import carriers
from autodist.carriers import carrier_of_groups, carrier_of_servers, one_of
from autodist.errors import StrategyError
from autodist.fitting_names import fits_name
from autodist.registry import Mistake, read
from autodist.strategies._builders._collectives import AnyCommunicator

if TYPE_CHECKING:
    from autodist.documents import Document
    from autodist.strategies._strategy import Communicator, GraphCommunicator

LOAD_BALANCED = "load_balanced"
GRAPH, LAYOUTS = "graph", "layouts"
"""The keys that are not patterns; a variable with such a name is matched by ``grap[h]``."""
WHOLE = "whole"


@dataclass(frozen=True)
class ServerSection:
    """``ps``: the keys of :class:`~autodist.strategies.PSSynchronizer`."""

    destination: str = LOAD_BALANCED
    sync: bool = True
    staleness: int = 0
    local_proxy: bool = False
    transfer: tuple[str, ...] | Literal["auto"] = ()


@dataclass(frozen=True)
class GroupSection:
    """``all_reduce``: the keys of :class:`~autodist.strategies.AllReduceSynchronizer`, or the size of groups."""

    group: int | None = None
    chunk_size: int | None = None
    communicator: AnyCommunicator = "auto"
    staleness: int = 0


@dataclass(frozen=True)
class FactorsSection:
    """``broadcast``: sufficient factors to every worker."""

    communicator: AnyCommunicator = "auto"


@dataclass(frozen=True)
class ShardSection:
    """The section of one shard: exactly one synchronizer."""

    ps: ServerSection | None = None
    all_reduce: GroupSection | None = None
    broadcast: FactorsSection | None = None
    compressor: str | None = None

    @property
    def synchronizer(self) -> ServerSection | GroupSection | FactorsSection:
        """The one that is given."""
        [section] = [section for section in (self.ps, self.all_reduce, self.broadcast) if section is not None]
        return section


@dataclass(frozen=True)
class Dim:
    """``partition`` along one dim: into how many parts, or their sizes."""

    parts: int | tuple[int, ...]
    dim: int = 0


@dataclass(frozen=True)
class VariableSection(ShardSection):
    """The section of the variables that a pattern matches: for all of their shards, or shard by shard."""

    partition: Dim | tuple[int | tuple[int, ...], ...] | None = None
    shards: tuple[ShardSection, ...] | None = None


@dataclass(frozen=True)
class GraphSection:
    """``graph``: where replicas are, into how many groups they fall, and what carries small state."""

    replicas: tuple[str, ...] | None = None
    groups: int = 1
    communicator: Annotated[str, one_of(lambda carrier: True, "auto")] = "auto"


@dataclass(frozen=True)
class Plan:
    """A plan file, read.

    Attributes:
        document: The text's keys and their places, for mistakes that are found later.
        graph: The section for the graph.
        sections: The sections by pattern, in the order of the file.
        layouts: By pattern, the dim along which each replica has a part of a variable; None for whole variables.
    """

    document: Document
    graph: GraphSection
    sections: dict[str, VariableSection]
    layouts: dict[str, int | None]

    def tiled(self, variable: str) -> tuple[str, int] | None:
        """The pattern among the layouts that a variable is cut by, and the dim; None for one that stays whole."""
        found = next(((p, dim) for p, dim in self.layouts.items() if fits_name(p, variable)), None)
        return None if found is None or found[1] is None else (found[0], found[1])

    def carriers(self, installed: Sequence[Communicator]) -> tuple[GraphCommunicator, ...]:
        """The carriers that it names, and those that its ``auto`` means if these communicators are installed."""
        groups = [section for shard in self._shards for section in (shard.all_reduce, shard.broadcast) if section]
        own = [self.automatic(installed) if one.communicator == "auto" else one.communicator for one in groups]
        own += [carrier_of_groups()] if self.graph.groups > 1 else []
        if self.graph.communicator != "auto":
            return (*own, self.graph.communicator)
        return tuple([*own, carrier_of_servers()] if self._has_servers else own)

    def automatic(self, installed: Sequence[Communicator]) -> Communicator:
        """The carrier of collectives where that is left open: the graph's, else the fastest one with its servers.

        If none is installed that works with servers, :func:`~autodist.strategies.verify` says so.
        """
        if self.graph.communicator != "auto":
            return self.graph.communicator
        fit = (name for name in installed if carriers.get(name).fits_servers or not self._has_servers)
        return next(fit, carrier_of_servers())

    @property
    def _has_servers(self) -> bool:
        """Whether variables have destinations; parts of variables have them as well."""
        is_tiled = any(dim is not None for dim in self.layouts.values())
        return is_tiled or any(shard.ps is not None for shard in self._shards)

    @property
    def _shards(self) -> list[ShardSection]:
        return [shard for section in self.sections.values() for shard in (section, *(section.shards or ()))]


_KINDS = ("ps", "all_reduce", "broadcast")
_Path: TypeAlias = tuple[str | int, ...]


def read_plan(path: str) -> Plan:
    """Read a plan file.

    Raises:
        StrategyError: It can't be read, or has mistakes: all of them are listed, with line and column.
    """
    from autodist.documents import Kind, load, read_text  # YAML, which `import autodist` need not load

    kind = Kind("plan", StrategyError, 'at least one pattern, such as `"*": {all_reduce: {}}`')
    text = read_text(Path(path), kind, hint="name another file; docs/manual_strategy.md says what it contains")
    document = load(text, path, kind)
    if not isinstance(document.data, dict) or not document.data:
        document.add((), f"a plan has {kind.least}")
        document.check()
    graph = _section(document, GraphSection, GRAPH) if GRAPH in document.data else GraphSection()
    patterns = [key for key in document.data if key not in (GRAPH, LAYOUTS)]
    sections = {key: _section(document, VariableSection, key) for key in patterns}
    if isinstance(graph, GraphSection) and graph.groups < 1:
        _add(document, (GRAPH, "groups"), f"is {graph.groups}, allowed: a whole number of at least 1")
    layouts = dict(_layouts(document, document.data.get(LAYOUTS, {})))
    document.check()
    assert isinstance(graph, GraphSection)
    return Plan(document, graph, {key: one for key, one in sections.items() if one is not None}, layouts)


def _layouts(document: Document, given: Any) -> Iterator[tuple[str, int | None]]:
    """By pattern, the dim that is cut; values that are not dims are noted as mistakes."""
    if not isinstance(given, dict):
        _add(document, (LAYOUTS,), f"is `{given}`, expected patterns of names, each with a dim or `{WHOLE}`")
        return
    for pattern, dim in given.items():
        if dim == WHOLE:
            yield pattern, None
        elif isinstance(dim, int) and not isinstance(dim, bool) and dim >= 0:
            yield pattern, dim
        else:
            _add(document, (LAYOUTS, pattern), f"is `{dim}`, allowed: the number of a dim, from 0, or `{WHOLE}`")


def _section(document: Document, cls: Any, key: str) -> Any:
    """Return the section without the keys that have mistakes, which are noted; None if nothing can be read."""
    data, mistakes = document.data[key], list[str]()
    found = read(cls, data, key, mistakes)
    wrong = {mistake.path[0] for mistake in mistakes if isinstance(mistake, Mistake) and mistake.path}
    for mistake in mistakes:
        path = mistake.path if isinstance(mistake, Mistake) else ()
        # Nothing can be null here: YAML's empty values are refused as such.
        document.add((key, *path), mistake.removesuffix(" or null"), at_key=True)
    if mistakes and isinstance(data, dict):
        found = read(cls, {name: value for name, value in data.items() if name not in wrong}, key, [])
    for where, problem in _problems(found) if isinstance(found, VariableSection) else ():
        if where or not wrong:  # the missing synchronizer may be among the keys with mistakes
            _add(document, (key, *where), problem)
    return found


def _add(document: Document, path: _Path, problem: str) -> None:
    from autodist.documents import key_path

    document.add(path, f"`{key_path(path)}` {problem}", at_key=True)


def _problems(section: VariableSection) -> Iterator[tuple[_Path, str]]:
    """Yield the mistakes of a section with their places, as far as they are known without model and cluster."""
    if section.shards is None:
        yield from _shard_problems((), section)
    else:
        whole = [name for name in (*_KINDS, "compressor") if getattr(section, name) is not None]
        for name in whole:
            yield (name,), "is given together with `shards`, give it to each of these"
        if section.partition is None:
            yield ("shards",), "needs `partition`, which says what they are"
        for index, shard in enumerate(section.shards):
            yield from _shard_problems(("shards", index), shard)
    yield from _partition_problems(section.partition)


def _shard_problems(path: _Path, shard: ShardSection) -> Iterator[tuple[_Path, str]]:
    given = [name for name in _KINDS if getattr(shard, name) is not None]
    if len(given) != 1:
        has = " and ".join(f"`{name}`" for name in given) or "no synchronizer"
        yield path, f"has {has}, allowed: one of `ps`, `all_reduce`, `broadcast`"
    if shard.ps is not None:
        yield from (((*path, "ps", *where), problem) for where, problem in _server_problems(shard.ps))
    if shard.all_reduce is not None:
        yield from (((*path, "all_reduce", *where), problem) for where, problem in _group_problems(shard.all_reduce))
    if shard.compressor is not None:
        yield from (((*path, "compressor"), problem) for problem in _compressor_problems(shard.compressor))


def _server_problems(section: ServerSection) -> Iterator[tuple[_Path, str]]:
    if section.staleness < 0:
        yield ("staleness",), f"is {section.staleness}, allowed: a whole number of at least 0"
    if section.staleness and not section.sync:
        yield ("staleness",), f"is {section.staleness} with `sync: false`, allowed: 0 (workers do not wait)"


def _group_problems(section: GroupSection) -> Iterator[tuple[_Path, str]]:
    if section.group is not None and section.chunk_size is not None:
        yield ("chunk_size",), "is given together with `group`, allowed: one of the two"
    if section.group is not None and section.group < 0:
        yield ("group",), f"is {section.group}, allowed: a whole number of at least 0"
    if section.staleness < 0:
        yield ("staleness",), f"is {section.staleness}, allowed: a whole number of at least 0"
    if section.chunk_size is not None and section.chunk_size < 1:
        yield ("chunk_size",), f"is {section.chunk_size}, allowed: a whole number of at least 1"


def _compressor_problems(text: str) -> Iterator[str]:
    from autodist import compressors

    try:
        compressors.get(text)
    except StrategyError as error:
        yield f"is `{text}`: {error.message.splitlines()[0]}"  # the lines below say what is known


def _partition_problems(partition: Dim | tuple[int | tuple[int, ...], ...] | None) -> Iterator[tuple[_Path, str]]:
    if partition is None:
        return
    entries: list[tuple[_Path, int | tuple[int, ...]]]
    if isinstance(partition, tuple):
        entries = [(("partition", index), entry) for index, entry in enumerate(partition)]
    else:
        entries = [(("partition", "parts"), partition.parts)]
    if isinstance(partition, Dim) and partition.dim < 0:
        yield ("partition", "dim"), f"is {partition.dim}, allowed: a whole number of at least 0"
    for path, entry in entries:
        sizes = (entry,) if isinstance(entry, int) else entry
        if not sizes or min(sizes) < 1:
            yield path, "is not allowed: parts and their sizes are whole numbers of at least 1"
