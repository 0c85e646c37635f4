"""Can the machine be reached, and is it the one that is known?"""

from __future__ import annotations

from collections.abc import Iterator

from autodist.doctor._examination import Examination
from autodist.doctor._finding import Finding, Status

__all__ = ["check_reachable"]


def check_reachable(examination: Examination) -> Iterator[Finding]:
    """Yield how each machine was reached, or why not; a wrong host key has a check of its own."""
    for visit in examination.visits:
        if visit.error is None:
            how = "this machine" if visit.is_here else "reached, its host key is the known one"
            yield Finding(visit.name, "reachable", Status.OK, how)
            continue
        check = "host-key" if "host key" in visit.error.message else "reachable"
        remedy = visit.error.hint or f"see what `ssh {visit.name}` says"
        yield Finding(visit.name, check, Status.FAIL, visit.error.message, remedy)
