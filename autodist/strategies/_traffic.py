"""Bytes that a strategy sends over the network in one step, host by host: formulas, derived in docs/design/0011.

Only what a step carries is counted: gradients, values, encoded messages and small state. Around them go requests,
answers and headers of the transport, one or two kilobytes per step and worker.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from autodist.cost import Flow, Links, Share, Traffic
from autodist.strategies._messages import shard_messages, shares, state_messages
from autodist.strategies._shard_messages import ShardMessages
from autodist.strategies._strategy import Strategy
from autodist.strategies.checks import require_types
from autodist.transport import LEAST_CODED_BYTES, is_coded, reduction_shares

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph
    from autodist.resource_spec import ResourceSpec

DEFAULT_BATCH_SIZE = 128
"""Examples in a global batch where neither the caller nor the graph says how many."""


def traffic(
    strategy: Strategy,
    graph: TrainingGraph,
    spec: ResourceSpec,
    *,
    batch_size: int | None = None,
    rows: Mapping[str, int] | None = None,
) -> Traffic:
    """Bytes that one step of the strategy sends from host to host.

    Within a host nothing is counted: neither a server's own worker nor the replicas of one worker use the network.
    Floats that AutoDist's own library carries over slow links count as :data:`~autodist.transport.CODED_SHARE` of their
    bytes, which is what they nearly always are.
    Staleness changes when messages go, not how large they are.

    Args:
        strategy: S. Shards that don't fit the graph or the cluster are left out.
        graph: G.
        spec: D.
        batch_size: Examples in the global batch; by default the graph's own, else :data:`DEFAULT_BATCH_SIZE`.
        rows: By sparse variable, how many rows a global batch touches, doubles counted; by default what the traced
            shapes say per example, times the batch size.

    Raises:
        StrategyError: Parts of the strategy have wrong types.

    Example:
        >>> from autodist.graph import Gradient, Role, TrainingGraph, Variable
        >>> from autodist.resource_spec import ResourceSpec
        >>> from autodist.strategies import AllReduce, traffic
        >>> w = Variable("w", "h", (1000, 250), "float32", Role.TRAINABLE, (Gradient(dense="g"),))
        >>> graph, spec = TrainingGraph(None, (w,), (), (), ()), ResourceSpec.local(workers=4)
        >>> found = traffic(AllReduce(communicator="collective").build(graph, spec), graph, spec)
        >>> found.flows[0].sent["localhost"]  # 2 (n - 1) / n of 1 MB
        1500000.0
    """
    require_types(strategy)
    size = batch_size or graph.batch_size or DEFAULT_BATCH_SIZE
    hosts = tuple(host.name for host in spec.hosts)
    cluster = shares(strategy, hosts, size, of_examples=graph.shares_examples)
    messages = tuple(shard_messages(strategy, graph, size, rows or {}))
    parts = dict(zip(hosts, reduction_shares([host.bandwidth_gbps or 1.0 for host in spec.hosts]), strict=True))
    flows = [
        Flow(m.variable, m.shard, _only_real(_coded(_links(m, cluster, parts), _links(m.coded, cluster, parts), spec)))
        for m in messages
    ]
    state = state_messages(strategy, graph)
    flows.append(Flow(None, None, _only_real(_links(state, cluster, parts))))
    sparse = {m.variable: m.gradient_rows * size for m in messages if m.gradient_rows}
    guessed = tuple(dict.fromkeys(m.variable for m in messages if m.is_guess and m.variable not in (rows or {})))
    is_supposed = batch_size is None and graph.batch_size is None
    return Traffic(hosts, tuple(flows), size, sparse, guessed, is_supposed)


def _coded(plain: Links, coded: Links, spec: ResourceSpec) -> Links:
    """Bytes by link: the plain ones on fast links, the encoded ones on slow links."""
    return {
        ends: coded[ends] if size >= LEAST_CODED_BYTES and is_coded(spec.link(*ends).bandwidth_gbps) else size
        for ends, size in plain.items()
    }


def _links(shard: ShardMessages, cluster: Mapping[str, Share], sums: Mapping[str, float]) -> Links:
    return shard.synchronizer.links(shard, cluster, sums)


def _only_real(links: Links) -> Links:
    return {ends: size for ends, size in links.items() if size}
