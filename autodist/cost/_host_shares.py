"""The shares of the hosts in the computation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Share:
    """A host's part of the computation.

    Attributes:
        examples: Examples of a global batch; not a whole number where replicas share each example.
        replicas: Copies of the graph; 0 for a host that only serves variables.
    """

    examples: float
    replicas: int


def shares_of(replicas: Mapping[str, int], batch_size: int, *, of_examples: bool = False) -> dict[str, Share]:
    """The share of each host: the replicas' parts of a batch differ by one at most, the first ones have more.

    Args:
        replicas: By host, in the order of ranks, its number of replicas.
        batch_size: Examples in a global batch.
        of_examples: Whether replicas share each example, all alike.

    Example:
        >>> shares_of({"a": 2, "b": 1}, 8)
        {'a': Share(examples=6, replicas=2), 'b': Share(examples=2, replicas=1)}
    """
    count = sum(replicas.values())
    if of_examples and count:
        return {host: Share(batch_size * own / count, own) for host, own in replicas.items()}
    found, first = {}, 0
    for host, own in replicas.items():
        larger = min(max(batch_size % count - first, 0), own) if count else 0
        found[host] = Share(own * (batch_size // count) + larger if count else 0, own)
        first += own
    return found
