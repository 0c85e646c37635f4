"""Has each CPU device a core?"""

from __future__ import annotations

from collections.abc import Iterator

from autodist.doctor._examination import Examination
from autodist.doctor._finding import Finding, Status


def check_cores(examination: Examination) -> Iterator[Finding]:
    """Yield the cores of each machine, compared with the CPU devices that train."""
    for visit, facts in examination.known:
        wanted = sum(host.cpus for host in visit.hosts if not host.gpus)
        found = f"{facts.cores:g} cores" if facts.cores == facts.installed_cores else (
            f"{facts.cores:g} of {facts.installed_cores:g} cores, by affinity or a quota"
        )  # fmt: skip
        if wanted > facts.cores:
            remedy = "give the host fewer `workers` or `cpus` in the spec: devices that share a core only wait"
            yield Finding(visit.name, "cores", Status.WARN, f"{wanted} CPU devices on {found}", remedy)
        else:
            yield Finding(visit.name, "cores", Status.OK, found)
