"""Reductions and gathers among all workers, each of which holds the variable."""

from autodist.kernels.collectives._all_reduce import AllReduceGradients, AllReduceState
from autodist.kernels.collectives._broadcast import BroadcastFactors
from autodist.kernels.collectives._factor import FactorGradients
from autodist.kernels.collectives._in_turn import InTurn

__all__ = [
    "AllReduceGradients",
    "AllReduceState",
    "BroadcastFactors",
    "FactorGradients",
    "InTurn",
]
