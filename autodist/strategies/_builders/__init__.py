"""The builders, one file each; ``_base`` says what a builder is."""

from autodist.strategies._builders._all_reduce import AllReduce
from autodist.strategies._builders._base import StrategyBuilder
from autodist.strategies._builders._ps_load_balancing import PSLoadBalancing

__all__ = ["BUILDERS", "AllReduce", "PSLoadBalancing", "StrategyBuilder"]

BUILDERS: tuple[type[StrategyBuilder], ...] = (AllReduce, PSLoadBalancing)
"""Those that :func:`autodist.strategies.get` knows by name."""
