"""G: a captured training step."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from autodist.graph._graph_def import node_of
from autodist.graph._identity import Identity, combined
from autodist.graph._serialize import load_graph, parse_graph_def, save_graph
from autodist.graph._variables import Output, Role, StepInput, Variable
from autodist.graph.analysis import StepAnalysis, VariableUse, variable_uses
from autodist.graph.updates import UpdateRegions, in_parts


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
        batch_size: Examples in the global batch that the step was captured for, None if unknown.
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

    @property
    def shares_examples(self) -> bool:
        """Whether replicas have parts of each example, as of an image, instead of parts of the batch."""
        return any(argument.tiles for argument in self.inputs)

    def without_gradients(self) -> TrainingGraph:
        """The same step for a single worker: its gradients are ordinary tensors, which are not synchronized."""
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
        """The same graph, captured for a batch of this many examples; what is known of its nodes is kept."""
        graph = replace(self, batch_size=batch_size)
        graph.__dict__["analysis"] = self.analysis
        return graph

    def with_tiles(self, tiles: Sequence[tuple[int, ...]]) -> TrainingGraph:
        """The same graph, with inputs that are cut along these dims; what is known of its nodes is kept."""
        inputs = tuple(replace(given, tiles=dims) for given, dims in zip(self.inputs, tiles, strict=True))
        graph = replace(self, inputs=inputs)
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
    def uses(self) -> dict[str, VariableUse]:
        """By trainable variable, how the step fetches its value and how large its gradients are."""
        return variable_uses(self)

    @property
    def trainable(self) -> tuple[Variable, ...]:
        """The variables with a gradient: those that a strategy has a config for."""
        return tuple(v for v in self.variables if v.role is Role.TRAINABLE)

    @cached_property
    def update_regions(self) -> UpdateRegions:
        """The updates of its variables: which of them can be cut into shards, and how."""
        return UpdateRegions(self)

    @cached_property
    def in_parts(self) -> TrainingGraph:
        """The step as it is for variables that are tiled: single numbers, such as a norm, couple no variables."""
        return in_parts(self)

    @cached_property
    def tile_regions(self) -> UpdateRegions:
        """The updates of its variables: which of them replicas can have parts of; see :attr:`in_parts`."""
        return UpdateRegions(self, of_tiles=True)

    @cached_property
    def identity(self) -> Identity:
        """The parts of :attr:`step_id` and :attr:`id`."""
        return Identity.of(self)

    @property
    def step_id(self) -> str:
        """A hash of the step: operations, attributes, shapes, constants, variables; the same whatever the batch size.

        Every tracing of one step gives the same hash, in every process, and so does a graph loaded from a file.
        """
        return self.identity.step

    @property
    def id(self) -> str:
        """A hash of all that a plan, a trial or a profile could depend on: :attr:`step_id` and the batch's size."""
        return combined([self.step_id.encode(), repr(self.batch_size).encode()])
