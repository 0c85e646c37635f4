"""Messages of a step for one shard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from autodist.transport import CODED_SHARE

if TYPE_CHECKING:
    from autodist.strategies.synchronizers import Synchronizer


@dataclass(frozen=True)
class ShardMessages:
    """The messages that one worker sends for one shard in one step.

    Attributes:
        variable: The variable's name; empty for small state.
        shard: The shard's number; None if the variable is not partitioned.
        synchronizer: How it is synchronized.
        shape: The shard's shape.
        size_bytes: Bytes of its value.
        summed_bytes: Bytes of the messages that are summed: dense gradients.
        is_joined: Whether a worker's replicas sum their gradients before one leaves for a server, whatever the strategy
            says: encoders take the worker's gradient.
        gathered_bytes: Bytes of the messages that every worker needs from every other one.
        gathered_rows: Rows of sparse gradients or factors for each example.
        gathered_row_bytes: Bytes of one such row, with its number.
        reads: How often the whole value is read.
        lookup_rows: Rows that lookups take for each example.
        row_bytes: Bytes of one row of the value.
        index_bytes: Bytes of one row number.
        gradient_rows: Rows of the sparse gradients of the whole variable for each example.
        is_guess: Whether numbers of rows are guesses.
        is_packed: Whether the gradient may travel to its server together with others.
        is_streamed: Whether AutoDist's own library carries the gradient to its server, and the value back.
        gathered_index_bytes: Bytes of the number of a gathered row.
        is_gradient_coded: Whether that library carries the gradient as floats of 32 bits, encoded on slow links.
        is_value_coded: Whether that library carries the value so.
        waited_bytes: Bytes of activations that each host sends in the middle of the computation, which waits for them;
            infinite where replicas can't share the step so.
        waits: How often the computation waits in a step.
        kept_bytes: Bytes of activations and weights that each host gathers for that, and of gradients that it keeps for
            later steps.
        rebuilt_flops: Operations of each worker, per example of the whole batch, to rebuild the gradient from its
            factors, or because of tiles.
    """

    variable: str
    shard: int | None
    synchronizer: Synchronizer
    shape: tuple[int, ...] = ()
    size_bytes: float = 0.0
    summed_bytes: float = 0.0
    is_joined: bool = False
    gathered_bytes: float = 0.0
    gathered_rows: float = 0.0
    gathered_row_bytes: float = 0.0
    reads: int = 0
    lookup_rows: float = 0.0
    row_bytes: float = 0.0
    index_bytes: int = 0
    gradient_rows: float = 0.0
    is_guess: bool = False
    is_packed: bool = False
    is_streamed: bool = False
    gathered_index_bytes: int = 0
    is_gradient_coded: bool = False
    is_value_coded: bool = False
    waited_bytes: float = 0.0
    waits: float = 0.0
    kept_bytes: float = 0.0
    rebuilt_flops: float = 0.0

    @property
    def travels(self) -> bool:
        """Whether anything of the variable goes to another worker: its value, or its gradient."""
        return any((self.summed_bytes, self.gathered_bytes, self.gathered_rows, self.reads, self.lookup_rows))

    @property
    def gathered_by_example(self) -> float:
        """Bytes of rows of sparse gradients or factors for each example."""
        return self.gathered_row_bytes * self.gathered_rows

    @property
    def asked_by_example(self) -> float:
        """Bytes of row numbers that lookups send for each example."""
        return self.index_bytes * self.lookup_rows

    @property
    def read_bytes(self) -> float:
        """Bytes that a worker fetches of a value that a server has."""
        return self.reads * self.size_bytes

    @property
    def read_by_example(self) -> float:
        """Bytes of the rows that lookups take for each example."""
        return self.row_bytes * self.lookup_rows

    @property
    def coded(self) -> ShardMessages:
        """The messages over a slow link, where floats are encoded."""
        of_gradient, of_value = (
            CODED_SHARE if is_coded else 1.0 for is_coded in (self.is_gradient_coded, self.is_value_coded)
        )
        numbers = self.gathered_index_bytes
        return self.changed(
            size_bytes=self.size_bytes * of_value,
            row_bytes=self.row_bytes * of_value,
            summed_bytes=self.summed_bytes * of_gradient,
            gathered_bytes=self.gathered_bytes * of_gradient,
            gathered_row_bytes=numbers + (self.gathered_row_bytes - numbers) * of_gradient,
        )

    @property
    def never_coded(self) -> ShardMessages:
        """The same messages over a carrier that never encodes floats."""
        return self.changed(is_gradient_coded=False, is_value_coded=False)

    def changed(self, **fields: object) -> ShardMessages:
        """The same messages with other fields; a tenth of the time of `dataclasses.replace`.

        Example:
            >>> from autodist.strategies import AllReduceSynchronizer
            >>> ShardMessages("w", None, AllReduceSynchronizer(0, "tcp")).changed(reads=2).reads
            2
        """
        other = object.__new__(ShardMessages)
        other.__dict__.update(self.__dict__, **fields)
        return other


def host_of(device: str) -> str:
    """The host of a device, which may itself contain colons.

    Example:
        >>> host_of("fe80::1:CPU:0")
        'fe80::1'
    """
    return device.rpartition(":")[0].rpartition(":")[0]
