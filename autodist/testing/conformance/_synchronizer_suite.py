"""The duties of a synchronizer and its kernel."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from autodist.carriers import carrier_of_servers
from autodist.graph import Gradient, Role, TrainingGraph, Variable
from autodist.kernels import DistributedGraph, ExtraKernel, Layout, kernels_for, prepare, rewrite
from autodist.registry import plain, read
from autodist.resource_spec import ResourceSpec
from autodist.strategies import (
    Choice,
    Explanation,
    GraphConfig,
    Strategy,
    Synchronizer,
    Terms,
    VariableConfig,
    explain,
    needs_servers,
    shard_messages,
    verify,
)
from autodist.testing.conformance._contract import attempted, raise_broken
from autodist.testing.conformance._kernels import sample_step

_BATCH = 64


def check_synchronizer(synchronizer: Synchronizer, kernels: Sequence[ExtraKernel] | None = None) -> None:
    """Check that a synchronizer keeps its contract, together with the kernel that rewrites graphs for it.

    It is a frozen dataclass that survives JSON. A strategy with it verifies, is explained, sends between hosts of the
    cluster, and has terms for simulators. As a choice of a search and back, it is the same synchronizer. Its kernel
    makes a valid graph, the same each time, in which every gradient is combined over the workers.

    Args:
        synchronizer: The candidate. Where it names devices, ``localhost:CPU:0`` is one.
        kernels: Those of other packages; by default of those that are installed.

    Raises:
        ConformanceFailed: Lists what it does not keep.
    """
    broken = list(_broken_class(synchronizer))
    if not broken:
        broken = [*_broken_costs(synchronizer), *_broken_choice(synchronizer), *_broken_graphs(synchronizer, kernels)]
    raise_broken(synchronizer, broken)


def _broken_class(synchronizer: Synchronizer) -> Iterator[str]:
    cls = type(synchronizer)
    parameters = getattr(cls, "__dataclass_params__", None)
    if "__dataclass_fields__" not in vars(cls) or parameters is None or not parameters.frozen:
        yield f"`{cls.__name__}` is not a frozen dataclass of its own"
        return
    for attribute in ("type", "form", "verb"):
        if not hasattr(cls, attribute):
            yield f"it has no `{attribute}`"
            return
    written = json.loads(json.dumps(plain(synchronizer)))
    mistakes: list[str] = []
    found = read(cls, {key: value for key, value in written.items() if key != "type"}, "synchronizer", mistakes)
    if found != synchronizer:
        yield f"its JSON is read back as {found!r}: {'; '.join(mistakes) or 'something else'}"


def _small() -> TrainingGraph:
    weight = Variable("w", "w/handle", (1000, 250), "float32", Role.TRAINABLE, (Gradient(dense="g"),))
    return TrainingGraph(None, (weight,), (), (), ())


def _strategy(synchronizer: Synchronizer, graph: TrainingGraph, spec: ResourceSpec) -> Strategy:
    configs = tuple(VariableConfig.whole(variable.name, synchronizer) for variable in graph.trainable)
    replicas = tuple(device.name for device in spec.replicas)
    return Strategy(GraphConfig(replicas, synchronizer.carrier or carrier_of_servers()), configs)


def _broken_costs(synchronizer: Synchronizer) -> Iterator[str]:
    graph, spec = _small(), ResourceSpec.local(workers=3)
    strategy = _strategy(synchronizer, graph, spec)
    told, problem = attempted(lambda: explain(strategy, graph, spec, available_communicators=strategy.carriers))
    if not isinstance(told, Explanation) or told.cost is None:
        yield f"a strategy with it can't be explained: {problem}"
        return
    problems = verify(strategy, graph, spec, available_communicators=strategy.carriers)
    yield from (f"a strategy with it does not verify: {found}" for found in problems)
    hosts = {host.name for host in spec.hosts}
    for message in shard_messages(strategy, graph, _BATCH, {}):
        terms, problem = attempted(lambda message=message: synchronizer.terms(message))  # type: ignore[misc]
        if not isinstance(terms, Terms) or terms.form is not synchronizer.form:
            yield f"its terms are {problem or repr(terms)}, allowed: those of its form, {synchronizer.form}"
    if not {end for link in told.cost.links for end in (link.sender, link.receiver)} <= hosts:
        yield "it sends to a host that the cluster does not have"


def _broken_choice(synchronizer: Synchronizer) -> Iterator[str]:
    home, group = synchronizer.home or "localhost:CPU:0", synchronizer.group_number or 0
    stations = tuple(device for device in synchronizer.devices if device != home)
    graph = GraphConfig((), synchronizer.carrier or carrier_of_servers())
    choice, problem = attempted(lambda: synchronizer.choice(graph))
    if not isinstance(choice, Choice) or choice.synchronizer != synchronizer.type:
        yield f"its choice is {problem or repr(choice)}, allowed: one of {synchronizer.type}"
        return
    found, problem = attempted(lambda: type(synchronizer).of_choice(choice, home, group, stations))
    if found != synchronizer:
        yield f"its choice becomes {problem or repr(found)}"
    if synchronizer.renamed(lambda device: device) != synchronizer:
        yield "it is another one when its devices keep their names"


def _broken_graphs(synchronizer: Synchronizer, kernels: Sequence[ExtraKernel] | None) -> Iterator[str]:
    spec = ResourceSpec.local(workers=2)
    step = sample_step(has_table=False)
    graph, strategy = prepare(step, _strategy(synchronizer, step, spec))

    def rewritten(rank: int) -> DistributedGraph:
        layout = Layout.of(strategy, spec, rank, server=needs_servers(strategy))
        return rewrite(graph, layout, kernels_for(graph, strategy, extras=kernels))[0]

    for rank in range(spec.world_size):
        (found, problem), (again, _) = (attempted(lambda rank=rank: rewritten(rank)) for _ in range(2))  # type: ignore[misc]
        if not isinstance(found, DistributedGraph):
            yield f"graphs can't be rewritten for it: {problem}"
        elif not isinstance(again, DistributedGraph) or _names(found) != _names(again):
            yield "its kernel makes another graph each time"
        else:
            yield from _unmet(found)


def _names(graph: DistributedGraph) -> list[str]:
    return [node.name for node in graph.graph_def.node]


def _unmet(graph: DistributedGraph) -> Iterator[str]:
    """Gradients that are never combined with those of other workers."""
    for point in graph.points:
        pairs = zip(point.synced, point.local, strict=True)
        own = [synced for synced, local in pairs if synced in graph.nodes and graph.nodes[synced].input[0] == local]
        if point.variable is not None and own:
            yield f"its kernel leaves the gradient of `{point.variable}` unchanged on each worker"
