"""The launcher's end of the line to an agent."""

from autodist.agent.client._client import Agent, AgentEvents, Fetched
from autodist.agent.client._pauses import Pauses, reason_of_pause

__all__ = [
    "Agent",
    "AgentEvents",
    "Fetched",
    "Pauses",
    "reason_of_pause",
]
