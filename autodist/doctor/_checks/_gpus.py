"""Are the GPUs of the spec there, and does it use those that are there?"""

from __future__ import annotations

from collections.abc import Iterator

from autodist.doctor._examination import Examination
from autodist.doctor._finding import Finding, Status


def check_gpus(examination: Examination) -> Iterator[Finding]:
    """Yield the GPUs of each machine, compared with those of its hosts."""
    for visit, facts in examination.known:
        wanted = {gpu for host in visit.hosts for gpu in host.gpus}
        missing, idle = sorted(wanted - set(facts.gpus)), sorted(set(facts.gpus) - wanted)
        found = _listed(sorted(facts.gpus))
        if missing:
            remedy = "correct `gpus` of the host in the spec, or see what `nvidia-smi` says there"
            text = f"the spec has {_listed(missing)}, there {'is' if len(facts.gpus) == 1 else 'are'} {found}"
            yield Finding(visit.name, "gpus", Status.FAIL, text, remedy)
        elif idle:
            remedy = f"write `gpus: {len(facts.gpus)}` for the host in the spec to train on all of them"
            yield Finding(visit.name, "gpus", Status.WARN, f"{_listed(idle)} not used by the spec", remedy)
        else:
            yield Finding(visit.name, "gpus", Status.OK, found)


def _listed(gpus: list[int]) -> str:
    if not gpus:
        return "no GPU"
    return f"GPU {gpus[0]}" if len(gpus) == 1 else f"GPUs {', '.join(map(str, gpus))}"
