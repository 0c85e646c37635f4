"""The checks, one per file."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from autodist.doctor._checks._address import check_address
from autodist.doctor._checks._clock import check_clock
from autodist.doctor._checks._compiler import check_compiler
from autodist.doctor._checks._connections_check import check_connections
from autodist.doctor._checks._cores import check_cores
from autodist.doctor._checks._disk_check import check_disk
from autodist.doctor._checks._gpus import check_gpus
from autodist.doctor._checks._limits import check_limits
from autodist.doctor._checks._memory_check import check_memory
from autodist.doctor._checks._network_check import check_network
from autodist.doctor._checks._packages import check_packages
from autodist.doctor._checks._ports_check import check_ports
from autodist.doctor._checks._python import check_python
from autodist.doctor._checks._reachable import check_reachable
from autodist.doctor._examination import Examination
from autodist.doctor._finding import Finding

__all__ = ["CHECKS", "Check"]

Check: TypeAlias = Callable[[Examination], Iterator[Finding]]

CHECKS: tuple[Check, ...] = (
    check_reachable,
    check_python,
    check_packages,
    check_compiler,
    check_cores,
    check_memory,
    check_gpus,
    check_disk,
    check_limits,
    check_clock,
    check_address,
    check_network,
    check_ports,
    check_connections,
)
"""In the order in which one would repair things."""
