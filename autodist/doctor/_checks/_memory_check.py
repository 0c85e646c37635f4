"""Is there as much memory as the spec says, and is it free?"""

from __future__ import annotations

from collections.abc import Iterator

from autodist.doctor._examination import Examination
from autodist.doctor._finding import Finding, Status

_LEAST_BYTES = 1e9  # about what TensorFlow itself needs


def check_memory(examination: Examination) -> Iterator[Finding]:
    """Yield the memory of each machine."""
    for visit, facts in examination.known:
        total_gb, available_gb = facts.memory_bytes / 1e9, facts.available_bytes / 1e9
        promised_gb = sum(host.memory_gb or 0.0 for host in visit.hosts)
        found = f"{available_gb:.1f} of {total_gb:.1f} GB free"
        if promised_gb > total_gb * 1.01:
            remedy = f"write `memory_gb: {total_gb / len(visit.hosts):.1f}` for the host in the spec"
            yield Finding(visit.name, "memory", Status.WARN, f"{found}, the spec says {promised_gb:g} GB", remedy)
        elif facts.available_bytes < _LEAST_BYTES * len(visit.hosts):
            remedy = "end what else runs there; each worker needs about 1 GB for TensorFlow alone"
            yield Finding(visit.name, "memory", Status.WARN, found, remedy)
        else:
            yield Finding(visit.name, "memory", Status.OK, found)
