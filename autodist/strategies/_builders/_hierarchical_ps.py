"""Parameter servers to which each host sends the sum of its replicas' gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from autodist.strategies._builders._alias import Alias
from autodist.strategies._builders._ps_load_balancing import PSLoadBalancing
from autodist.strategies._builders._servers import OnlyServers


@final
@dataclass(frozen=True)
class HierarchicalPS(Alias, OnlyServers):
    """Parameter servers; hosts with several replicas sum their gradients on their CPU before these leave the host.

    The two-level reduction and broadcast of thesis 7.3.2 (*transfer destination*): one message per host and variable
    in each direction instead of one per replica. Hosts with one replica have nothing to sum, and send directly. It is
    :class:`PSLoadBalancing` with ``stations``, and has its other parameters.
    """

    name: ClassVar[str] = "HierarchicalPS"

    @property
    def meant(self) -> PSLoadBalancing:
        """See the base class."""
        return PSLoadBalancing(**self.parameters, stations=True)
