"""The price of an exchange that a computation waits for, in bytes."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from autodist.resource_spec import BYTES_PER_GBIT
from autodist.simulator import Calibration

if TYPE_CHECKING:
    from autodist.resource_spec import ResourceSpec


def bytes_of_an_exchange(spec: ResourceSpec) -> float:
    """The bytes that all hosts together could send in the time that an exchange takes besides that of its bytes.

    A tiling that only moves few bytes may wait for many small exchanges. On fast links these count more.

    Args:
        spec: The hosts; all of them take part.

    Returns:
        0 for one host, where nothing is sent.

    Example:
        >>> from autodist.resource_spec import ResourceSpec
        >>> slow = ResourceSpec.from_yaml("nodes: [{address: 'worker[1-4]', bandwidth_gbps: 1}]")
        >>> fast = ResourceSpec.from_yaml("nodes: [{address: 'worker[1-4]', bandwidth_gbps: 10}]")
        >>> round(bytes_of_an_exchange(slow)), round(bytes_of_an_exchange(fast))
        (180000, 1800000)
    """
    hosts = spec.hosts
    if len(hosts) < 2:
        return 0.0
    links = [spec.link(a.name, b.name) for a, b in combinations(hosts, 2)]
    latency_s = max(link.latency_ms for link in links) / 1e3
    slowest = min(link.bandwidth_gbps for link in links) * BYTES_PER_GBIT
    return Calibration().exchange_s(len(hosts), latency_s, spec.cores_shared_by) * slowest * len(hosts)
