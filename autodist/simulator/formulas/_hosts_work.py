"""The time of a step on the hosts, besides the forward and backward pass and the traffic on links."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from autodist.simulator._message_table import SERVER

if TYPE_CHECKING:
    from autodist.simulator._domain import Domain
    from autodist.simulator._message_table import Floats, ShardTable
    from autodist.simulator.formulas._calibration import Calibration

_TENSORS_OF_CALL = 2.4
"""The processors' time of a call of a ring, as a multiple of that of a tensor: 0.12 ms on 8 and 16 hosts."""
_MEETINGS = 4
"""How many times a step waits for statistics and losses that are joined in buffers."""


def exchanged_s(table: ShardTable, domain: Domain, count: int) -> Floats:
    """By link, those for sending by host, then those for receiving: seconds of each strategy's exchanged activations.

    Each host sends as much to each other one.
    """
    hosts = len(domain.replicas)
    if hosts == 1 or not table.waited_bytes.any():
        return np.zeros((2 * hosts, count), np.float32)
    sent_bytes = np.bincount(table.strategy, table.waited_bytes, count)
    per_byte = domain.seconds_per_byte.sum(1) / (hosts - 1)
    found: Floats = np.outer(np.tile(per_byte, 2), sent_bytes).astype(np.float32)
    return found


def waiting_s(
    on_links: Floats, others_s: Floats | float, table: ShardTable, domain: Domain, calibration: Calibration
) -> Floats:
    """Seconds of each strategy in which the computation waits for activations of other replicas.

    Exchanges are taken to be of equal size, evenly spread over the computation. Each takes a while besides its bytes.
    A link passes at once what its token bucket holds. The rest is waited for: in each exchange, what is larger than a
    full bucket; over the whole step, what does not pass while the computation between the first exchange and the last
    goes on and fills it again; gradients that leave meanwhile take of it as well.

    Args:
        on_links: What :func:`exchanged_s` has found.
        others_s: By strategy, how long gradients keep the busiest link busy while the computation goes on.
        table: Shards.
        domain: The domain that they are for.
        calibration: The times of exchanges and of the computation.
    """
    hosts, count = len(domain.replicas), on_links.shape[1]
    if not on_links.any():
        return np.zeros(count, np.float32)
    latency_s = float(domain.latency_s.max(initial=0))
    waits = np.bincount(table.strategy, table.waits, count)
    of_one_s = calibration.exchange_s(hosts, latency_s, domain.spec.cores_shared_by)
    alone_s = waits * of_one_s
    at_once_s = domain.burst_s[:, None]
    by_exchange = on_links - waits * at_once_s
    between = np.maximum(waits - 1, 0) / (waits + 1)
    refilled_s = between * (domain.compute_s * calibration.computation) + np.maximum(alone_s - of_one_s, 0)
    by_step = on_links + others_s - at_once_s - refilled_s
    lacking_s = np.minimum(np.maximum(by_exchange, by_step), on_links).max(0).clip(min=0)
    found: Floats = (alone_s + lacking_s).astype(np.float32)
    return found


def rebuilding_s(table: ShardTable, domain: Domain, count: int) -> Floats:
    """Seconds of each strategy in which each host computes for others' examples: gradients from factors, repeated work.

    The part for its own examples belongs to the step. Hosts that share cores are slower by the same factor as in the
    step.
    """
    if not table.rebuilt_flops.any():
        return np.zeros(count, np.float32)
    others = domain.batch_size * (1 - 1 / float(domain.replicas.sum()))
    seconds = table.rebuilt_flops * (others * domain.slowdown / domain.flops_per_s)
    found: Floats = np.bincount(table.strategy, seconds, count).astype(np.float32)
    return found


def handling_s(table: ShardTable, domain: Domain, count: int, calibration: Calibration) -> Floats:
    """Seconds of each strategy in which processors hand tensors to carriers, and join statistics and losses.

    Over AutoDist's own library each statistic is a message of its own, to the host that sums it and back; other
    carriers join all in few buffers, and take time for each tensor. Horovod's buffers are messages; those of
    TensorFlow's collectives go around a ring of calls. A core is free for that unless hosts share cores; then one waits
    for another.

    Args:
        table: Shards.
        domain: The domain that they are for.
        count: How many strategies there are.
        calibration: The times of messages and tensors.
    """
    shared = domain.spec.cores_shared_by
    if len(domain.replicas) == 1 or shared == 1:
        return np.zeros(count, np.float32)
    is_served = table.kind == SERVER
    joins = np.bincount(table.strategy, ~is_served & ~table.is_direct, count) > 0
    is_own = table.is_direct | (is_served & table.has_own_connections)
    tensors = np.bincount(table.strategy, ~is_own & (table.messages > 0), count)
    of_meeting_s = np.where(_rings(table, count) > 0, _ring_s(domain, calibration), calibration.message_s)
    joined_s = np.where(joins, _MEETINGS * of_meeting_s, calibration.wake_s * domain.state_messages)
    found: Floats = (shared * (joined_s + tensors * calibration.tensor_s)).astype(np.float32)
    return found


def calling_s(table: ShardTable, domain: Domain, count: int, calibration: Calibration) -> Floats:
    """Seconds of each strategy in which processors make the calls of gradients' rings by TensorFlow's collectives.

    They make calls while the step waits for links. But where hosts share cores, a step takes at least as long as these
    calls and the computation together.

    Args:
        table: Shards.
        domain: The domain that they are for.
        count: How many strategies there are.
        calibration: The time of tensors.
    """
    shared = domain.spec.cores_shared_by
    if shared == 1:
        return np.zeros(count, np.float32)
    found: Floats = (_rings(table, count) * (shared * _ring_s(domain, calibration))).astype(np.float32)
    return found


def _rings(table: ShardTable, count: int) -> Floats:
    """In how many rings by TensorFlow's collectives gradients go in each strategy."""
    shards, _, first, _, _ = table.collected
    owners = shards.strategy[first][~shards.has_own_connections[first]]
    return np.bincount(owners, minlength=count).astype(np.float32)


def _ring_s(domain: Domain, calibration: Calibration) -> float:
    """The processors' time of a host for its calls of a ring, which goes around twice."""
    return 2 * (len(domain.replicas) - 1) * _TENSORS_OF_CALL * calibration.tensor_s
