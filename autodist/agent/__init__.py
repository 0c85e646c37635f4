"""The program that holds workers on a machine, and the launcher's end of the line to it."""

from autodist.agent import _hardware as hardware
from autodist.agent._client import Agent, AgentEvents, Fetched
from autodist.agent._greeting import Greeting
from autodist.agent._versions import compiler, versions

__all__ = ["Agent", "AgentEvents", "Fetched", "Greeting", "compiler", "hardware", "versions"]
