"""Is it a Python that AutoDist runs on, the same everywhere?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from autodist.doctor._examination import Examination
from autodist.doctor._finding import Finding, Status

_FIRST, _LAST = (3, 10), (3, 13)


def check_python(examination: Examination) -> Iterator[Finding]:
    """Yield the interpreter of each machine; its minor version must be that of most."""
    minors = [_minor(facts.python) for _, facts in examination.known]
    usual = max(Counter(minors).items(), key=lambda item: item[1])[0] if minors else _FIRST
    for (visit, facts), minor in zip(examination.known, minors, strict=True):
        found = f"Python {facts.python}"
        remedy = f"install Python {'.'.join(map(str, usual))} there, and name it by `python` of the host in the spec"
        if not _FIRST <= minor <= _LAST:
            allowed = f"{found}, AutoDist runs on 3.{_FIRST[1]} to 3.{_LAST[1]}"
            yield Finding(visit.name, "python", Status.FAIL, allowed, remedy)
        elif minor != usual:
            others = f"{found}, other hosts have {'.'.join(map(str, usual))}"
            yield Finding(visit.name, "python", Status.FAIL, others, remedy)
        else:
            yield Finding(visit.name, "python", Status.OK, f"{found}, {facts.executable}")


def _minor(version: str) -> tuple[int, int]:
    major, minor, *_ = version.split(".")
    return int(major), int(minor)
