"""The cost of a dense m x n weight per step by scheme: numbers sent and received by the busiest node.

Poseidon's cost model (Hao Zhang's thesis, table 3.4): it broadcasts factors where that costs no more than PS (algorithm
2). The model counts floats in and out of one node; latency, topology and the time that rebuilding a gradient takes are
left out, as in the thesis.
"""

from __future__ import annotations


def server_floats(rows: int, columns: int, *, workers: int, servers: int) -> float:
    """PS, at a node that is both worker and server: ``2 M N (P1 + P2 - 2) / P2``.

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
    """Broadcast of sufficient factors, at each worker: ``2 K (P1 - 1) (M + N)``.

    Args:
        rows: M.
        columns: N.
        workers: P1, number of workers.
        pairs: K, the pairs of factors of one worker: its examples, times the number of time steps for sequences.

    Example:
        >>> broadcast_floats(4096, 4096, workers=8, pairs=32) / 1e6
        3.670016
    """
    return 2 * pairs * (workers - 1) * (rows + columns)
