"""The contract of carriers, which move bytes between workers, and all that other code asks of them."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from autodist.cost import Links, added, ring_gather, ring_reduce
from autodist.registry import Named

if TYPE_CHECKING:
    from autodist.carriers._communicator import Communicator
    from autodist.transport import Connection

_FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})


@dataclass(frozen=True)
class CollectivePlace:
    """Where a collective is added: one worker's graph of one step.

    Attributes:
        rank: This worker.
        world_size: How many workers there are.
        step: Name of the compiled step; it is needed because names of collectives repeat between steps.
        members: The workers that take part, in ascending order; None for all.
    """

    rank: int
    world_size: int
    step: str
    members: tuple[int, ...] | None = None

    @property
    def among(self) -> tuple[int, ...]:
        """The workers that take part, in ascending order."""
        return tuple(range(self.world_size)) if self.members is None else self.members

    @property
    def index(self) -> int:
        """The place of this worker among those that take part."""
        return self.among.index(self.rank)


@dataclass(frozen=True)
class Load:
    """The tensors that one collective has to carry.

    Attributes:
        summed_bytes: Bytes of every host's term of a sum.
        gathered_bytes: Bytes that every host sends to all others.
        rows: By host, the number of rows that it sends to all others in addition.
        row_bytes: Bytes of one of these rows.
    """

    summed_bytes: float
    gathered_bytes: float
    rows: Mapping[str, float]
    row_bytes: float

    @property
    def parts(self) -> dict[str, float]:
        """By host, bytes that go to all others."""
        return {host: self.row_bytes * rows + self.gathered_bytes for host, rows in self.rows.items()}


@dataclass(frozen=True)
class WorkerPlace:
    """Where a worker is among the others.

    Attributes:
        rank: The worker's number among all.
        world_size: Number of all workers.
        node_rank: The number of its machine among all machines.
        local_rank: The worker's number among those of its machine.
        local_world_size: Number of workers on its machine.
        cross_rank: The worker's number among those with the same local rank, one of each machine.
        cross_size: Number of these.
        interface: The network interface by which others reach it.
    """

    rank: int
    world_size: int
    node_rank: int
    local_rank: int
    local_world_size: int
    cross_rank: int
    cross_size: int
    interface: str


class Board(Protocol):
    """Values that all workers of a run can read and write: a worker's view of the coordinator."""

    @property
    def certificate(self) -> str:
        """The certificate of the coordinator, in a run that encrypts; else empty."""

    def put(self, key: str, value: bytes) -> None:
        """Store a value that all workers can read."""

    def get(self, key: str, timeout_s: float) -> bytes:
        """Wait for a value that some worker stores.

        Raises:
            TimedOut: No worker stores it in time.
        """


class Process(Protocol):
    """The worker that opens a carrier, and its connections to the others."""

    rank: int
    world_size: int
    bandwidths_gbps: tuple[float, ...]
    """The rate of each host's network interface in Gbit/s, by rank."""
    links_gbps: tuple[float, ...]
    """The rate of the link from this host to each other one in Gbit/s, by rank."""
    address: str
    """The address under which the other workers reach this one."""
    node_rank: int
    """The number of this machine among all machines."""
    is_on_one_machine: bool
    """Whether all workers are on this machine."""
    is_encrypted: bool
    """Whether all messages to other machines have to be encrypted."""
    timeout_s: float
    """Longest wait for another worker, in seconds."""

    def put(self, key: str, value: bytes) -> None:
        """Store a value that all workers can read."""

    def get(self, key: str) -> bytes:
        """Wait for a value that some worker stores."""

    def barrier(self, name: str) -> None:
        """Wait for all workers."""

    def connections(self, name: str) -> dict[int, Connection]:
        """A new connection to each other worker, by rank; all workers do so together."""

    def on_exit(self, callback: Callable[[], None]) -> None:
        """Register a function to be called when the script has ended."""


