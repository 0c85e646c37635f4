"""What a dense m x n weight costs per step by scheme: numbers sent and received by the busiest node.

Poseidon's cost model (Hao Zhang's thesis, table 3.4), for BestScheme (algorithm 2). It counts floats in and out of one
node; latency, topology and the time that rebuilding a gradient takes are left out, as they are there.
"""

from __future__ import annotations

from typing import Literal

__all__ = ["all_reduce_floats", "best_scheme", "broadcast_floats", "factor_push_floats", "server_floats"]


def server_floats(rows: int, columns: int, *, workers: int, servers: int) -> float:
    """PS, by a node that is both: ``2 M N (P1 + P2 - 2) / P2``.

    Args:
        rows: M.
        columns: N.
        workers: P1, number of workers.
        servers: P2, over which the matrix is spread evenly.

    Example:
        >>> server_floats(4096, 4096, workers=8, servers=8) / 1e6
        58.720256
    """
    return 2 * rows * columns * (workers + servers - 2) / servers


def broadcast_floats(rows: int, columns: int, *, workers: int, pairs: int) -> float:
    """Broadcast of sufficient factors, by any worker: ``2 K (P1 - 1) (M + N)``.

    Args:
        rows: M.
        columns: N.
        workers: P1, number of workers.
        pairs: K, the pairs of factors of one worker: its examples, times the length for layers on sequences.

    Example:
        >>> broadcast_floats(4096, 4096, workers=8, pairs=32) / 1e6
        3.670016
    """
    return 2 * pairs * (workers - 1) * (rows + columns)


def factor_push_floats(rows: int, columns: int, *, workers: int, pairs: int) -> float:
    """Factors to one server that is a worker as well, which gives the matrix back: ``(P1 - 1) (M N + K M + K N)``.

    The scheme of Project Adam. Its arguments are those of :func:`broadcast_floats`.

    Example:
        >>> factor_push_floats(4096, 4096, workers=8, pairs=32) / 1e6
        119.27552
    """
    return (workers - 1) * (rows * columns + pairs * rows + pairs * columns)


def all_reduce_floats(rows: int, columns: int, *, workers: int) -> float:
    """A ring, by any worker: ``4 M N (P1 - 1) / P1``, what PS costs where every worker is a server.

    Example:
        >>> all_reduce_floats(4096, 4096, workers=8) == server_floats(4096, 4096, workers=8, servers=8)
        True
    """
    return 4 * rows * columns * (workers - 1) / workers


def best_scheme(rows: int, columns: int, *, workers: int, servers: int, pairs: int) -> Literal["Broadcast", "PS"]:
    """What Poseidon chooses for a fully connected layer: Broadcast where it costs no more than PS (algorithm 2).

    Its arguments are those of :func:`server_floats` and :func:`broadcast_floats`.

    Example:
        >>> best_scheme(1024, 1000, workers=4, servers=4, pairs=128)
        'Broadcast'
        >>> best_scheme(1024, 1000, workers=16, servers=16, pairs=128)
        'PS'
    """
    by_servers = server_floats(rows, columns, workers=workers, servers=servers)
    by_factors = broadcast_floats(rows, columns, workers=workers, pairs=pairs)
    return "Broadcast" if by_factors <= by_servers else "PS"
