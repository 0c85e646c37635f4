"""Is there what builds AutoDist's own library, and Horovod?"""

from __future__ import annotations

from collections.abc import Iterator

from autodist.doctor._examination import Examination
from autodist.doctor._finding import Finding, Status
from autodist.installation import COMPILER_REMEDY, COSTS


def check_compiler(examination: Examination) -> Iterator[Finding]:
    """Yield the compiler of each machine: without one nothing fails, what is to be built is just not there."""
    for visit, facts in examination.known:
        if facts.compiler:
            yield Finding(visit.name, "compiler", Status.OK, facts.compiler)
        else:
            text = f"there is no compiler of C++; that costs {COSTS['compiler']}"
            yield Finding(visit.name, "compiler", Status.OK, text, COMPILER_REMEDY)
