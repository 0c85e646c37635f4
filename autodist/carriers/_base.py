"""The contract of carriers: what moves bytes between workers, and all that others ask of it."""

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
        step: Name of the compiled step: names of collectives repeat between steps.
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
        summed_bytes: What every host adds to a sum.
        gathered_bytes: What every host sends to all others.
        rows: By host, rows that it sends to all others besides.
        row_bytes: Bytes of one of these.
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
        rank: The worker among all.
        world_size: How many these are.
        node_rank: Its machine among all machines.
        local_rank: The worker among those of its machine.
        local_world_size: How many these are.
        cross_rank: The worker among those with the same local rank, one of each machine.
        cross_size: How many these are.
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
    """Values that all workers of a run can read and write: the coordinator, as one of them sees it."""

    @property
    def certificate(self) -> str:
        """By which the coordinator is known, in a run that encrypts; else empty."""

    def put(self, key: str, value: bytes) -> None:
        """Tell all workers something."""

    def get(self, key: str, timeout_s: float) -> bytes:
        """Wait for what a worker tells.

        Raises:
            TimedOut: Nobody tells it in time.
        """


class Process(Protocol):
    """The worker that opens a carrier, and its way to the others."""

    rank: int
    world_size: int
    bandwidths_gbps: tuple[float, ...]
    """The rate of each host's network interface, by rank."""
    links_gbps: tuple[float, ...]
    """The rate of the link from this host to each other one, by rank."""
    address: str
    """Under which the other workers reach this one."""
    node_rank: int
    """The machine among all machines."""
    is_on_one_machine: bool
    """Whether all workers are on this machine."""
    is_encrypted: bool
    """Whether what goes to other machines is to be encrypted."""
    timeout_s: float
    """Longest wait for another worker."""

    def put(self, key: str, value: bytes) -> None:
        """Tell all workers something."""

    def get(self, key: str) -> bytes:
        """Wait for what a worker tells."""

    def barrier(self, name: str) -> None:
        """Wait for all workers."""

    def connections(self, name: str) -> dict[int, Connection]:
        """A new connection to each other worker, by rank; all workers do so together."""

    def on_exit(self, callback: Callable[[], None]) -> None:
        """Have something called when the script has ended."""


@dataclass(frozen=True)
class Carrier(Named, abc.ABC):
    """A way of moving bytes between workers.

    A concrete one is a frozen dataclass without fields. Its class attributes say what it can do; no other package asks
    for its name.
    """

    called: ClassVar[str]
    """Its name in sentences."""

    unfit: ClassVar[str] = ""
    """Why it can't be used in sessions with parameter servers; empty if it can."""

    has_streams: ClassVar[bool] = False
    """Whether what servers get and give goes with it, by operators that the kernels of streams know."""

    needs_servers: ClassVar[bool] = False
    """Whether it goes through TensorFlow's servers, which each worker then has to start."""

    has_own_connections: ClassVar[bool] = True
    """Whether its bytes use connections and threads of its own, not those of TensorFlow's runtime."""

    is_direct: ClassVar[bool] = False
    """Whether each host sends to each other one, and sums as much as its link allows; else hosts are a ring."""

    encrypts: ClassVar[bool] = False
    """Whether it encrypts what it sends, in runs that are to be encrypted."""

    codes_floats: ClassVar[bool] = False
    """Whether it encodes floats of 32 bits on slow links, without loss."""

    carries_strings: ClassVar[bool] = False
    """Whether tensors of strings can be gathered."""

    has_groups: ClassVar[bool] = False
    """Whether some of the workers can have collectives of their own, which the others know nothing of."""

    summed: ClassVar[frozenset[str]] = _FLOATS
    """Which floats it sums as they are."""

    missing: ClassVar[str] = "not installed"
    """The problem where it is not available; empty if it always is."""

    remedy: ClassVar[str] = "install the package that brings it"
    """The remedy then."""

    cost: ClassVar[str] = "strategies that name it are refused"
    """The price of its absence."""

    peer_errors: ClassVar[frozenset[str]] = frozenset()
    """Names of the exceptions by which its library says that another worker is gone."""

    peer_messages: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """Words of errors of TensorFlow's that say the same: all parts of one of them."""

    op_prefix: ClassVar[str] = ""
    """The first letters of its operators' types; empty if nothing tells them from others."""

    variable_prefix: ClassVar[str] = ""
    """The first letters of the environment variables that steer its library; empty if there are none."""

    own_variables: ClassVar[frozenset[str]] = frozenset()
    """Those by which its library knows a worker's place: only the launcher and the worker may set them."""

    package: ClassVar[str] = ""
    """The module that scripts import to use its library by themselves; empty if there is nothing."""

    listens_at_own_name: ClassVar[bool] = False
    """Whether workers listen at the address that their machine's own name means there."""

    @property
    def title(self) -> str:
        """The head of a column about it: its name, with the capital letters that sentences give it."""
        return self.called if self.called.lower() == self.name else self.name

    @property
    def fits_servers(self) -> bool:
        """Whether it can be used in sessions with parameter servers."""
        return not self.unfit

    def is_available(self) -> bool:
        """Whether it works on this machine; finds out without loading anything."""
        return True

    def instructions(self, python: str, compiler: str) -> str:
        """Return what to do where it is missing, in full.

        Args:
            python: The interpreter that is to have it.
            compiler: The compiler of C++ there; empty if there is none.
        """
        return self.remedy

    def default_variables(self, start_timeout_s: float) -> dict[str, str]:
        """Return the environment variables that workers get for it, unless users have set them.

        Args:
            start_timeout_s: Longest wait for other workers to start.
        """
        return {}

    def place_variables(self, place: WorkerPlace) -> dict[str, str]:
        """Return the environment variables by which its library knows a worker's place."""
        return {}

    def on_import(self, board: Board) -> None:
        """Prepare this worker's process for its library, once the script has imported :attr:`package`.

        Raises:
            UsageError: The run does not allow it.
        """

    @abc.abstractmethod
    def communicator(self, place: CollectivePlace) -> Communicator:
        """Return what adds the nodes of its collectives to a graph."""

    def open(self, process: Process) -> None:
        """Connect this process to the other workers; all workers do so together, once per process.

        Raises:
            LaunchError: Some worker can't be reached.
        """

    def links(self, load: Load, sums: Mapping[str, float]) -> Links:
        """Bytes that a collective sends, by sender and receiver.

        Args:
            load: What it carries.
            sums: By host, in their order, which part of a sum is its own where each host sends to each other one.
        """
        return added(ring_reduce(load.summed_bytes, list(sums)), ring_gather(load.parts))
