"""The time of a step on the hosts, besides the forward and backward pass and the traffic on links."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from autodist.simulator._message_table import SERVER

if TYPE_CHECKING:
    from autodist.simulator._domain import Domain
    from autodist.simulator._message_table import Floats, ShardTable
    from autodist.simulator.formulas._calibration import Calibration


def waiting_s(table: ShardTable, domain: Domain, count: int, calibration: Calibration) -> Floats:
    """Seconds of each strategy in which the computation waits for activations of other replicas.

    Their bytes go over the slowest link, and each exchange takes a while besides.
    """
    hosts = len(domain.replicas)
    if hosts == 1 or not table.waited_bytes.any():
        return np.zeros(count, np.float32)
    latency_s = float(domain.latency_s.max(initial=0))
    wait_s = calibration.exchange_s(hosts, latency_s, domain.spec.cores_shared_by)
    by_shard = table.waited_bytes * np.float64(domain.ring_s_per_byte) + table.waits * np.float64(wait_s)
    found: Floats = np.bincount(table.strategy, by_shard, count).astype(np.float32)
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
    carriers join all in one buffer, and take time for each tensor. A core is free for that unless hosts share cores;
    then one waits for another.

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
    joined_s = np.where(joins, 4 * calibration.message_s, calibration.wake_s * domain.state_messages)
    found: Floats = (shared * (joined_s + tensors * calibration.tensor_s)).astype(np.float32)
    return found
