"""The contents of a strategy and their costs, as rows and totals, for people and for JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autodist.cost import Flow, Traffic
from autodist.errors import UsageError
from autodist.strategies._problem import Problem
from autodist.strategies._shards import shard_slices
from autodist.strategies._strategy import ShardConfig, Strategy, VariableConfig
from autodist.strategies._traffic import traffic
from autodist.strategies._whole_work import WholeWork, whole_work
from autodist.strategies.checks import require_types, verify

if TYPE_CHECKING:
    from collections.abc import Collection

    from autodist.graph import TrainingGraph, Variable
    from autodist.graph.layouts import Exchanged
    from autodist.resource_spec import ResourceSpec


@dataclass(frozen=True)
class ExplanationRow:
    """How one shard is synchronized.

    Attributes:
        variable: The variable's name.
        shard: Which shard it is, from 0; None for a variable that is not partitioned.
        synchronizer: ``PS``, ``AllReduce`` or ``Broadcast``, with what is not the default in brackets.
        where: The device that holds it, or ``every worker``.
        group: Number of its all-reduce group.
        communicator: The carrier of its collective.
        compressor: Its encoder and decoder.
        staleness: How many steps the fastest worker may be ahead; None without a server.
        partition: How the variable is split, ``2 x 1``; None if it is whole.
        shape: The shard's shape; None without a graph.
        size_bytes: Bytes of its value; None without a graph.
        is_sparse: Whether its gradient is rows and their numbers; None without a graph.
        sent_bytes: By host, the bytes that it sends per step for this shard; None without a graph.
    """

    variable: str
    shard: int | None
    synchronizer: str
    where: str
    group: int | None
    communicator: str | None
    compressor: str | None
    staleness: int | None
    partition: str | None
    shape: tuple[int, ...] | None = None
    size_bytes: int | None = None
    is_sparse: bool | None = None
    sent_bytes: Mapping[str, float] | None = None


@dataclass(frozen=True)
class HostTraffic:
    """The bytes that a host sends and receives in one step.

    Attributes:
        host: Its name.
        sent_bytes: Bytes sent.
        received_bytes: Bytes received.
        bandwidth_gbps: Bandwidth of its network interface.
        network_s: Seconds for the larger of both at this bandwidth: no step can be faster without overlap.
    """

    host: str
    sent_bytes: float
    received_bytes: float
    bandwidth_gbps: float
    network_s: float


@dataclass(frozen=True)
class LinkTraffic:
    """The bytes that one host sends to another one in one step.

    Attributes:
        sender: Name of the one.
        receiver: Name of the other.
        size_bytes: Bytes per step.
        bandwidth_gbps: Bandwidth of the link.
    """

    sender: str
    receiver: str
    size_bytes: float
    bandwidth_gbps: float


@dataclass(frozen=True)
class Cost:
    """The bytes that the strategy sends on a cluster; see :func:`autodist.strategies.traffic`.

    Attributes:
        hosts: By rank.
        links: Those that carry anything, the busiest first.
        state_bytes: Bytes that all hosts together send for small state.
        batch_size: Examples in the global batch that the numbers are for.
        rows: By sparse variable, the number of rows that a global batch touches.
        guessed: Sparse variables whose rows are a guess.
        is_batch_supposed: Whether the number of examples of a batch is unknown.
    """

    hosts: tuple[HostTraffic, ...]
    links: tuple[LinkTraffic, ...]
    state_bytes: float
    batch_size: int
    rows: Mapping[str, float]
    guessed: tuple[str, ...]
    is_batch_supposed: bool = False


@dataclass(frozen=True)
class Explanation:
    """A description of a strategy, shard by shard and in total.

    Attributes:
        id: The strategy's identity.
        builder: The builder that made it.
        replicas: The devices that hold a copy of the graph.
        communicator: The carrier of the batch size, the loss and the metrics.
        rows: One per shard, in the strategy's order.
        num_variables: Number of variables.
        num_shards_by_synchronizer: Number of shards of each kind.
        num_shards_by_destination: Number of shards on each parameter server.
        num_groups: Number of all-reduce groups.
        cost: The bytes that a step sends; None without a graph.
        problems: Why the strategy does not fit; None without a graph.
        exchanged: The tensors that replicas exchange before gradients, the largest first; None if no run has kept them.
        has_tiles: Whether replicas compute with parts of any variable.
        memory_bytes: By host, the memory that its worker is expected to need for training, besides imports; None
            without an estimate.
        whole: The work that each replica does whole because variables are tiled; None without tiles or a graph.
    """

    id: str
    builder: str
    replicas: tuple[str, ...]
    communicator: str
    rows: tuple[ExplanationRow, ...]
    num_variables: int
    num_shards_by_synchronizer: Mapping[str, int]
    num_shards_by_destination: Mapping[str, int]
    num_groups: int
    cost: Cost | None = None
    problems: tuple[Problem, ...] | None = None
    exchanged: tuple[Exchanged, ...] | None = None
    has_tiles: bool = False
    memory_bytes: Mapping[str, float] | None = None
    whole: WholeWork | None = None


def explain(
    strategy: Strategy,
    graph: TrainingGraph | None = None,
    spec: ResourceSpec | None = None,
    *,
    batch_size: int | None = None,
    rows: Mapping[str, int] | None = None,
    available_communicators: Collection[str] | None = None,
) -> Explanation:
    """Tell what the strategy says; with a graph and a cluster also what it costs there and whether it fits.

    Args:
        strategy: S. It need not fit: what does not fit is among the problems.
        graph: G.
        spec: D; goes together with the graph.
        batch_size: As for :func:`traffic`.
        rows: As for :func:`traffic`.
        available_communicators: As for :func:`verify`.

    Raises:
        StrategyError: Parts of the strategy have wrong types.
        UsageError: A graph without a spec, or a spec without a graph.

    Example:
        >>> from autodist.strategies import GraphConfig, PSSynchronizer
        >>> config = VariableConfig.whole("w", PSSynchronizer("a:CPU:0", staleness=2))
        >>> explain(Strategy(GraphConfig(("a:CPU:0",), "tcp"), (config,))).rows[0].synchronizer
        'PS (staleness=2)'
    """
    require_types(strategy)
    if (graph is None) != (spec is None):
        missing = "spec" if spec is None else "graph"
        raise UsageError(f"there is no {missing}: what a strategy costs depends on a graph and a spec together")
    cost, problems, whole, flows, variables = None, None, None, {}, {}
    if graph is not None and spec is not None:
        found = traffic(strategy, graph, spec, batch_size=batch_size, rows=rows)
        flows = {(flow.variable or "", flow.shard): flow for flow in found.flows}
        variables = {variable.name: variable for variable in graph.trainable}
        cost = _cost(found, spec)
        problems = verify(strategy, graph, spec, available_communicators=available_communicators)
        whole = None if problems else whole_work(strategy, graph, found.batch_size)
    synchronizers = [synchronizer for _, synchronizer in strategy.synchronizers]
    destinations = Counter(home for synchronizer in synchronizers if (home := synchronizer.home) is not None)
    told = tuple(row for c in strategy.variables for row in _rows(c, variables.get(c.variable), flows))
    return Explanation(
        id=strategy.id,
        builder=strategy.builder,
        replicas=strategy.graph.replicas,
        communicator=strategy.graph.communicator,
        rows=told,
        num_variables=len(strategy.variables),
        num_shards_by_synchronizer=dict(sorted(Counter(s.type for s in synchronizers).items())),
        has_tiles=strategy.has_tiles,
        num_shards_by_destination=dict(sorted(destinations.items())),
        num_groups=len(strategy.groups),
        cost=cost,
        problems=problems,
        whole=whole,
    )


def _cost(found: Traffic, spec: ResourceSpec) -> Cost:
    sent, received = found.sent, found.received
    hosts = []
    for host in spec.hosts:
        busier = max(sent[host.name], received[host.name])
        seconds = 8 * busier / (host.bandwidth_gbps * 1e9)
        hosts.append(
            HostTraffic(host.name, sent[host.name], received[host.name], host.bandwidth_gbps, seconds),
        )
    links = [LinkTraffic(a, b, size, spec.link(a, b).bandwidth_gbps) for (a, b), size in found.links.items()]
    links.sort(key=lambda link: (-link.size_bytes / link.bandwidth_gbps, link.sender, link.receiver))
    state = sum(sum(flow.sent.values()) for flow in found.flows if flow.variable is None)
    examples = found.batch_size, found.rows, found.guessed, found.is_batch_supposed
    return Cost(tuple(hosts), tuple(links), state, *examples)


def _rows(
    config: VariableConfig, variable: Variable | None, flows: Mapping[tuple[str, int | None], Flow]
) -> list[ExplanationRow]:
    shapes = _shapes(config, variable)
    rows = []
    for number, shard in enumerate(config.shards):
        index = None if config.partition is None else number
        flow = flows.get((config.variable, index))
        shape = shapes[number] if number < len(shapes) else None
        rows.append(_row(config, index, shard, variable, shape, flow))
    return rows


def _shapes(config: VariableConfig, variable: Variable | None) -> list[tuple[int, ...]]:
    if variable is None:
        return []
    try:
        return [part.size for part in shard_slices(config.partition, variable.shape)]
    except ValueError:  # it is among the problems
        return []


def _row(
    config: VariableConfig,
    index: int | None,
    shard: ShardConfig,
    variable: Variable | None,
    shape: tuple[int, ...] | None,
    flow: Flow | None,
) -> ExplanationRow:
    columns = shard.synchronizer.columns()
    return ExplanationRow(
        config.variable,
        index,
        columns.told,
        columns.where,
        columns.group,
        columns.communicator,
        shard.compressor,
        columns.staleness,
        _partition(config),
        shape,
        _size_bytes(variable, shape),
        None if variable is None else variable.is_sparse,
        None if flow is None else flow.sent,
    )


def _size_bytes(variable: Variable | None, shape: tuple[int, ...] | None) -> int | None:
    from dataclasses import replace

    return None if variable is None or shape is None else replace(variable, shape=shape).size_bytes


def _partition(config: VariableConfig) -> str | None:
    if config.partition is None:
        return None
    return " x ".join(str(e) if isinstance(e, int) else f"({'+'.join(map(str, e))})" for e in config.partition)
