"""The carriers that a run may use: one that encrypts, or opens no ports to others, can't use all of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from autodist import carriers
from autodist.carriers import Carrier
from autodist.errors import StrategyError
from autodist.strategies._builders import StrategyBuilder
from autodist.strategies._strategy import Strategy


@dataclass(frozen=True)
class Permission:
    """The ways by which a run may send its values.

    Attributes:
        encrypts: Whether all that goes to other machines is encrypted.
        opens_ports: Whether TensorFlow's servers may be started, whose ports run code for the cluster's machines.

    Example:
        >>> sorted(Permission().carriers), sorted(Permission(encrypts=True).carriers)
        (['horovod', 'tcp'], ['tcp'])
    """

    encrypts: bool = False
    opens_ports: bool = False

    def allows(self, carrier: Carrier) -> bool:
        """Whether a carrier may be used."""
        if self.encrypts:
            return carrier.encrypts
        return self.opens_ports or not carrier.needs_servers

    @property
    def carriers(self) -> frozenset[str]:
        """Names of all carriers that may be used."""
        return frozenset(carriers.names_of(self.allows))

    def why_not(self, strategy: Strategy) -> str:
        """Return in a few words why a strategy is not allowed; empty if it is.

        Example:
            >>> from autodist.strategies import GraphConfig
            >>> Permission().why_not(Strategy(GraphConfig(("a:CPU:0",), "collective"), ()))
            "TensorFlow's collectives need `--allow-open-ports`"
        """
        refused = " and ".join(self._refused(strategy.carriers))
        what = "can't be encrypted" if self.encrypts else "need `--allow-open-ports`"
        return f"{refused} {what}" if refused else ""

    def check(self, strategy: Strategy) -> None:
        """Check that all carriers of a strategy are allowed.

        Raises:
            StrategyError: Something is not.
        """
        self._check(_name(strategy), strategy.carriers)

    def check_chosen(self, text: str, chosen: Strategy | StrategyBuilder, installed: Collection[str]) -> None:
        """Check that a wanted strategy is allowed, as far as that is known before it is built.

        Args:
            text: The name of the strategy, for messages.
            chosen: A strategy, or its builder.
            installed: The installed communicators, the fastest first.

        Raises:
            StrategyError: Its carrier is not allowed.
        """
        if isinstance(chosen, Strategy):
            self.check(chosen)
        elif chosen.chooses:
            if not any(self.allows(carriers.get(name)) for name in installed):
                self._check(text, installed)  # no installed carrier is allowed
        elif chosen.tells_carriers:
            self._check(text, chosen.carriers(tuple(installed)))

    def _check(self, strategy: str, names: Iterable[str]) -> None:
        message = self._refusal(strategy, names)
        if message:
            raise StrategyError(message, hint=self._hint())

    def _refusal(self, strategy: str, names: Iterable[str]) -> str:
        refused = self._refused(names)
        if not refused:
            return ""
        goes_over = f"{strategy} goes over {' and '.join(refused)}"
        if self.encrypts:
            return (
                f"the run is to be encrypted (`--encrypt`), but {goes_over}, so everything would be sent in the clear"
            )
        return (
            f"{goes_over}, which open ports that run code for all machines of the cluster and for anybody who sends "
            "packets in their name; this run may not open them without `--allow-open-ports`"
        )

    def _refused(self, names: Iterable[str]) -> list[str]:
        """Names, for sentences, of the ways that are not allowed."""
        return sorted({carrier.called for carrier in map(carriers.get, names) if not self.allows(carrier)})

    def _hint(self) -> str:
        own = carriers.carrier_of_servers()
        named = f"`--strategy \"AllReduce(communicator='{own}')\"`, or `\"PartitionedPS(communicator='{own}')\"`"
        instead = f"take one over AutoDist's own connections: {named}"
        if self.encrypts:
            return f"{instead}; or leave out `--encrypt` and use a private network"
        allowed = "allow it on a network that you trust: `autodist run --allow-open-ports`"
        if own in carriers.installed_communicators():
            return f"{instead}; or {allowed}"
        return (
            f"{allowed}; or install AutoDist where there is a compiler (`apt-get install g++`), for its own connections"
        )


def needs_servers(strategy: Strategy) -> bool:
    """Whether workers reach each other through TensorFlow's servers: its collectives do so."""
    return any(carriers.get(name).needs_servers for name in strategy.carriers)


def _name(strategy: Strategy) -> str:
    return strategy.builder or strategy.id
