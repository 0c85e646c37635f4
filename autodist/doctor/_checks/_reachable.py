"""Can the machine be reached, and is it the one that is known?"""

from __future__ import annotations

from collections.abc import Iterator

from autodist.doctor._examination import Examination
from autodist.doctor._finding import Finding, Status
from autodist.errors import HostUnreachable


def check_reachable(examination: Examination) -> Iterator[Finding]:
    """Yield how each machine was reached, or why not; a wrong host key has a check of its own."""
    for visit in examination.visits:
        if visit.error is None:
            how = "this machine" if visit.is_here else "reached"
            yield Finding(visit.name, "reachable", Status.OK, how)
            continue
        check = "host-key" if "host key" in visit.error.message else "reachable"
        # An agent that answers no question was reached, but something there hangs.
        is_away = isinstance(visit.error, HostUnreachable)
        stuck = "does a network file system hang there? See what `df` and `dmesg` say"
        remedy = visit.error.hint or (f"see what `ssh {visit.name}` says" if is_away else stuck)
        yield Finding(visit.name, check, Status.FAIL, visit.error.message, remedy)
