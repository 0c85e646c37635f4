"""Can workers on each machine connect to those on every other one?"""

from __future__ import annotations

from collections.abc import Iterator

from autodist.doctor._examination import PORTS, Examination
from autodist.doctor._finding import Finding, Status


def check_connections(examination: Examination) -> Iterator[Finding]:
    """Yield whether each machine reaches a port of the others, of the range that servers choose from."""
    for visit, _ in examination.known:
        for other, reason in visit.unreached.items():
            if reason:
                text = f"can't connect to `{other}` on a port from {PORTS[0]} to {PORTS[-1]}: {reason}"
                remedy = f"let the firewall of `{other}` accept TCP on these ports from the hosts of the cluster"
                yield Finding(visit.name, "connections", Status.FAIL, text, remedy)
        if visit.unreached and not any(visit.unreached.values()):
            yield Finding(visit.name, "connections", Status.OK, f"connects to {len(visit.unreached)} other machines")
