"""Finds the variables whose gradients can travel as sufficient factors, and those for which that is cheaper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autodist.cost import broadcast_floats, server_floats

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph, Variable


def has_factors(graph: TrainingGraph, variable: Variable) -> bool:
    """Whether a variable's gradients are products over the batch; without the graph's ops that is not known."""
    from autodist.graph import factors_of

    return factors_of(graph, variable.name).obstacle is None


def factors_are_cheaper(graph: TrainingGraph, variable: Variable, *, workers: int, servers: int, examples: int) -> bool:
    """Poseidon's choice for one variable (BestScheme, thesis algorithm 2), in bytes.

    Where the traced shapes don't tell how many rows an example gives, as with sequences of any length, it says no.

    Args:
        graph: G.
        variable: The variable.
        workers: Number of workers, P1.
        servers: Number of servers, P2.
        examples: Examples of one worker; a layer on sequences has as many pairs of factors per example as time steps.
    """
    from autodist.graph import factors_of

    factors = factors_of(graph, variable.name)
    if factors.obstacle is not None or factors.rows_per_example is None:
        return False
    by_servers = server_floats(variable.size_bytes, 1, workers=workers, servers=servers)
    # The formula's m + n numbers of a pair are here the bytes per example of all products in the gradient.
    return broadcast_floats(factors.bytes_per_example, 0, workers=workers, pairs=examples) <= by_servers
