"""The predefined features of strategies: the costs of their synchronization, by formulas alone (thesis 8.3.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from autodist.cost import fetched_bytes, pushed_bytes, ring_share
from autodist.simulator._message_table import SERVER, Bools, Collected, Floats, Ints, Rows, ShardTable, with_packing

if TYPE_CHECKING:
    from autodist.simulator._domain import Domain

_DIRECT_HOPS = 2
NAMES = tuple(
    f"{kind}_{statistic}_{term}"
    for kind in ("server", "collective")
    for statistic in ("max", "mean")
    for term in ("transfer_s", "messages", "copies")
)
"""The columns of :func:`global_features`: transfer, coefficient of phi, coefficient of delta."""


@dataclass(frozen=True)
class Messages:
    """The values that are synchronized at once: a shard on a server, or all that travels in one collective.

    One element for each in every column, those of a strategy together, those of collectives after those of servers.

    Attributes:
        strategy: Number of the strategy.
        variable: Number of the variable in the domain's order; of a group, of its last gradient.
        is_served: Whether it is a shard on a server.
        transfer_s: The time that its bytes take on the network, equations 8.2 and 8.3.
        overheads: The coefficient of phi: messages over the network.
        latency_s: The total latency of the links for these messages; the part of phi that is measured.
        copies: The coefficient of delta.
        gathers: Tensors of rows that TensorFlow's collectives gather.
        is_streamed: Whether AutoDist's own library carries it.
        is_own: Whether any library of its own carries it, and not TensorFlow's runtime.
    """

    strategy: Ints
    variable: Ints
    is_served: Bools
    transfer_s: Floats
    overheads: Floats
    latency_s: Floats
    copies: Floats
    gathers: Floats
    is_streamed: Bools
    is_own: Bools


@dataclass(frozen=True)
class Groups:
    """The groups of values that travel in collectives, one element for each in every column.

    Attributes:
        first: The first row of its shards.
        of_shard: By shard, the number of its group.
        last: The variable whose gradient is ready last.
        transfer_s: The time that its bytes take on the network, equation 8.3.
        gathers: Tensors of rows that TensorFlow's collectives gather for it.
        latency_s: The longest latency of the links that it takes.
        hops: How many messages follow each other: one for each host of a ring, or to the summing host and back.
        is_streamed: Whether AutoDist's own library carries it, directly between all hosts.
        is_own: Whether any library of its own carries it, and not TensorFlow's runtime.
    """

    first: Rows
    of_shard: Rows
    last: Ints
    transfer_s: Floats
    gathers: Floats
    latency_s: Floats
    hops: Floats
    is_streamed: Bools
    is_own: Bools


def messages(table: ShardTable, domain: Domain) -> Messages:
    """The messages of a table of shards, with the terms of equations 8.2 and 8.3."""
    shards = with_packing(table.take(table.kind == SERVER), len(domain.replicas))
    served, grouped = _of_servers(shards, domain), _of_collectives(table.collected, domain)
    columns = (np.concatenate([one, other]) for one, other in zip(served, grouped, strict=True))
    return Messages(*columns)


def server_flows(table: ShardTable, domain: Domain) -> tuple[Floats, Floats, Floats]:
    """Bytes that each host pushes for a shard and reads of it, and its messages; shapes (shards, hosts)."""
    elsewhere = table.server[:, None] != np.arange(len(domain.replicas), dtype=np.int32)
    computes = elsewhere & (domain.replicas > 0)
    senders = np.where(table.is_joined[:, None], np.float32(1), domain.replicas) * computes
    columns, examples = table.by_host, computes * domain.examples
    pushed, read = pushed_bytes(columns, senders, computes, examples), fetched_bytes(columns, computes, examples)
    messages = np.where(table.is_packed[:, None], computes, senders) * table.messages[:, None]
    return pushed, read, messages


def _of_servers(shards: ShardTable, domain: Domain) -> tuple[Any, ...]:
    """Equation 8.2; its sums over the workers are the same for all shards of a server."""
    elsewhere = ~np.eye(len(domain.replicas), dtype=bool) & (domain.replicas > 0)
    latency_s, ones = domain.latency_s * elsewhere, np.ones_like(domain.replicas)
    plain, coded = domain.seconds_per_byte * elsewhere, domain.coded_s_per_byte * elsewhere
    by_worker, by_replica, by_example = (
        np.where(shards.is_coded, (coded @ weights)[shards.server], (plain @ weights)[shards.server])
        for weights in (ones, domain.replicas, domain.examples)
    )
    # (1) and (3) of the thesis may differ here: tables send only rows, and encoders only encode gradients.
    senders_s = np.where(shards.is_joined, by_worker, by_replica)
    transfer = pushed_bytes(shards, senders_s, by_worker, by_example) + fetched_bytes(shards, by_worker, by_example)
    by_host = shards.is_joined | shards.is_packed
    senders, waits = (
        np.where(by_host, (per @ ones)[shards.server], (per @ domain.replicas)[shards.server]) * shards.messages
        for per in (elsewhere.astype(np.float32), latency_s)
    )
    copies = np.ones(len(shards), np.float32)
    own = shards.has_own_connections
    return (
        shards.strategy,
        shards.variable,
        copies > 0,
        transfer,
        senders,
        waits,
        copies,
        np.zeros_like(copies),
        own,
        own,
    )


def groups(collected: Collected, domain: Domain) -> Groups:
    """The groups of shards that travel together in collectives, with their times."""
    shards, _, first, of_shard, last = collected
    workers = len(domain.replicas)
    gathered = shards.gathered_bytes * workers + shards.gathered_by_example * float(domain.examples.sum())
    around = np.float32(ring_share(workers) / 2 * domain.ring_s_per_byte)
    coded, plain = (
        (np.float32(domain.direct_coded_s_per_byte), np.float32(domain.divided_coded_s_per_byte)),
        (np.float32(domain.direct_s_per_byte), np.float32(domain.divided_s_per_byte)),
    )
    direct, divided = (np.where(shards.is_coded, *both) for both in zip(coded, plain, strict=True))
    seconds = gathered * np.where(shards.is_direct, direct, around)
    seconds += shards.summed_bytes * np.where(shards.is_direct, divided, 2 * around)
    latency_s = np.where(
        shards.is_direct[first], domain.latency_s.max(initial=0), np.float32(domain.ring_latency_s)
    ).astype(np.float32)
    transfer_s, gathers = (
        np.bincount(of_shard, column, len(first)).astype(np.float32)
        for column in (seconds, (gathered > 0) & ~shards.has_own_connections)
    )
    own, is_direct = shards.has_own_connections[first], shards.is_direct[first]
    hops = np.where(is_direct, np.float32(_DIRECT_HOPS), np.float32(workers)).astype(np.float32)
    return Groups(first, of_shard, last, transfer_s, gathers, latency_s, hops, own & is_direct, own)


def _of_collectives(collected: Collected, domain: Domain) -> tuple[Any, ...]:
    found = groups(collected, domain)
    ones = np.ones_like(found.transfer_s)
    waits = found.hops * found.latency_s
    owners = collected.shards.strategy[found.first]
    costs = found.transfer_s, found.hops, waits, ones, found.gathers
    return owners, found.last, ones < 0, *costs, found.is_streamed, found.is_own


def global_features(found: Messages, num_strategies: int) -> Floats:
    """z_pre: the largest and the mean of each term for each kind of message, shape (strategies, 12)."""
    columns = []
    terms = np.stack([found.transfer_s, found.overheads, found.copies], 1)
    for kind in (found.is_served, ~found.is_served):
        owners = found.strategy[kind]
        counts = np.maximum(np.bincount(owners, minlength=num_strategies), 1)
        largest = np.zeros((num_strategies, terms.shape[1]), np.float32)
        np.maximum.at(largest, owners, terms[kind])
        sums = [np.bincount(owners, column, num_strategies) / counts for column in terms[kind].T]
        columns += [largest, np.stack(sums, 1).astype(np.float32)]
    return np.concatenate(columns, 1)
