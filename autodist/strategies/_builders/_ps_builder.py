"""One parameter server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from autodist.strategies._builders._alias import Alias
from autodist.strategies._builders._ps_load_balancing import PSLoadBalancing
from autodist.strategies._builders._servers import OnlyServers


@final
@dataclass(frozen=True)
class PS(Alias, OnlyServers):
    """One parameter server: all variables live on the chief's first CPU.

    The classic parameter server with a single server process, whose link is the bottleneck as soon as there are many
    workers: a baseline, and good for small models. It is :class:`PSLoadBalancing` with one of its ``servers``, and has
    its parameters but that and ``stations``.
    """

    name: ClassVar[str] = "PS"

    @property
    def meant(self) -> PSLoadBalancing:
        """See the base class."""
        return PSLoadBalancing(**self.parameters, servers=1)
