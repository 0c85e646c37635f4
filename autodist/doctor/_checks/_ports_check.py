"""Are there ports for the workers' servers?"""

from __future__ import annotations

from collections.abc import Iterator

from autodist.doctor._examination import PORTS, Examination
from autodist.doctor._finding import Finding, Status

_LEAST = 0.5


def check_ports(examination: Examination) -> Iterator[Finding]:
    """Yield which part of the ports that servers choose from is free."""
    for visit, facts in examination.known:
        found = f"{facts.free_ports:.0%} of the ports {PORTS[0]} to {PORTS[-1]} are free"
        if facts.free_ports >= _LEAST:
            yield Finding(visit.name, "ports", Status.OK, found)
            continue
        remedy = "see who has them: `ss -tanp | grep -E ':2[0-9]{4}|:3[01][0-9]{3}'` there"
        yield Finding(visit.name, "ports", Status.WARN if facts.free_ports else Status.FAIL, found, remedy)
