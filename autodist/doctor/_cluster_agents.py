"""Agents on all machines of a cluster that can be reached, and what they are asked."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autodist.agent import Agent
from autodist.doctor._examination import PORTS, Examination, MachineFacts, MachineVisit
from autodist.errors import AutoDistError
from autodist.remote import LocalTransport, Machine, Transport, machines_of
from autodist.resource_spec import ResourceSpec

_MOST_LOGINS = 16  # handshakes at once: they cost this machine's one core
_FACTS_TIMEOUT_S = 60.0
_REACH_TIMEOUT_S = 5.0
_LIFETIME_S = 3600.0
_CLOCK_ROUNDS = 5


class _Silence:
    """Receives events of workers; these agents have none."""

    def output(self, rank: int, is_error: bool, data: bytes) -> None:
        """Do nothing: there are no workers."""

    def exited(self, rank: int, exit_code: int | None, signal: str | None) -> None:
        """Do nothing: there are no workers."""

    def lost(self, machine: Machine, reason: str) -> None:
        """Do nothing: the next question to the agent fails."""


@dataclass(frozen=True)
class ReachedHost:
    """A machine with an agent that others can connect to.

    Attributes:
        visit: What is known of it.
        agent: The agent that answers there.
        port: Where it listens; 0 if it can't.
    """

    visit: MachineVisit
    agent: Agent
    port: int = 0

    @property
    def target(self) -> tuple[str, str, int]:
        """Name, address and port, for the others."""
        facts = self.visit.facts
        return (self.visit.name, (facts.address if facts else "") or self.visit.name, self.port)


@dataclass(frozen=True)
class ClusterAgents:
    """All machines of a cluster, for as long as their agents run.

    Attributes:
        spec: The cluster.
        visits: One per machine, by rank; with errors for those that could not be reached.
        machines: The machines that could be reached.
        token: What machines say to each other before anything else.
    """

    spec: ResourceSpec
    visits: tuple[MachineVisit, ...]
    machines: tuple[ReachedHost, ...]
    token: str

    @property
    def examination(self) -> Examination:
        """The facts that are known by now."""
        return Examination(self.spec, self.visits)


@contextlib.asynccontextmanager
async def connected_agents(
    spec: ResourceSpec, transport: Transport, *, timeout_s: float, note: Callable[[str], None]
) -> AsyncIterator[ClusterAgents]:
    """Reach all machines of a cluster and look at each; unreachable ones don't stop the others.

    Args:
        spec: The cluster.
        transport: How to reach machines other than this one.
        timeout_s: Longest time until an agent has answered.
        note: Is told what happens.
    """
    places = _places(spec)
    note(f"reaching {len(places)} machine{'s' if len(places) > 1 else ''}")
    here = LocalTransport()
    room = asyncio.Semaphore(_MOST_LOGINS)
    agents: list[Agent] = []

    async def visited(visit: MachineVisit) -> tuple[MachineVisit, Agent | None]:
        async with room:
            try:
                agent = await Agent.start(
                    here if visit.is_here else transport, visit.machine,
                    run_id=f"doctor-{secrets.token_hex(4)}", events=_Silence(), timeout_s=timeout_s,
                )  # fmt: skip
            except AutoDistError as error:
                note(f"{visit.name} can't be reached")
                return replace(visit, error=error), None
        agents.append(agent)
        others = [other.name for other in places if other.name != visit.name]
        try:
            return await _examined(visit, agent, others), agent
        except AutoDistError as error:
            return replace(visit, error=error), None

    try:
        found = await asyncio.gather(*map(visited, places))
        yield await _introduced(spec, found, secrets.token_hex(32))
    finally:
        await asyncio.gather(*(agent.close() for agent in agents))
        await transport.close()


def _places(spec: ResourceSpec) -> list[MachineVisit]:
    """Return the machines of a spec; loopback addresses are all this one."""
    places: dict[tuple[bool, Machine | None], MachineVisit] = {}
    for machine, ranks in machines_of(spec).items():
        hosts = tuple(spec.hosts[rank] for rank in ranks)
        is_here = hosts[0].is_local
        # Two names of this machine are one place, and it is reached without SSH.
        key = (True, None) if is_here else (False, machine)
        known = places.get(key)
        # Here the virtual environment is the one that this runs in, whatever a login would activate.
        place = replace(machine, ssh=None) if is_here else machine
        places[key] = replace(known, hosts=known.hosts + hosts) if known else MachineVisit(place, hosts, is_here)
    return list(places.values())


async def _examined(visit: MachineVisit, agent: Agent, others: Sequence[str]) -> MachineVisit:
    """Ask a machine about itself, and for its time."""
    ahead_s, error_s = await _clock(agent)
    told = await agent.call(
        "facts.gather",
        timeout_s=_FACTS_TIMEOUT_S,
        directory=visit.machine.directory or str(Path.cwd()),
        name=visit.name,
        others=list(others),
        first_port=PORTS[0],
        last_port=PORTS[-1],
    )
    return replace(visit, facts=MachineFacts.from_json(told), clock_ahead_s=ahead_s, clock_error_s=error_s)


async def _clock(agent: Agent) -> tuple[float, float]:
    """Return by how much a machine's clock is ahead of ours, and how wrong that may be, by the quickest answer."""
    answers = []
    for _ in range(_CLOCK_ROUNDS):
        before, started = time.time(), time.monotonic()
        told = await agent.call("facts.clock")
        trip_s = time.monotonic() - started
        answers.append((trip_s, clock_difference(before, trip_s, told)))
    trip_s, ahead_s = min(answers)
    return ahead_s, trip_s / 2


