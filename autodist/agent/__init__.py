"""The program that holds workers on a machine, and the launcher's end of the line to it."""

from autodist.agent.client import Agent, AgentEvents, Fetched, Pauses, reason_of_pause
from autodist.agent.machine import compiler, hardware, versions
from autodist.agent.protocol import Greeting

__all__ = [
    "Agent",
    "AgentEvents",
    "Fetched",
    "Greeting",
    "Pauses",
    "compiler",
    "hardware",
    "reason_of_pause",
    "versions",
]
