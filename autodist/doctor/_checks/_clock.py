"""Do the clocks agree?"""

from __future__ import annotations

from collections.abc import Iterator

from autodist.doctor._examination import Examination
from autodist.doctor._finding import Finding, Status

_MOST_S = 1.0


def check_clock(examination: Examination) -> Iterator[Finding]:
    """Yield by how much each clock differs from ours; beyond a second, log lines and file times mislead."""
    for visit, _ in examination.known:
        ahead_s = visit.clock_ahead_s
        found = f"{abs(ahead_s) * 1e3:.0f} ms" if abs(ahead_s) < _MOST_S else f"{abs(ahead_s):.1f} s"
        text = f"{found} {'ahead of' if ahead_s > 0 else 'behind'} this machine's clock"
        if abs(ahead_s) - visit.clock_error_s > _MOST_S:
            remedy = "have it keep its time: `timedatectl set-ntp true`, or chrony"
            yield Finding(visit.name, "clock", Status.WARN, text, remedy)
        else:
            yield Finding(visit.name, "clock", Status.OK, text)