@dataclass(frozen=True)
class Carrier(Named, abc.ABC):
    """A way of moving bytes between workers.

    A concrete one is a frozen dataclass without fields. Its class attributes say what it can do; code of other packages
    must not depend on its name.
    """

    called: ClassVar[str]
    """Its name in sentences."""

    unfit: ClassVar[str] = ""
    """Why it can't be used in sessions with parameter servers; empty if it can."""

    has_streams: ClassVar[bool] = False
    """Whether it carries messages to and from servers, by operators that the kernels of streams know."""

    needs_servers: ClassVar[bool] = False
    """Whether it goes through TensorFlow's servers, which each worker then has to start."""

    has_own_connections: ClassVar[bool] = True
    """Whether it has connections and threads of its own, rather than those of TensorFlow's runtime."""

    is_direct: ClassVar[bool] = False
    """Whether each host sends to each other one, and sums as much as its link allows; else hosts form a ring."""

    encrypts: ClassVar[bool] = False
    """Whether it encrypts its messages in runs that have to be encrypted."""

    codes_floats: ClassVar[bool] = False
    """Whether it encodes float32 on slow links, without loss."""

    carries_strings: ClassVar[bool] = False
    """Whether tensors of strings can be gathered."""

    has_groups: ClassVar[bool] = False
    """Whether some of the workers can have collectives without the others."""

    summed: ClassVar[frozenset[str]] = _FLOATS
    """The float dtypes that it sums without conversion."""

    missing: ClassVar[str] = "not installed"
    """The problem if it is not available, in a few words; empty if it always is."""

    remedy: ClassVar[str] = "install the package that brings it"
    """The remedy for that, in a few words."""

    cost: ClassVar[str] = "strategies that name it are refused"
    """The consequence of its absence, in a few words."""

    peer_errors: ClassVar[frozenset[str]] = frozenset()
    """Names of the exceptions by which its library says that another worker is gone."""

    peer_messages: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """Texts of TensorFlow errors that say the same: an error matches an entry if it contains all of its parts."""

    op_prefix: ClassVar[str] = ""
    """The first letters of its operators' types; empty if they have none in common."""

    variable_prefix: ClassVar[str] = ""
    """The first letters of the environment variables that configure its library; empty if there are none."""

    own_variables: ClassVar[frozenset[str]] = frozenset()
    """The environment variables that give its library a worker's place: only launcher and worker may set them."""

    package: ClassVar[str] = ""
    """The module that scripts import to use its library themselves; empty if there is none."""

    listens_at_own_name: ClassVar[bool] = False
    """Whether workers listen at the address to which their machine resolves its own name."""

    @property
    def title(self) -> str:
        """The header of a column about it: its name, capitalized as in sentences."""
        return self.called if self.called.lower() == self.name else self.name

    @property
    def fits_servers(self) -> bool:
        """Whether it can be used in sessions with parameter servers."""
        return not self.unfit

    def is_available(self) -> bool:
        """Whether it works on this machine; found out without loading anything."""
        return True

    def instructions(self, python: str, compiler: str) -> str:
        """Return full instructions for a machine where it is missing.

        Args:
            python: The Python interpreter that it is to be installed for.
            compiler: The machine's C++ compiler; empty if there is none.
        """
        return self.remedy

    def default_variables(self, start_timeout_s: float) -> dict[str, str]:
        """Return the environment variables that workers get for it, unless users have set them.

        Args:
            start_timeout_s: Longest wait for other workers to start, in seconds.
        """
        return {}

    def place_variables(self, place: WorkerPlace) -> dict[str, str]:
        """Return the environment variables that give its library a worker's place."""
        return {}

    def on_import(self, board: Board) -> None:
        """Prepare this worker's process for its library, once the script has imported :attr:`package`.

        Raises:
            UsageError: The run does not allow it.
        """

    @abc.abstractmethod
    def communicator(self, place: CollectivePlace) -> Communicator:
        """Return the communicator, which adds the nodes of its collectives to a graph."""

    def open(self, process: Process) -> None:
        """Connect this process to the other workers; all workers do so together, once per process.

        Raises:
            LaunchError: Some worker can't be reached.
        """

    def links(self, load: Load, sums: Mapping[str, float]) -> Links:
        """Bytes that a collective sends, by sender and receiver.

        Args:
            load: The tensors that it carries.
            sums: By host, in their order, the fraction of a sum that it adds up if each host sends to each other one.
        """
        return added(ring_reduce(load.summed_bytes, list(sums)), ring_gather(load.parts))
