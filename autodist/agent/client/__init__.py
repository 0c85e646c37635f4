"""The launcher's end of the line to an agent."""

from autodist.agent.client._client import Agent, AgentEvents, Fetched

__all__ = [
    "Agent",
    "AgentEvents",
    "Fetched",
]
