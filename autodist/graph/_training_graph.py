"""What a captured training step is made of: frozen value objects."""

from __future__ import annotations

import enum
import os
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autodist.graph._update_region import UpdateRegions

from autodist.graph._analysis import StepAnalysis
from autodist.graph._graph_def import itemsize, node_of
from autodist.graph._identity import Identity, combined
from autodist.graph._serialize import load_graph, parse_graph_def, save_graph
from autodist.graph._uses import Use, variable_uses

__all__ = ["Gradient", "Output", "Piece", "Role", "StepInput", "TrainingGraph", "Variable"]


class Role(enum.Enum):
    """What a captured variable is to the step."""

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
    ``dense_shape``. One that was factored has ``left`` and ``right``, with a row per example each.
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
class Piece:
    """Which part of one of the program's variables a variable of a prepared graph is.

    Attributes:
        whole: Name of the program's variable.
        begin: Per dim, where the part begins; its size is the shape of the variable that has this piece.
        whole_shape: Shape of the program's variable.
    """

    whole: str
    begin: tuple[int, ...]
    whole_shape: tuple[int, ...]


@dataclass(frozen=True)
class Variable:
    """One captured variable.

    Attributes:
        name: Unique within the graph; readable, but not to be parsed.
        handle: Name of the placeholder node that stands for its resource handle.
        shape: Static shape.
        dtype: NumPy name of the element type, ``"float32"``; ``"bfloat16"`` is known too.
        role: What it is to the step.
        gradients: Gradients with respect to it, in the order in which they were taken; empty if it has none.
        owners: For a slot: names of the trainable variables whose gradients its value depends on.
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
    piece: Piece | None = None
    content: str | None = None

    @property
    def is_sparse(self) -> bool:
        """Whether any gradient of it is sparse."""
        return any(gradient.is_sparse for gradient in self.gradients)

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
    """

    tensor: str
    split: bool
    shape: tuple[int | None, ...] | None
    dtype: str


@dataclass(frozen=True)
class Output:
    """One tensor that the step returns."""

    tensor: str
    shape: tuple[int | None, ...] | None
    dtype: str


@dataclass(frozen=True)
class TrainingGraph:
    """G: one training step of a single-device program, flattened, with its variables and gradients.

    Attributes:
        graph_def: The flattened GraphDef. Treated as immutable. None for a graph that is only described: strategies can
            be built and verified for it, but not run.
        variables: All captured variables, in capture order.
        inputs: The step's tensor arguments, in call order.
        outputs: The step's tensor results, in flattened order.
        effects: Nodes that must run although nothing reads them: assignments, prints.
        lines: For nodes of interest, the user's ``file:line`` they come from.
        batch_size: Examples in the global batch that the step was captured for, None if nobody has said.
    """

    graph_def: Any
    variables: tuple[Variable, ...]
    inputs: tuple[StepInput, ...]
    outputs: tuple[Output, ...]
    effects: tuple[str, ...]
    lines: dict[str, str] = field(default_factory=dict, compare=False, repr=False)
    batch_size: int | None = field(default=None, compare=False)

    @property
    def has_batch(self) -> bool:
        """Whether there is something to be split over the replicas."""
        return any(argument.split for argument in self.inputs)

    @property
    def fixed_rows(self) -> int | None:
        """The number of examples of a step that was traced for just that number; None for any number."""
        return next((argument.shape[0] for argument in self.inputs if argument.split and argument.shape), None)

    def without_gradients(self) -> TrainingGraph:
        """The same step as one that nobody else has a part in: its gradients are like all that it computes."""
        written = (Role.TRAINABLE, Role.SLOT)
        variables = tuple(
            replace(
                v,
                role=Role.COUNTER if v.role in written else v.role,
                gradients=(),
                owners=(),
                coupled=(),
                backward_order=-1,
            )
            for v in self.variables
        )
        return replace(self, variables=variables)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one file, a zip archive that :meth:`load` reads back; whole or not at all.

        Raises:
            GraphError: It can't be written.
        """
        save_graph(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> TrainingGraph:
        """Read a file that :meth:`save` wrote. TensorFlow is imported when ``graph_def`` is looked at, not before.

        Raises:
            GraphError: It can't be read, is no such file, is damaged, or was written by a newer version.
        """
        fields, content = load_graph(path)
        known = {name: fields.pop(name) for name in ("uses", "identity")}
        graph = cls(None, **fields)
        # Frozen for users; here the object is still being made.
        del graph.__dict__["graph_def"]
        graph.__dict__.update({name: value for name, value in known.items() if value is not None}, _unparsed=content)
        return graph

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Parse the GraphDef of a graph that comes from a file."""
            if name != "graph_def" or "_unparsed" not in self.__dict__:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
            self.__dict__["graph_def"] = parse_graph_def(self.__dict__.pop("_unparsed"))
            return self.__dict__["graph_def"]

    def with_batch_size(self, batch_size: int | None) -> TrainingGraph:
        """The same graph, captured for a batch of so many examples; what is known of its nodes is kept."""
        graph = replace(self, batch_size=batch_size)
        graph.__dict__["analysis"] = self.analysis
        return graph

    def variable(self, name: str) -> Variable:
        """The variable of this name."""
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, Variable]:
        return {variable.name: variable for variable in self.variables}

    def slots_of(self, name: str) -> tuple[Variable, ...]:
        """The slots whose values depend on the gradients of a trainable variable."""
        return tuple(self._slots.get(name, ()))

    @cached_property
    def _slots(self) -> dict[str, list[Variable]]:
        slots: dict[str, list[Variable]] = {}
        for variable in self.variables:
            for owner in variable.owners:
                slots.setdefault(owner, []).append(variable)
        return slots

    @cached_property
    def analysis(self) -> StepAnalysis:
        """An index of the graph, made once: what its nodes do, and how they depend on the batch."""
        split = [node_of(step_input.tensor) for step_input in self.inputs if step_input.split]
        return StepAnalysis(self.graph_def, [v.handle for v in self.variables], split)

    @cached_property
    def uses(self) -> dict[str, Use]:
        """By trainable variable, how the step fetches its value and how large its gradients are."""
        return variable_uses(self)

    @property
    def trainable(self) -> tuple[Variable, ...]:
        """The variables with a gradient: those that a strategy has a config for."""
        return tuple(v for v in self.variables if v.role is Role.TRAINABLE)

    @cached_property
    def update_regions(self) -> UpdateRegions:
        """The updates of its variables: which of them can be cut into shards, and how."""
        from autodist.graph._update_region import UpdateRegions  # which is about this class

        return UpdateRegions(self)

    @cached_property
    def identity(self) -> Identity:
        """What :attr:`step_id` and :attr:`id` are made of."""
        return Identity.of(self)

    @property
    def step_id(self) -> str:
        """A hash of the step: operations, attributes, shapes, constants, variables; the same whatever the batch size.

        Every tracing of one step has the same, in every process, and so has the graph that comes back from a file.
        """
        return self.identity.step

    @property
    def id(self) -> str:
        """A hash of all that a plan, a trial or a profile could depend on: :attr:`step_id` and the batch's size."""
        return combined([self.step_id.encode(), repr(self.batch_size).encode()])
