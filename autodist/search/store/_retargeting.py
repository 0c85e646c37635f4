"""Clusters that differ only in names, logins or prices, and the transfer of strategies between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from autodist.resource_spec import Device
from autodist.strategies import ShardConfig, Strategy

if TYPE_CHECKING:
    from autodist.resource_spec import ResourceSpec


def are_alike(one: ResourceSpec, other: ResourceSpec) -> bool:
    """Whether two clusters differ in names, addresses and logins alone, host by host in their order.

    A run finds out by itself how many workers share processors. A file need not say it, so 1 fits any number.
    """
    shared = zip(one.hosts, other.hosts, strict=False)
    fit = all(1 in (a.cores_shared_by, b.cores_shared_by) or a.cores_shared_by == b.cores_shared_by for a, b in shared)
    return fit and _shape(one) == _shape(other)


def without_access(spec: ResourceSpec) -> ResourceSpec:
    """A cluster without private data of its owner: logins, paths and environment variables."""
    hosts = (replace(host, python=None, directory=None, env=(), ssh=None) for host in spec.hosts)
    return replace(spec, hosts=tuple(hosts))


def hardware_of(spec: ResourceSpec) -> ResourceSpec:
    """A cluster with only what matters for step times: also without prices."""
    bare = without_access(spec)
    return replace(bare, hosts=tuple(replace(host, price_per_hour=None) for host in bare.hosts))


def _shape(spec: ResourceSpec) -> object:
    hosts = [
        (h.cpus, len(h.gpus), len(h.replica_devices), h.bandwidth_gbps, h.memory_gb, h.burst_kb) for h in spec.hosts
    ]
    names = [host.name for host in spec.hosts]
    links = [(spec.link(a, b).bandwidth_gbps, spec.link(a, b).latency_ms) for a in names for b in names if a != b]
    return hosts, links


def retargeted(strategy: Strategy, old: ResourceSpec, new: ResourceSpec) -> Strategy:
    """The same strategy on another cluster: what was on a host is on the one of the same rank.

    Args:
        strategy: For the old cluster.
        old: Its cluster.
        new: One with at least as many hosts.
    """
    names = {a.name: b.name for a, b in zip(old.hosts, new.hosts, strict=False)}
    graph = replace(strategy.graph, replicas=tuple(_moved(device, names) for device in strategy.graph.replicas))
    variables = tuple(
        replace(config, shards=tuple(_shard(shard, names) for shard in config.shards)) for config in strategy.variables
    )
    return replace(strategy, graph=graph, variables=variables)


def _shard(shard: ShardConfig, names: Mapping[str, str]) -> ShardConfig:
    return replace(shard, synchronizer=shard.synchronizer.renamed(lambda device: _moved(device, names)))


def _moved(device: str, names: Mapping[str, str]) -> str:
    parsed = Device.parse(device)
    return replace(parsed, host=names[parsed.host]).name
