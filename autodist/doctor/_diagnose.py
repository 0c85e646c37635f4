"""The whole examination of a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain

from autodist.doctor._checks import CHECKS
from autodist.doctor._cluster_agents import connected_agents
from autodist.doctor._examination import Examination
from autodist.doctor._finding import Finding, Status
from autodist.doctor._probe_pairs import MeasuredLink, measure_links
from autodist.remote import Transport
from autodist.resource_spec import ResourceSpec


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
        probe: Whether to measure bandwidth and latency between all pairs.
        timeout_s: Longest time until a machine has answered, > 0.
        note: Is told what happens.
    """

    async def examined() -> tuple[Examination, tuple[MeasuredLink, ...]]:
        async with connected_agents(spec, transport, timeout_s=timeout_s, note=note) as cluster_agents:
            return cluster_agents.examination, await measure_links(cluster_agents, note) if probe else ()

    examination, links = asyncio.run(examined())
    findings = tuple(chain.from_iterable(check(examination) for check in CHECKS))
    return Diagnosis(examination, (*findings, *_unmeasured(links)), links)


def _unmeasured(links: tuple[MeasuredLink, ...]) -> list[Finding]:
    remedy = "see what the check `connections` says of the two machines"
    return [
        Finding(link.a, "probe", Status.WARN, f"the link to `{link.b}` can't be measured: {link.error}", remedy)
        for link in links
        if link.error
    ]
