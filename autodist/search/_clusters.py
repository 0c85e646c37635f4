"""Smaller clusters within a cluster: fewer hosts may train slower and yet cheaper."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from autodist.resource_spec import Host, ResourceSpec


def smaller_clusters(spec: ResourceSpec) -> tuple[ResourceSpec, ...]:
    """Nested clusters; each leaves out the host of the one before that gives the least for its price.

    There are two series: by the price of a replica, and by the price of a Gbit/s. Where prices are equal, the host with
    the slowest interface leaves first.

    Args:
        spec: A cluster in which every host has a price.

    Example:
        >>> prices = {"a": 1.0, "b": 3.0, "c": 2.0}
        >>> hosts = (Host(name, name, price_per_hour=price) for name, price in prices.items())
        >>> [[host.name for host in part.hosts] for part in smaller_clusters(ResourceSpec(tuple(hosts)))]
        [['a', 'c'], ['a']]
    """
    found: dict[frozenset[str], None] = {}
    for gives in (_replicas, _bandwidth):
        ordered = sorted(spec.hosts, key=lambda host: ((host.price_per_hour or 0.0) / gives(host), -_bandwidth(host)))
        names = [host.name for host in ordered]
        found.update((frozenset(names[:count]), None) for count in range(len(names) - 1, 0, -1))
    return tuple(cluster_of(spec, names) for names in found)


def _replicas(host: Host) -> float:
    return float(len(host.replica_devices))


def _bandwidth(host: Host) -> float:
    return host.bandwidth_gbps


def cluster_of(spec: ResourceSpec, names: Collection[str]) -> ResourceSpec:
    """The cluster of some of a cluster's hosts, with the links between them; without its chief, the first is it.

    No more workers share processors than there are left.

    Example:
        >>> hosts = [Host(name, name, cores_shared_by=4) for name in "abcd"]
        >>> cluster_of(ResourceSpec(tuple(hosts)), "abd").cores_shared_by
        3
    """
    chosen = [host for host in spec.hosts if host.name in names]
    hosts = (replace(host, cores_shared_by=min(host.cores_shared_by, len(chosen))) for host in chosen)
    return ResourceSpec(tuple(hosts), tuple(link for link in spec.links if {link.a, link.b} <= set(names)))
