"""Properties of the kind of synchronizer that a search chooses: whether it has a server, and its names for users."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autodist.strategies.synchronizers._base import Form
from autodist.strategies.synchronizers._choice import Choice
from autodist.strategies.synchronizers._synchronizer_registry import kind_of

if TYPE_CHECKING:
    from autodist.strategies._shards import Partition


def is_served(choice: Choice) -> bool:
    """Whether one device holds each shard, or the first one if shards are of several kinds."""
    return kind_of(choice.synchronizer).form is Form.SERVED


def words_of(choice: Choice) -> frozenset[str]:
    """Users' words for a choice in the rules of a search.

    Example:
        >>> sorted(words_of(Choice("PS", (4, 1), transfer=True)))
        ['partition', 'partition=4x1', 'ps', 'transfer']
    """
    words = {choice.synchronizer.lower(), *kind_of(choice.synchronizer).words(choice)}
    words |= {"whole"} if choice.partition is None else {"partition", f"partition={_text(choice.partition)}"}
    words |= {"staleness", f"staleness={choice.staleness}"} if choice.staleness else set()
    words |= {"mixed"} if choice.by_shard else set()
    words |= {choice.communicator} if choice.communicator else set()
    words |= {"compressor", choice.compressor.partition("(")[0].lower()} if choice.compressor else set()
    return frozenset(words)


def _text(partition: Partition) -> str:
    return "x".join(str(entry) if isinstance(entry, int) else "+".join(map(str, entry)) for entry in partition)
