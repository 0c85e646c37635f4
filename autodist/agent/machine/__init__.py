"""Facts about a machine and its surroundings; runs on the machine."""

from autodist.agent.machine import _hardware as hardware
from autodist.agent.machine._versions import compiler, versions

__all__ = ["compiler", "hardware", "versions"]