def clock_difference(asked_at: float, trip_s: float, told: float) -> float:
    """Return by how much a clock is ahead that said ``told`` when it was asked; the way there and back take the same.

    Example:
        >>> clock_difference(asked_at=100.0, trip_s=0.2, told=105.1)
        5.0
    """
    return told - (asked_at + trip_s / 2)


async def _introduced(
    spec: ResourceSpec, found: Sequence[tuple[MachineVisit, Agent | None]], token: str
) -> ClusterAgents:
    """Have all machines listen, and each try to connect to all others."""
    machines = [ReachedHost(visit, agent) for visit, agent in found if agent is not None]
    if len(machines) > 1:
        machines = list(await asyncio.gather(*(_listening(machine, token) for machine in machines)))
        machines = list(await asyncio.gather(*(_connecting(machine, machines, token) for machine in machines)))
    known: Mapping[str, MachineVisit] = {machine.visit.name: machine.visit for machine in machines}
    visits = tuple(known.get(visit.name, visit) for visit, _ in found)
    return ClusterAgents(spec, visits, tuple(machines), token)


async def _listening(machine: ReachedHost, token: str) -> ReachedHost:
    _, address, _ = machine.target
    asked: Awaitable[int] = machine.agent.call(
        "probe.listen", address=address, first_port=PORTS[0], last_port=PORTS[-1], token=token, lifetime_s=_LIFETIME_S
    )
    try:
        return replace(machine, port=await asked)
    except AutoDistError:
        return machine


async def _connecting(machine: ReachedHost, machines: Sequence[ReachedHost], token: str) -> ReachedHost:
    others = [other for other in machines if other.visit.name != machine.visit.name]
    deaf = {other.visit.name: "nothing can listen there" for other in others if not other.port}
    targets = [other.target for other in others if other.port]
    try:
        heard: dict[str, str] = await machine.agent.call(
            "probe.reach", targets=targets, token=token, patience_s=_REACH_TIMEOUT_S
        )
    except AutoDistError as error:
        heard = {name: error.message for name, _, _ in targets}
    return replace(machine, visit=replace(machine.visit, unreached={**heard, **deaf}))
