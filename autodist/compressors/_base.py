"""The contract of compressors: the encoder and decoder of a gradient's messages (thesis 7.2, 7.3.2)."""

from __future__ import annotations

import abc
import dataclasses
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from autodist.registry import Named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from autodist.graph import NodeList

FLOATS = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
"""By dtype that gradients may have, the bytes of an element."""


@dataclass(frozen=True)
class Exchanged:
    """The outcome of an exchange: names of tensors with the gradient's shape and dtype.

    Attributes:
        total: The decoded sum of all workers' contributions.
        own: The decoded contribution of this worker. Those of all workers add up to ``total``.
    """

    total: str
    own: str


class Channel(abc.ABC):
    """A compressor's connection with the other workers; keeps its state. All workers call it in one order.

    Names need only be unique within one exchange.
    """

    @property
    @abc.abstractmethod
    def world_size(self) -> int:
        """How many workers there are."""

    @abc.abstractmethod
    def all_reduce(self, name: str, tensor: str, dtype: str, shape: Sequence[int]) -> str:
        """The sum over all workers of tensors of one static shape."""

    @abc.abstractmethod
    def gather(self, name: str, tensor: str, dtype: str, shape: Sequence[int]) -> str:
        """The workers' tensors of one static shape, in rank order: ``[n, *shape]``.

        An asynchronous server takes one worker's message at a time, so decoders must not assume that n is the number of
        workers.
        """

    @abc.abstractmethod
    def state(self, name: str, initial: str, dtype: str, shape: Sequence[int]) -> str:
        """The value of a variable of this worker, which is kept from step to step.

        Args:
            name: Name of the variable.
            initial: The tensor that it starts with.
            dtype: Dtype of the tensor.
            shape: Shape of the tensor.
        """

    @abc.abstractmethod
    def keep(self, name: str, tensor: str) -> None:
        """Set the value of the variable for the next step; entries that are not finite keep their old values.

        Loss scaling provokes overflows and recovers from them; they must not stay in the state forever.
        """


@dataclass(frozen=True)
class Compressor(Named, abc.ABC):
    """Encodes a worker's gradient into messages, and decodes the sum of all workers' gradients from theirs.

    See :class:`~autodist.registry.Named` for what a concrete compressor looks like. It describes nodes of a graph
    (names of tensors in, names of tensors out) and has no state of its own: the channel keeps it.
    """

    @property
    def lossless(self) -> bool:
        """Whether the total is the sum of the gradients up to round-off."""
        return False

    @property
    def has_feedback(self) -> bool:
        """Whether the part of a gradient that a message loses is added to the next step's gradient."""
        return False

    @property
    def gathers(self) -> bool:
        """Whether messages are gathered on every worker; else they are summed on the way."""
        return False

    @property
    def in_step(self) -> bool:
        """Whether messages can be decoded only if all workers are in the same step."""
        return False

    @property
    def sends_factors(self) -> bool:
        """Whether the gradient's sufficient factors replace it before anything is exchanged.

        :meth:`message_bytes` is then the size of one row, of which there is one per example (and position, in layers on
        sequences), and :meth:`exchange` is never called.
        """
        return False

    @property
    def encodes_slices(self) -> bool:
        """Whether the values of sparse gradients can be encoded, too: see :meth:`encode_slices`."""
        return False

    @abc.abstractmethod
    def message_bytes(self, shape: Sequence[int], dtype: str) -> int:
        """The size in bytes of one worker's messages in one step for a dense gradient.

        A host sends this many bytes to a parameter server; in an all-reduce of n hosts 2 (n-1)/n times as many, or n-1
        times as many if the compressor :attr:`gathers`.
        """

    @abc.abstractmethod
    def exchange(
        self, nodes: NodeList, name: str, gradient: str, shape: Sequence[int], dtype: str, channel: Channel
    ) -> Exchanged:
        """Add the nodes that encode, send and decode.

        Args:
            nodes: Where to add them.
            name: Prefix of their names.
            gradient: The tensor to be sent, this worker's part of the sum.
            shape: Its static shape.
            dtype: One of :data:`FLOATS`.
            channel: Carries messages and keeps state.
        """

    def rounds(self, shape: Sequence[int], dtype: str) -> int:
        """The number of successive messages that a step needs; a parameter server takes only one."""
        return 1

    def summed_dtype(self, dtype: str) -> str:
        """The dtype in which messages are summed, unless they are gathered."""
        return dtype

    def refusal(self, shape: Sequence[int], dtype: str) -> str | None:
        """Why such a gradient can't be encoded; None if it can."""
        return None

    def encode_slices(self, nodes: NodeList, name: str, values: str, dtype: str) -> tuple[str, str]:
        """Encode the values of a sparse gradient, row by row; returns the tensor and its dtype."""
        raise NotImplementedError

    def decode_slices(self, nodes: NodeList, name: str, values: str, dtype: str) -> str:
        """Undo :meth:`encode_slices`; the dtype is that of the result."""
        raise NotImplementedError


@dataclass(frozen=True)
class Wrapper(Compressor):
    """A compressor around another one, written ``Name(Inner(parameter=1))``; its messages are those of the other."""

    inner: Compressor = dataclasses.field()

    def __str__(self) -> str:
        return f"{self.name}({self.inner})"

    @property
    def gathers(self) -> bool:
        """See the base class."""
        return self.inner.gathers

    @property
    def in_step(self) -> bool:
        """See the base class."""
        return self.inner.in_step

    def message_bytes(self, shape: Sequence[int], dtype: str) -> int:
        """See the base class."""
        return self.inner.message_bytes(shape, dtype)

    def rounds(self, shape: Sequence[int], dtype: str) -> int:
        """See the base class."""
        return self.inner.rounds(shape, dtype)

    def summed_dtype(self, dtype: str) -> str:
        """See the base class."""
        return self.inner.summed_dtype(dtype)

    def refusal(self, shape: Sequence[int], dtype: str) -> str | None:
        """See the base class."""
        return self.inner.refusal(shape, dtype)


def size_bytes(shape: Sequence[int], dtype: str) -> int:
    """The size of a tensor in bytes.

    Example:
        >>> size_bytes([2, 3], "float16")
        12
    """
    return prod(shape) * FLOATS[dtype]
