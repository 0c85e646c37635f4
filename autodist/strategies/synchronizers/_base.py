"""The contract of synchronizers: how workers agree on a shard, and all that other code asks of it."""

from __future__ import annotations

import abc
import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeAlias

if TYPE_CHECKING:
    from typing_extensions import Self

    from autodist.compressors import Compressor
    from autodist.cost import Links, Share
    from autodist.graph import TrainingGraph, Variable
    from autodist.resource_spec import ResourceSpec
    from autodist.strategies._problem import Problem
    from autodist.strategies._shard_messages import ShardMessages
    from autodist.strategies._strategy import GraphConfig, Strategy
    from autodist.strategies.synchronizers._choice import Choice, ChoiceContext

Check: TypeAlias = "Callable[[Strategy, TrainingGraph, ResourceSpec], Iterator[Problem]]"


class Form(enum.Enum):
    """Where the value of a variable is, and how its gradients are used; cost formulas follow from it."""

    SERVED = 0
    """One device holds the value, gets the gradients and gives the value away."""

    REDUCED = 1
    """Every worker holds the value; gradients are summed, or gathered if they are sparse."""

    REBUILT = 2
    """Every worker holds the value, and rebuilds the gradient from what all have sent."""


@dataclass(frozen=True)
class Columns:
    """The cells of a synchronizer in a strategy's explanation.

    Attributes:
        told: Its kind; in brackets, settings that are not the default and have no column of their own.
        where: The device that holds the variable, or ``every worker``.
        group: Number of the buffer in which it travels.
        communicator: Name of the carrier of its collective.
        staleness: How many steps of updates a step's values may lack; None where they never lack any.
    """

    told: str
    where: str = "every worker"
    group: int | None = None
    communicator: str | None = None
    staleness: int | None = None


@dataclass(frozen=True)
class Terms:
    """The terms of a shard's time in simulators, besides the sizes of its messages.

    Attributes:
        form: The form, which selects the formulas.
        server: The device that serves it; None for none.
        group: Number of the collective in which it travels; -1 for a shard on a server.
        has_own_connections: Whether it uses connections of its carrier, not those of TensorFlow's runtime.
        is_direct: Whether each host sends to each other one, instead of around a ring of hosts.
        is_joined: Whether only one message leaves a host with several replicas.
        is_proxied: Whether workers have copies of the value, which follow its update.
        read_bytes: Bytes that each worker fetches from the server.
    """

    form: Form
    server: str | None = None
    group: int = -1
    has_own_connections: bool = False
    is_direct: bool = False
    is_joined: bool = True
    is_proxied: bool = False
    read_bytes: float = 0.0


