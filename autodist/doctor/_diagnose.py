"""The whole examination of a cluster."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

from autodist.doctor._checks import CHECKS
from autodist.doctor._cluster_agents import connected_agents
from autodist.doctor._examination import Examination
from autodist.doctor._finding import Finding, Status
from autodist.doctor._probe_pairs import MeasuredLink, measure_links
from autodist.remote import Transport
from autodist.resource_spec import ResourceSpec

_MUCH = 2.0
"""Times that what the spec says may differ from what was measured."""
_LEAST_GAIN_S = 1e-3
"""The time on the link that a difference must be worth."""


@dataclass(frozen=True)
class Diagnosis:
    """The findings about a cluster.

    Attributes:
        examination: The machines.
        findings: Those of each check and machine.
        links: Those that were measured; none unless that was asked for.
    """

    examination: Examination
    findings: tuple[Finding, ...]
    links: tuple[MeasuredLink, ...] = ()

    @property
    def worst(self) -> Status:
        """The worst of all findings."""
        order = list(Status)
        return max((finding.status for finding in self.findings), key=order.index, default=Status.OK)


def _no_note(text: str) -> None:
    return


def diagnose(
    spec: ResourceSpec,
    transport: Transport,
    *,
    probe: bool = False,
    timeout_s: float = 30.0,
    note: Callable[[str], None] = _no_note,
) -> Diagnosis:
    """Look at all machines of a cluster at once; nothing is changed there and nothing is left behind.

    Args:
        spec: The cluster.
        transport: How to reach machines other than this one; closed afterwards.
        probe: Whether to measure bandwidth, bursts and latency between all pairs.
        timeout_s: Longest time until a machine has answered, > 0.
        note: Is told what happens.
    """

    async def examined() -> tuple[Examination, tuple[MeasuredLink, ...]]:
        async with connected_agents(spec, transport, timeout_s=timeout_s, note=note) as cluster_agents:
            return cluster_agents.examination, await measure_links(cluster_agents, note) if probe else ()

    examination, links = asyncio.run(examined())
    findings = tuple(chain.from_iterable(check(examination) for check in CHECKS))
    return Diagnosis(examination, (*findings, *_unmeasured(links), *_bursts(examination, links)), links)


def _unmeasured(links: tuple[MeasuredLink, ...]) -> list[Finding]:
    remedy = "see what the check `connections` says of the two machines"
    return [
        Finding(link.a, "probe", Status.WARN, f"the link to `{link.b}` can't be measured: {link.error}", remedy)
        for link in links
        if link.error
    ]


def _bursts(examination: Examination, links: tuple[MeasuredLink, ...]) -> Iterator[Finding]:
    """Yield where a machine's link passes much more, or much less, at once than the spec says."""
    for visit in examination.visits:
        sent = [(link.there_burst_kb, link.there_gbps) for link in links if link.a == visit.name]
        sent += [(link.back_burst_kb, link.back_gbps) for link in links if link.b == visit.name]
        known = [(kb, gbps) for kb, gbps in sent if kb is not None]
        if not known:
            continue
        measured, gbps = statistics.median(kb for kb, _ in known), statistics.median(gbps for _, gbps in known)
        said = max(host.burst_kb for host in visit.hosts)
        is_alike = measured / _MUCH <= said <= measured * _MUCH
        if not is_alike and abs(measured - said) * 8e-6 / gbps >= _LEAST_GAIN_S:
            text = f"its link passes {measured:.3g} KB at once after a rest, the spec says {said:.3g}"
            remedy = f"write `burst_kb: {measured:.3g}` in the spec: simulators then know what small messages cost"
            yield Finding(visit.name, "burst", Status.WARN, text, remedy)
