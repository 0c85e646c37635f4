"""Has each CPU device a core?"""

from __future__ import annotations

from collections.abc import Iterator

from autodist.doctor._examination import Examination
from autodist.doctor._finding import Finding, Status
from autodist.resource_spec import cores_of_workers


def check_cores(examination: Examination) -> Iterator[Finding]:
    """Yield the cores of each machine, compared with the CPU devices that train."""
    shared_by = _shared_by(examination)
    for visit, facts in examination.known:
        wanted = sum(host.cpus for host in visit.hosts if not host.gpus)
        found = f"{facts.cores:g} cores" if facts.cores == facts.installed_cores else (
            f"{facts.cores:g} of {facts.installed_cores:g} cores, by affinity or a quota"
        )  # fmt: skip
        if wanted > facts.cores:
            remedy = "give the host fewer `workers` or `cpus` in the spec: devices that share a core only wait"
            yield Finding(visit.name, "cores", Status.WARN, f"{wanted} CPU devices on {found}", remedy)
        elif shared_by.get(visit.name, 1) > max(host.cores_shared_by for host in visit.hosts):
            shared = shared_by[visit.name]
            remedy = f"write `cores_shared_by: {shared}` in the spec: a run finds out by itself, simulators do not"
            yield Finding(visit.name, "cores", Status.WARN, f"{found}, on which {shared} workers compute", remedy)
        else:
            yield Finding(visit.name, "cores", Status.OK, found)


def _shared_by(examination: Examination) -> dict[str, int]:
    """By machine, how many workers compute on its processors, if these are another machine's as well."""
    known = examination.known
    ranks = {visit.name: tuple(map(examination.spec.hosts.index, visit.hosts)) for visit, _ in known}
    found = cores_of_workers(
        examination.spec.hosts, {ranks[visit.name]: facts.processors for visit, facts in known}
    ).shared_by
    kernels = [facts.processors.kernel for _, facts in known]
    return {
        visit.name: found[ranks[visit.name][0]] for visit, facts in known if kernels.count(facts.processors.kernel) > 1
    }