class Synchronizer(abc.ABC):
    """How one shard is synchronized.

    A concrete one is a frozen dataclass of texts, numbers, bools and tuples of these, which are its JSON. The kernel
    that rewrites graphs for it names it: :class:`~autodist.kernels.SynchronizerKernel`.
    """

    type: ClassVar[str]
    """Its name in JSON, for users and in messages."""

    form: ClassVar[Form]
    """Where the value is, and how gradients are used."""

    verb: ClassVar[str]
    """Its effect on a variable, in a sentence: it "is all-reduced"."""

    sends_factors: ClassVar[bool] = False
    """Whether sufficient factors travel instead of the gradient."""

    @classmethod
    def summary(cls) -> str:
        """Return the first line of the docstring."""
        return (cls.__doc__ or "").strip().partition("\n")[0]

    # Where values are ------------------------------------------------------------------------------------------------

    @property
    def home(self) -> str | None:
        """The device that holds the value; None where every worker does."""
        return None

    @property
    def devices(self) -> tuple[str, ...]:
        """All devices that it names."""
        return ()

    @property
    def slot_devices(self) -> tuple[str, ...]:
        """By device of :attr:`devices`, the one whose worker keeps the slots with which it is updated."""
        return self.devices

    @property
    def tiled_for(self) -> int | None:
        """For how many examples replicas compute with their own parts, 0 for any; None where they have all of it."""
        return None

    @property
    def between_groups(self) -> Synchronizer | None:
        """The synchronizer of a part's gradients between groups of replicas; None where there is one group."""
        return None

    def with_transfer(self, devices: tuple[str, ...]) -> Synchronizer:
        """The same synchronizer with these devices as stations, if it has any stations."""
        del devices
        return self

    @property
    def is_asynchronous(self) -> bool:
        """Whether a worker may go on before the others' gradients have been applied."""
        return False

    @property
    def delay(self) -> int:
        """How many steps after its own a gradient is applied, on all workers alike."""
        return 0

    def renamed(self, name: Callable[[str], str]) -> Self:
        """The same with other names for its devices."""
        return self

    def as_before(self, earlier: Synchronizer) -> Self:
        """The same with what an earlier step has decided for the variable besides its home: where its slots are."""
        del earlier
        return self

    def at(self, home: str) -> Self:
        """The same synchronizer with another home, if it has one."""
        raise NotImplementedError(self.type)

    # What travels ----------------------------------------------------------------------------------------------------

    @property
    def carrier(self) -> str | None:
        """The name of the carrier of its messages; None for the carrier of small state."""
        return None

    @property
    def group_number(self) -> int | None:
        """Shards with one number travel in one buffer; None for those that don't."""
        return None

    def in_group(self, number: int) -> Self:
        """The same synchronizer with another number of its buffer, if it has one."""
        return self

    @abc.abstractmethod
    def sent(self, message: ShardMessages, graph: GraphConfig, later_reads: int) -> ShardMessages:
        """The messages of a shard as they really travel.

        Args:
            message: The shard's messages, before senders and receivers are known.
            graph: The strategy's settings for the whole graph.
            later_reads: How many reads of the value wait for something.
        """

    @abc.abstractmethod
    def links(self, message: ShardMessages, cluster: Mapping[str, Share], sums: Mapping[str, float]) -> Links:
        """Bytes that a step sends, by sender and receiver.

        Args:
            message: Message of :meth:`sent`.
            cluster: By host, its share of the computation.
            sums: By host, the fraction of a sum that the host adds up, if each host sends to each other one.
        """

    # What must hold --------------------------------------------------------------------------------------------------

    @classmethod
    def checks(cls) -> tuple[Check, ...]:
        """Further conditions on the shards of a strategy that have it."""
        return ()

    def misfits(self, compressor: Compressor, variable: Variable, shape: Sequence[int]) -> Iterator[tuple[str, str]]:
        """Yield the allowed values instead of a compressor, and why it does not work with this synchronizer."""
        yield from ()

    # What people see -------------------------------------------------------------------------------------------------

    def columns(self) -> Columns:
        """Its cells in an explanation."""
        return Columns(self.type)

    def plotted(self) -> Mapping[tuple[str, str], float]:
        """The quantities that plots of many strategies compare, by column and value: shares of bytes follow from it."""
        return {}

    # Searches and simulators -----------------------------------------------------------------------------------------

    @classmethod
    def suits(cls, choice: Choice, context: ChoiceContext) -> bool:
        """Whether a search may give it to variables."""
        return True

    @classmethod
    def words(cls, choice: Choice) -> frozenset[str]:
        """Users' words for a choice of it in rules of a search, besides its type in lower case and its carrier."""
        return frozenset()

    @classmethod
    @abc.abstractmethod
    def of_choice(cls, choice: Choice, home: str, group: int, stations: tuple[str, ...]) -> Self:
        """The synchronizer of a search's choice.

        Args:
            choice: It names this kind.
            home: Device of the server, for those that have one.
            group: Number of the buffer, for those that have one.
            stations: Devices that sum for their hosts, for those that can have some.
        """

    @abc.abstractmethod
    def choice(self, graph: GraphConfig) -> Choice:
        """The choice that it is in a strategy, without partition and compressor: the inverse of :meth:`of_choice`."""

    @abc.abstractmethod
    def terms(self, message: ShardMessages) -> Terms:
        """The terms that simulators compute with."""
