"""May a process have enough files and connections open?"""

from __future__ import annotations

from collections.abc import Iterator

from autodist.doctor._examination import Examination
from autodist.doctor._finding import Finding, Status

_BASE, _PER_WORKER = 512, 16


def check_limits(examination: Examination) -> Iterator[Finding]:
    """Yield how many files a process may have open: TensorFlow's own, and some connections to each other worker."""
    least = _BASE + _PER_WORKER * examination.spec.world_size
    for visit, facts in examination.known:
        if 0 <= facts.open_files < least:
            remedy = f"raise `nofile` in its /etc/security/limits.conf to {max(4096, least)} or more"
            text = f"{facts.open_files} open files allowed, {least} may be needed"
            yield Finding(visit.name, "limits", Status.WARN, text, remedy)
        else:
            allowed = "any number of" if facts.open_files < 0 else facts.open_files
            yield Finding(visit.name, "limits", Status.OK, f"{allowed} open files allowed")
