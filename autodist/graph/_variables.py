"""The parts of a captured training step: variables with their gradients, inputs and outputs."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from math import prod

from autodist.graph._graph_def import itemsize


class Role(enum.Enum):
    """The part that a captured variable plays in the step."""

    TRAINABLE = "trainable"
    """Has a gradient; the strategy has a config for it."""
    SLOT = "slot"
    """Written from synchronized gradients: optimizer slots, loss scales, moving averages of weights."""
    STATISTIC = "statistic"
    """Written from the batch without a gradient: metrics, batch-normalization statistics."""
    COUNTER = "counter"
    """Written from neither the batch nor a gradient: iterations."""
    SEED = "seed"
    """The state of a random generator; each replica draws its own numbers from it."""
    CONSTANT = "constant"
    """Only read: learning rates, frozen weights."""


@dataclass(frozen=True)
class Gradient:
    """One gradient of a variable, by the names of the marked tensors that carry it.

    A dense gradient has ``dense`` only, a sparse one (``tf.IndexedSlices``) has ``values`` and ``indices`` and perhaps
    ``dense_shape``. A factored one has ``left`` and ``right``, each with a row per example.
    """

    dense: str | None = None
    values: str | None = None
    indices: str | None = None
    dense_shape: str | None = None
    left: str | None = None
    right: str | None = None

    @property
    def is_sparse(self) -> bool:
        """Whether it travels as values and indices."""
        return self.values is not None

    @property
    def tensors(self) -> tuple[str, ...]:
        """The marked tensors, those that exist."""
        parts = (self.dense, self.values, self.indices, self.dense_shape, self.left, self.right)
        return tuple(t for t in parts if t is not None)


@dataclass(frozen=True)
class ShardOrigin:
    """Which part of one of the program's variables a variable of a prepared graph is.

    Attributes:
        whole: Name of the program's variable.
        begin: Per dim, where the part begins; its size is the shape of the variable that has this piece.
        whole_shape: Shape of the program's variable.
        tiled_for: For a part of a tiled variable, the number of examples that the tiling is planned for, 0 for any
            number; None for a part of any other variable.
    """

    whole: str
    begin: tuple[int, ...]
    whole_shape: tuple[int, ...]
    tiled_for: int | None = None


@dataclass(frozen=True)
class Variable:
    """One captured variable.

    Attributes:
        name: Unique within the graph; readable, but not to be parsed.
        handle: Name of the placeholder node of its resource handle.
        shape: Static shape.
        dtype: NumPy name of the element type, ``"float32"``; ``"bfloat16"`` is known too.
        role: Its role in the step.
        gradients: Gradients with respect to it, in the order in which they were taken; empty if it has none.
        owners: For a slot: names of the trainable variables whose gradients its value depends on, or that are changed
            along with it, in one branch or loop.
        coupled: For a trainable variable: all trainable variables (itself included) whose updates can't be separated
            from its own, because they share a norm, a branch or a slot. They need one and the same home.
        backward_order: Position of its gradient in the backward pass, 0 for the first that exists; -1 without one.
        piece: For a shard, which part of one of the program's variables it is; None for a whole variable.
        content: For a value that the step takes from outside and that is too large for a constant of the graph, a hash
            of it; None for a variable of the program.
    """

    name: str
    handle: str
    shape: tuple[int, ...]
    dtype: str
    role: Role
    gradients: tuple[Gradient, ...] = ()
    owners: tuple[str, ...] = ()
    coupled: tuple[str, ...] = ()
    backward_order: int = -1
    piece: ShardOrigin | None = None
    content: str | None = None

    @property
    def whole(self) -> str:
        """The name of the program's variable that it is, or is a part of."""
        return self.name if self.piece is None else self.piece.whole

    @property
    def is_sparse(self) -> bool:
        """Whether any gradient of it is sparse."""
        return any(gradient.is_sparse for gradient in self.gradients)

    @property
    def gradient_tensors(self) -> tuple[str, ...]:
        """The tensors of all its gradients."""
        return tuple(tensor for gradient in self.gradients for tensor in gradient.tensors)

    @property
    def size_bytes(self) -> int:
        """Bytes of its value."""
        return prod(self.shape) * itemsize(self.dtype)


@dataclass(frozen=True)
class StepInput:
    """One tensor argument of the step.

    Attributes:
        tensor: Name of its placeholder tensor.
        split: Whether dim 0 is the batch, to be split over the replicas; else every replica gets the whole of it.
        shape: Static shape, ``None`` for unknown dims.
        dtype: NumPy name of the element type.
        tiles: The dims along which each replica gets one of as many parts as there are replicas; along several
            dims, one part for each.
    """

    tensor: str
    split: bool
    shape: tuple[int | None, ...] | None
    dtype: str
    tiles: tuple[int, ...] = ()


@dataclass(frozen=True)
class Output:
    """One tensor that the step returns.

    Attributes:
        tensor: Its name.
        shape: Static shape, ``None`` for unknown dims.
        dtype: NumPy name of the element type.
        composite: The number of the step's result that it is a component of, as of a sparse or ragged tensor; None if
            the tensor is a result by itself.
        is_whole: Whether it is wanted for the whole batch, also by workers that have brought a part of it.
    """

    tensor: str
    shape: tuple[int | None, ...] | None
    dtype: str
    composite: int | None = None
    is_whole: bool = False
