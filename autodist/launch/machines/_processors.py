"""Which workers of a run compute on the same processors, by what their machines say."""

from __future__ import annotations

from autodist.agent import Agent
from autodist.launch.machines._fleet import Fleet
from autodist.remote import Machine
from autodist.resource_spec import CoresOfWorkers, Processors, ResourceSpec, cores_of_workers

_LOOKUP_S = 30.0


async def find_shared_cores(spec: ResourceSpec, fleet: Fleet) -> CoresOfWorkers:
    """Ask all machines for their processors, and see which of these are the same.

    Raises:
        AutoDistError: Machines give no answer; all of them are listed.
    """

    async def ask(_: Machine, agent: Agent) -> Processors:
        return Processors(**await agent.call("hardware.processors", timeout_s=_LOOKUP_S))

    found = await fleet.on_agents(ask)
    return cores_of_workers(spec.hosts, {fleet.machines[machine]: told for machine, told in found.items()})
