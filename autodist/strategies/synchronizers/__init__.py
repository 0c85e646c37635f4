"""Synchronizers: how workers agree on a shard, each in one file with all that other code asks of it.

>>> kind_of("PS").form, kind_of("Broadcast").sends_factors
(<Form.SERVED: 0>, True)
"""

from autodist.strategies.synchronizers._all_reduce_synchronizer import AllReduceSynchronizer
from autodist.strategies.synchronizers._base import Check, Columns, Form, Synchronizer, Terms
from autodist.strategies.synchronizers._broadcast_synchronizer import BroadcastSynchronizer
from autodist.strategies.synchronizers._choice import Choice, ChoiceContext
from autodist.strategies.synchronizers._choice_words import is_served, words_of
from autodist.strategies.synchronizers._everywhere import OnEveryWorker
from autodist.strategies.synchronizers._ps_synchronizer import PSSynchronizer
from autodist.strategies.synchronizers._synchronizer_registry import ENTRY_POINT_GROUP, kind_of, synchronizers
from autodist.strategies.synchronizers._tile_synchronizer import TileSynchronizer, group_problems

__all__ = [
    "ENTRY_POINT_GROUP",
    "AllReduceSynchronizer",
    "BroadcastSynchronizer",
    "Check",
    "Choice",
    "ChoiceContext",
    "Columns",
    "Form",
    "OnEveryWorker",
    "PSSynchronizer",
    "Synchronizer",
    "Terms",
    "TileSynchronizer",
    "group_problems",
    "is_served",
    "kind_of",
    "synchronizers",
    "words_of",
]
