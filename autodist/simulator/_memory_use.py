"""The memory that hosts need for a strategy during steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from autodist.simulator._base import chunked
from autodist.simulator._message_table import BROADCAST, SERVER, Bools, Floats, ShardTable, tabulate
from autodist.simulator.features import server_flows

if TYPE_CHECKING:
    from autodist.simulator._domain import Domain
    from autodist.strategies import Strategy

_CELLS = 1 << 20
_NODE_BYTES, _TILED_NODE_BYTES = 25_000, 50_000
"""Bytes that a worker keeps for each node of a step besides tensors: in the traced graph, the rewritten graph and
TensorFlow's session; with tiled variables also in the plan. Measured on dense layers, convolutions, a transformer."""


def memory_needs(table: ShardTable, domain: Domain, num_strategies: int) -> Floats:
    """Bytes that each strategy needs on each host, shape (strategies, hosts).

    A host holds the value and the slots of a replicated variable once for all of its replicas. A served variable has
    both on its server, and other hosts hold the values that a step fetches. Added to these are the gradients of each
    replica, their messages (a buffer for a reduction; at a server one message of each sender), the replicas'
    activations, and the other variables of the step.

    Left out are the memory of Python and TensorFlow themselves, some 0.5 GB, and that of the script; at start-up and
    in checkpoints the parameters are in memory once more.

    Example:
        >>> from autodist.graph import Gradient, Role, TrainingGraph, Variable
        >>> from autodist.resource_spec import ResourceSpec
        >>> from autodist.simulator import Domain, tabulate
        >>> from autodist.strategies import AllReduce
        >>> w = Variable("w", "h", (1000, 250), "float32", Role.TRAINABLE, (Gradient(dense="g"),))
        >>> slot = Variable("m", "s", (1000, 250), "float32", Role.SLOT, owners=("w",))
        >>> graph, spec = TrainingGraph(None, (w, slot), (), (), ()), ResourceSpec.local(workers=2, cpus=1)
        >>> domain = Domain.of(graph, spec)
        >>> strategy = AllReduce(communicator="collective").build(graph, spec)
        >>> memory_needs(tabulate([strategy], domain), domain, 1).tolist()  # value, slot, gradient, buffer
        [[4000000.0, 4000000.0]]
    """
    most_rows = max(1, _CELLS // max(1, len(domain.replicas)))
    parts = [_summed(part, domain, count) for part, count in chunked(table, num_strategies, most_rows)]
    always = domain.replicas * np.float32(domain.activation_bytes) + np.float32(domain.other_bytes)
    shards = np.concatenate(parts) if parts else np.zeros((0, len(domain.replicas)), np.float32)
    needs: Floats = shards + always
    return needs


def peak_needs(table: ShardTable, domain: Domain, num_strategies: int) -> Floats:
    """The most bytes that each strategy is expected to take on each host at any time of a step.

    These are :func:`memory_needs`, and the temporaries of the largest shard's update, which take as much as the shard's
    value and slots: other updates wait if memory is limited. Tensors that replicas gather, such as weights that an
    operator takes whole, arrive in parts and are kept until the backward pass. Some bytes are added for each node.

    Example:
        >>> from autodist.graph import Gradient, Role, TrainingGraph, Variable
        >>> from autodist.resource_spec import ResourceSpec
        >>> from autodist.simulator import Domain, tabulate
        >>> from autodist.strategies import AllReduce
        >>> w = Variable("w", "h", (1000, 250), "float32", Role.TRAINABLE, (Gradient(dense="g"),))
        >>> graph, spec = TrainingGraph(None, (w,), (), (), ()), ResourceSpec.local(workers=2, cpus=1)
        >>> domain = Domain.of(graph, spec)
        >>> strategy = AllReduce(communicator="collective").build(graph, spec)
        >>> peak_needs(tabulate([strategy], domain), domain, 1).tolist()  # value, gradient, buffer, temporary
        [[4000000.0, 4000000.0]]
    """
    updates, nodes = _largest_updates(table, domain, num_strategies), _nodes(table, domain, num_strategies)
    gathered = np.bincount(table.strategy, table.kept_bytes, num_strategies).astype(np.float32)[:, None]
    return memory_needs(table, domain, num_strategies) + updates + gathered + nodes


def host_needs(strategy: Strategy, domain: Domain) -> dict[str, float]:
    """By host, the :func:`peak_needs` of one strategy."""
    most = peak_needs(tabulate([strategy], domain), domain, 1)[0]
    return {host.name: float(size) for host, size in zip(domain.spec.hosts, most, strict=True)}


def device_needs(strategy: Strategy, domain: Domain) -> float:
    """Bytes that a device is expected to need: :func:`host_needs` per device, on the host where that is the most."""
    hosts = zip(domain.spec.hosts, host_needs(strategy, domain).values(), strict=True)
    return max(size / max(1, len(host.replica_devices)) for host, size in hosts)


def serving_needs(table: ShardTable, domain: Domain) -> Floats:
    """Additional bytes that each host needs if it serves a shard itself, shape (shards, hosts)."""
    nobody = table.replaced(server=np.full(len(table), -1, np.int32))
    state, fetched = _state(table, domain), _fetched(table, domain)
    pushed, _, _ = server_flows(nobody, domain)
    more: Floats = (state - fetched + pushed.sum(1, keepdims=True) - pushed).astype(np.float32)
    return more


def _summed(table: ShardTable, domain: Domain, count: int) -> Floats:
    rows = _held(table, domain) + _gradients(table, domain) + _on_the_way(table, domain)
    columns = [np.bincount(table.strategy, column, count) for column in rows.T]
    return np.stack(columns, 1).astype(np.float32)


def _largest_updates(table: ShardTable, domain: Domain, count: int) -> Floats:
    """Bytes of working memory of each strategy's largest update on each host; a shard without a server may get any."""
    found = np.zeros((count, len(domain.replicas)), np.float32)
    if len(table):
        is_here = (table.kind != SERVER)[:, None] | (table.server < 0)[:, None] | _at_server(table, domain)
        updates = np.where(is_here, _state(table, domain), np.float32(0))
        begins = np.flatnonzero(np.diff(table.strategy, prepend=-1))
        found[table.strategy[begins]] = np.maximum.reduceat(updates, begins)
    return found


def _nodes(table: ShardTable, domain: Domain, count: int) -> Floats:
    """Bytes that a worker keeps for the nodes of the graph under each strategy; shape (strategies, 1)."""
    if domain.graph.graph_def is None:
        return np.zeros((count, 1), np.float32)
    waits = np.bincount(table.strategy, table.waits, count)
    sizes = np.where(waits > 0, np.float32(_TILED_NODE_BYTES), np.float32(_NODE_BYTES))
    return (sizes * len(domain.graph.graph_def.node)).astype(np.float32)[:, None]


def _at_server(table: ShardTable, domain: Domain) -> Bools:
    served = (table.kind == SERVER)[:, None]
    at_server: Bools = served & (table.server[:, None] == np.arange(len(domain.replicas), dtype=np.int32))
    return at_server


def _held(table: ShardTable, domain: Domain) -> Floats:
    """Bytes of values and slots where they live, and of values that others fetch; shape (shards, hosts)."""
    is_away = (table.kind == SERVER)[:, None] & ~_at_server(table, domain)
    held: Floats = np.where(is_away, _fetched(table, domain), _state(table, domain))
    return held


def _state(table: ShardTable, domain: Domain) -> Floats:
    """Bytes of values and slots; shape (shards, 1)."""
    share = table.size_bytes / np.maximum(domain.sizes_bytes[table.variable], 1)
    state: Floats = (table.size_bytes + domain.slot_bytes[table.variable] * share).astype(np.float32)[:, None]
    return state


def _fetched(table: ShardTable, domain: Domain) -> Floats:
    """Bytes of values fetched from servers: one copy, or the rows that hosts look up; shape (shards, hosts)."""
    copy = np.minimum(table.read_bytes, table.size_bytes)[:, None]
    rows = table.read_by_example[:, None] * domain.examples
    fetched: Floats = np.where(domain.replicas > 0, copy + rows, np.float32(0))
    return fetched


def _gradients(table: ShardTable, domain: Domain) -> Floats:
    """Bytes of the replicas' gradients; for gradients that travel as factors, those of the factors' product."""
    dense = domain.dense_gradients[table.variable]
    factored = (dense > 0) & (table.summed_bytes == 0) & (table.gathered_bytes == 0) & (table.size_bytes > 0)
    rebuilt = np.where((table.kind == BROADCAST)[:, None], domain.replicas > 0, _at_server(table, domain))
    whole = np.where(factored[:, None], rebuilt, domain.replicas)
    rows = table.gathered_by_example[:, None] * domain.examples
    computed: Floats = (table.size_bytes * dense)[:, None] * whole + rows
    return computed


def _on_the_way(table: ShardTable, domain: Domain) -> Floats:
    """Bytes of messages: a buffer for a reduction, all parts of a gathering, and on servers one message per sender."""
    pushed, _, _ = server_flows(table, domain)
    gathered = table.gathered_bytes * len(domain.replicas) + table.gathered_by_example * domain.examples.sum()
    joined = (table.summed_bytes + gathered)[:, None]
    served = (table.kind == SERVER)[:, None]
    arriving = np.where(_at_server(table, domain), pushed.sum(1, keepdims=True), 0)
    travelling: Floats = np.where(served, arriving, joined).astype(np.float32)
    return travelling
