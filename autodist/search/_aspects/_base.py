"""The contract of aspects: each says what a strategy may choose for a variable, in one respect."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph, Variable
    from autodist.resource_spec import ResourceSpec
    from autodist.strategies import Communicator, Partition

__all__ = ["Aspect", "Choice", "Scene"]


@dataclass(frozen=True)
class Choice:
    """What a strategy may say of a variable, but for where its shards live and with what they travel.

    Attributes:
        synchronizer: Which of the three.
        partition: None leaves it whole.
        communicator: Of collectives; of servers ``tcp`` or, for queues, None.
        transfer: Whether stations sum and fetch for whole hosts.
        local_proxy: Whether every worker reads a cached copy.
        sync: Whether a step waits for all gradients.
        staleness: How many steps a worker may be ahead.
        compressor: Encoder of its gradients.

    """

    synchronizer: Literal["PS", "AllReduce", "Broadcast"] = "PS"
    partition: Partition | None = None
    communicator: Communicator | None = None
    transfer: bool = False
    local_proxy: bool = False
    sync: bool = True
    staleness: int = 0
    compressor: str | None = None

    @property
    def words(self) -> frozenset[str]:
        """What users can call it in constraints.

        Example:
            >>> sorted(Choice("PS", (4, 1), transfer=True).words)
            ['partition', 'partition=4x1', 'ps', 'transfer']

        """
        words = {self.synchronizer.lower()}
        words |= {"whole"} if self.partition is None else {"partition", f"partition={_text(self.partition)}"}
        words |= {self.communicator} if self.communicator else set()
        words |= {name for name, value in (("transfer", self.transfer), ("proxy", self.local_proxy)) if value}
        words |= set() if self.sync else {"async"}
        words |= {"staleness", f"staleness={self.staleness}"} if self.staleness else set()
        words |= {"compressor", self.compressor.partition("(")[0].lower()} if self.compressor else set()
        return frozenset(words)


def _text(partition: Partition) -> str:
    return "x".join(str(entry) if isinstance(entry, int) else "+".join(map(str, entry)) for entry in partition)


@dataclass(frozen=True)
class Scene:
    """What choices are made for.

    Attributes:
        graph: G.
        spec: D.
        variables: Coupled variables, for which one choice is made; most are alone.
        communicators: What carries collectives, the fastest first.

    """

    graph: TrainingGraph
    spec: ResourceSpec
    variables: tuple[Variable, ...]
    communicators: tuple[Communicator, ...]


class Aspect(abc.ABC):
    """One respect in which strategies differ (thesis 7.3.2, 8.2.3)."""

    name: ClassVar[str]
    """What users call it."""

    changes_results: ClassVar[bool] = False
    """Whether its options train otherwise than one device does: such aspects are left out unless they are asked for."""

    is_simulated: ClassVar[bool] = True
    """Whether simulators know what its options take; of others only trials tell."""

    words: ClassVar[frozenset[str]]
    """What its options are called in rules, parameters aside; see :attr:`Choice.words`."""

    @abc.abstractmethod
    def options(self, choice: Choice, scene: Scene) -> Iterator[Choice]:
        """Return a choice in all the variants that the aspect has for it, the plainest first."""
