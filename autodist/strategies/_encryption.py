"""Which strategies can be run by workers that encrypt what they send each other."""

from __future__ import annotations

from collections.abc import Iterable

from autodist import carriers
from autodist.errors import StrategyError
from autodist.strategies._strategy import Strategy

__all__ = ["check_encryptable", "refuse_in_the_clear"]


def check_encryptable(strategy: Strategy) -> None:
    """See that AutoDist's own library carries all that a strategy sends.

    Raises:
        StrategyError: Something else carries a part of it, and would send it in the clear.

    """
    in_the_clear = strategy.has_servers and not strategy.graph.has_streams
    refuse_in_the_clear(strategy.builder or strategy.id, strategy.carriers, has_servers=in_the_clear)


def refuse_in_the_clear(strategy: str, names: Iterable[str], *, has_servers: bool = False) -> None:
    """Refuse a strategy if any of its carriers can't encrypt.

    Args:
        strategy: What to call it.
        names: Of its carriers.
        has_servers: Whether it has parameter servers that TensorFlow's servers connect.

    Raises:
        StrategyError: One of them can't.

    Example:
        >>> refuse_in_the_clear("AllReduce", ["tcp"])
        >>> refuse_in_the_clear("Horovod", ["horovod", "tcp"])  # doctest: +IGNORE_EXCEPTION_DETAIL
        Traceback (most recent call last):
        StrategyError: the run is to be encrypted (`--encrypt`), but Horovod goes over Horovod, ...

    """
    used = map(carriers.get, names)
    open_ones = sorted({carrier.called for carrier in used if not carrier.encrypts})
    open_ones += ["parameter servers"] if has_servers else []
    if open_ones:
        raise StrategyError(
            f"the run is to be encrypted (`--encrypt`), but {strategy} goes over {' and '.join(open_ones)}, which send "
            "everything in the clear",
            hint="take one over AutoDist's own connections: `--strategy \"AllReduce(communicator='tcp')\"`, or "
            "`\"PartitionedPS(communicator='tcp')\"`; or leave out `--encrypt` and use a private network",
        )
