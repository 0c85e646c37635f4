"""Whether a step can run on a part of its batch: what it computes must not need all the rows that one device has.

A step is traced for any number of rows, but a constant, a variable, an argument that is no batch or a shape in the
program may say what the number is. TensorFlow would find that out in the middle of a run. Here its shape functions are
asked before, with the number of rows that a replica gets, and row numbers that come from the data are looked for.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from autodist.errors import FixedRowsError
from autodist.graph import (
    LOOPS,
    BatchScaling,
    FunctionBodies,
    Role,
    TrainingGraph,
    ancestors,
    called_functions,
    constant_value,
    data_inputs,
    node_of,
    output_shape,
    split_tensor,
    tensor_shape,
)
from autodist.graph.batch import picked_beyond, turns
from autodist.graph.layouts import unlike_for
from autodist.graph.operators import Kind, Passes, is_kind, meaning, passes_on
from autodist.kernels.replicate._demand import NodeDemand
from autodist.wording import counted

PICKED = (
    "each replica has a part of the batch, whose rows have other numbers: write `tf.shape(x)[0]` for the number of "
    "rows; to pick examples, give the step a weight for each of them, 0 or 1, `tf.reduce_sum(weights * losses)`"
)
"""The advice on picking examples by their numbers."""

_NUMBERS = (
    "each replica gets a part of the batch, with fewer rows: write `tf.shape(x)[0]` for their number, -1 for it in "
    "`tf.reshape`, None for it in `set_shape` and `ensure_shape`"
)
_WHOLE = (
    "what is not part of the batch must not be an argument with the batch's rows: make it outside of the step, "
    "`weights = tf.constant(...)`, and let the step use `weights`"
)
_GRAPHS = (
    "rows that refer to each other, like the nodes of a graph, belong into one example: give all arguments one dim "
    "more, [graphs, nodes, ...], a batch of one graph too: `step(adjacency[None], features[None], labels[None])`"
)
_STATES = (
    "a state with a row for each example is a part of the batch: let the step take it as an argument and return it, "
    "`loss, state = step(x, y, state)`; of recurrent layers without `stateful`, by `initial_state` and `return_state`"
)
_PER_ROW = (
    "a variable with a row for each example is looked up: let the step take the numbers of its rows as an argument, "
    "`tf.gather(variable, numbers)`"
)

_NODE = re.compile(r"\{\{node ([^}]+)\}\}|Node '([^']+)'")
_SAID = "_output_shapes attribute inconsistent"
"""Part of TensorFlow's error message if the program, not an op, has set the shape of a tensor."""
_MOST_LOOKED_AT = 400  # nodes; tensors that are farther away are unlikely causes


def refuse_fixed_batches(
    graph: TrainingGraph,
    num_replicas: int,
    names: Sequence[str],
    line_of: Callable[[str], str],
    *,
    planned_rows: int | None,
) -> bool:
    """Refuse a step that only the whole batch can go through.

    Args:
        graph: The step.
        num_replicas: Into how many parts batches are split.
        names: What to call its arguments.
        line_of: The user's line of a node.
        planned_rows: The rows that the step is planned for, if replicas share it tensor by tensor, 0 if that is not
            known; None if they don't. A plan is for any number of rows, so a step of one, or of more, has to fit it.

    Returns:
        Whether it may need all rows of a batch with another number of them.

    Raises:
        FixedRowsError: It needs all rows of a batch with the graph's number of them.
    """
    rows = graph.batch_size or 0
    part = -(-rows // num_replicas)
    is_one = part >= rows
    if is_one and planned_rows is None:
        return True
    check = _Check(graph, rows, rows + 1 if is_one else part, names, line_of)
    if is_one:
        check.run_where_examples_meet()
    else:
        check.run()
    if check.meeting and planned_rows is not None and (is_one or rows > planned_rows):
        check.run_for_a_plan(graph.with_batch_size(planned_rows or None))
    return is_one or bool(check.meeting)  # else there is no number of rows in it, or it was the one of this batch


@dataclass(frozen=True)
class _Conflict:
    """Where shapes conflict, with TensorFlow's reason."""

    node: str
    reason: str


class _Check:
    def __init__(
        self, graph: TrainingGraph, rows: int, part: int, names: Sequence[str], line_of: Callable[[str], str]
    ) -> None:
        self.rows = rows
        self.part = part
        self.line_of = line_of
        self.analysis = graph.analysis
        self.nodes = graph.analysis.nodes
        self.variables = {v.handle: v for v in graph.variables}
        self.arguments = {
            node_of(given.tensor): (name, given) for name, given in zip(names, graph.inputs, strict=True) if given.split
        }
        demand = NodeDemand(self.analysis, graph)
        self.replica = demand.replica
        self.meeting = self._meeting(demand.losses)
        self.looked_at = self.replica | self.meeting
        self.bodies = FunctionBodies(self.analysis.graph_def)

    def _meeting(self, losses: Sequence[str]) -> set[str]:
        """Values of replicas for losses in which examples meet; for other losses, the gradients are enough."""
        dependence = self.analysis.dependence
        return dependence.computed_by_replicas(losses) if dependence.meetings(losses) else set()

    def run(self) -> None:
        for name in (name for name in self.analysis.order if name in self.looked_at):
            self._check_rows_named(name)
            self._check_reshape(name)
        self._check_shapes()

    def run_where_examples_meet(self) -> None:
        """Check the shapes of a step that will be planned."""
        if self.meeting:
            self._check_shapes()

    def run_for_a_plan(self, graph: TrainingGraph) -> None:
        """Check whether tensors for this number of rows have the sizes that a plan assumes."""
        name = unlike_for(graph, self.rows)
        if name is not None:
            self._refuse(
                f"has another size of {counted(self.rows, 'row')} than other numbers of rows lead to", name, _NUMBERS
            )

    # Rows that are named by number ---------------------------------------------------------------------------------

    def _check_rows_named(self, name: str) -> None:
        """Refuse to pick rows of the batch by numbers that were made for the whole of it."""
        node = self.nodes[name]
        if not self._picks_rows(node):
            return
        index = self.nodes[self._origin(node.input[1], _is_formed)]
        params = self._origin(node.input[0], _is_passed_on)
        if index.name in self.arguments or (index.op == "Placeholder" and index.name not in self.variables):
            numbers = self.arguments[index.name][0] if index.name in self.arguments else "an argument"
            picked = self.arguments[params][0] if params in self.arguments else "what it computes of the batch"
            self._refuse(
                f"picks rows of {picked}, which has the {self.rows} rows of the batch, by the numbers in {numbers}",
                name,
                _WHOLE if params in self.arguments else _GRAPHS,
            )
        elif self.analysis.scaling(node.input[1]) is BatchScaling.CONSTANT and self._shape(node.input[1])[:1] == (
            self.rows,
        ):
            self._refuse(f"picks {self.rows} rows of the batch by numbers", name, _NUMBERS)

    def _picks_rows(self, node: Any) -> bool:
        lookup = meaning(node.op).lookup
        if lookup is None or lookup.by_handle:
            return False
        if self.analysis.scaling(node.input[0]) is not BatchScaling.ROWS or self._shape(node.input[0])[:1] != (None,):
            return False
        if lookup.by_coordinates:
            return True
        axes = data_inputs(node)[2:]
        return not node.attr["batch_dims"].i and (not axes or constant_value(self.nodes[node_of(axes[0])]) == 0)

    def _check_reshape(self, name: str) -> None:
        """Refuse a shape that begins with the number of rows and leaves it open what else there is."""
        node = self.nodes[name]
        wanted = constant_value(self.nodes[node_of(node.input[1])]) if node.op == "Reshape" else None
        if wanted is None or not wanted.size or self.analysis.scaling(node.input[0]) is not BatchScaling.ROWS:
            return
        if wanted[0] == self.rows and -1 in wanted and self._shape(node.input[0])[:1] == (None,):
            self._refuse(f"has the shape {wanted.tolist()}, with the batch's {self.rows} rows", name, _NUMBERS)

    # Shapes --------------------------------------------------------------------------------------------------------

    def _check_shapes(self) -> None:
        if self.meeting:  # by themselves, as of a backward pass, which may break as well, the program has no lines
            nodes = self._needed(self.meeting)
            imported = self._imported(nodes, self._sizes(self.part))
            if not isinstance(imported, _Conflict):
                self._check_picked(imported, nodes, self.meeting)
        nodes = self._needed(self.looked_at)
        imported = self._imported(nodes, self._sizes(self.part))
        if not isinstance(imported, _Conflict):
            self._check_picked(imported, nodes, self.replica)
            for node in nodes:
                self._check_bodies(node, imported.get_operation_by_name(node.name), node.name)
        elif not isinstance(self._imported(nodes, self._sizes(self.rows)), _Conflict):
            self._explain(imported, imported.node)  # else one device could not run it either

    def _needed(self, names: set[str]) -> list[Any]:
        kept = ancestors(self.nodes, names)
        return [node for node in self.analysis.graph_def.node if node.name in kept]

    def _check_picked(self, imported: Any, nodes: Sequence[Any], looked_at: set[str]) -> None:
        """Refuse to pick elements that exist in the whole batch, but not in a part of it."""
        names = (node.name for node in nodes if node.name in looked_at)
        found = ((name, picked_beyond(imported.get_operation_by_name(name))) for name in names)
        missing = {name: beyond for name, beyond in found if beyond is not None}
        if not missing:
            return
        whole = self._imported(nodes, self._sizes(self.rows))
        for name, (number, count) in missing.items():
            if isinstance(whole, _Conflict) or picked_beyond(whole.get_operation_by_name(name)) is None:
                what = (
                    f"picks element {number} along a dim that has {count} elements in a replica's part of the batch "
                    f"({self.part} of its {self.rows} rows)"
                )
                self._refuse(what, name, PICKED)

    def _check_bodies(self, node: Any, operation: Any, outer: str) -> None:
        """Check the functions of control flow, with the shapes of their arguments."""
        inputs, found = operation.inputs, []
        for function in called_functions(node):
            body = list(self.bodies.nodes(function.name).values())
            arguments = [other for other in body if other.op == "Placeholder"]
            given = inputs[len(inputs) - len(arguments) :]
            shapes = {a.name: t.shape.as_proto() for a, t in zip(arguments, given, strict=True)}
            imported = self._imported(body, shapes)
            if not isinstance(imported, _Conflict):
                found.append(imported)
                for other in body:
                    self._check_bodies(other, imported.get_operation_by_name(other.name), outer)
            elif not isinstance(self._imported(body, {}), _Conflict):
                self._explain(imported, outer)
        if node.op in LOOPS and outer in self.analysis.dependence.causes:
            count = next((n for n in turns(operation, found, self.part) if self.part < n <= self.rows), None)
            if count is not None:
                self._refuse(f"goes through {count} rows by number, of which a part has {self.part}", outer, PICKED)

    def _sizes(self, rows: int) -> dict[str, Any]:
        """By placeholder, the shape of an argument with this many rows."""
        import tensorflow as tf

        return {
            name: tf.TensorShape([rows, *given.shape[1:]]).as_proto()
            for name, (_, given) in self.arguments.items()
            if given.shape
        }

    def _imported(self, nodes: Sequence[Any], shapes: dict[str, Any]) -> Any:
        """A graph of these nodes, whose shapes have been inferred; or where that fails."""
        import tensorflow as tf

        source = self.analysis.graph_def
        graph_def = tf.compat.v1.GraphDef(versions=source.versions, library=source.library)
        for node in nodes:
            copy = graph_def.node.add()
            copy.CopyFrom(node)
            copy.attr.pop("_class", None)
            if node.name in shapes:
                copy.attr["shape"].shape.CopyFrom(shapes[node.name])
                copy.attr.pop("_output_shapes", None)
        try:
            with tf.Graph().as_default() as graph:
                tf.graph_util.import_graph_def(graph_def, name="")
        except ValueError as error:
            found = _NODE.search(str(error))
            if found is None:
                raise
            return _Conflict(found[1] or found[2], str(error))
        return graph

    # What to say ---------------------------------------------------------------------------------------------------

    def _explain(self, conflict: _Conflict, name: str) -> None:
        fact, hint = "", _NUMBERS
        is_part = self.part < self.rows
        if _SAID in conflict.reason:
            why = f"is said to have the shape {list(self._shape(conflict.node))}"
        else:
            text = conflict.reason.partition(" for '{{node")[0].splitlines()[0].rstrip(".")
            why = f"fails with {f'the {self.part} of a part' if is_part else self.part}: {text}"
            hint = PICKED if meaning(self.nodes[name].op).picks else hint
            fact, hint = next(self._suspects(name), (fact, hint))
        needs = f"needs all {self.rows} rows of the batch" if is_part else f"is for {counted(self.rows, 'row')} only"
        self._refuse(f"{needs}, it {why}{fact}", name, hint)

    def _suspects(self, name: str) -> Iterator[tuple[str, str]]:
        """Tensors with the batch's number of rows that aren't a part of it, the nearest first, and what to do."""
        yield from self._vectors(name)
        seen, queue = {name}, deque([name])
        while queue and len(seen) < _MOST_LOOKED_AT:
            node = self.nodes[queue.popleft()]
            yield from self._suspected(node)
            for other in map(node_of, data_inputs(node)):
                if other not in seen:
                    seen.add(other)
                    queue.append(other)

    def _vectors(self, name: str) -> Iterator[tuple[str, str]]:
        """Vectors among the arguments that an op combines with something else than rows of the batch."""
        inputs = data_inputs(self.nodes[name])
        for tensor in inputs:
            origin = self._origin(tensor, _is_formed)
            others = [self._shape(other) for other in inputs if other != tensor]
            if origin in self.arguments and self.arguments[origin][1].shape == (None,) and _beside(others, self.rows):
                yield f"; {self.arguments[origin][0]}, a vector of {self.rows}, is taken for rows of the batch", _WHOLE

    def _suspected(self, node: Any) -> Iterator[tuple[str, str]]:
        variable = self.variables.get(node.name)
        if variable is not None and variable.shape[:1] == (self.rows,):
            hint = _PER_ROW if variable.role is Role.TRAINABLE else _STATES
            yield f"; variable `{variable.name}` has {self.rows} rows too", hint
        called, given = self.arguments.get(node.name, ("", None))
        if given is not None and self.rows in (given.shape or ())[1:]:
            yield f"; {called} has the number of the batch's rows in another dim too", _GRAPHS
        if node.op == "Const" and output_shape(node) == (self.rows, self.rows):
            yield f"; a constant has the shape {[self.rows, self.rows]}", _GRAPHS

    def _origin(self, tensor: str, is_same: Callable[[str], bool]) -> str:
        """The node whose value a tensor has, perhaps in another form."""
        name, index = split_tensor(tensor)
        while is_same(self.nodes[name].op):
            node = self.nodes[name]
            position = index if node.op == "IdentityN" else meaning(node.op).source
            name, index = split_tensor(data_inputs(node)[position])
        return name

    def _shape(self, tensor: str) -> tuple[int | None, ...]:
        return tensor_shape(self.nodes, tensor) or ()

    def _refuse(self, what: str, name: str, hint: str) -> None:
        op = self.nodes[name].op
        raise FixedRowsError(f"op `{name}` ({op}) at {self.line_of(name)} {what}", hint=hint)


def _beside(shapes: Sequence[tuple[int | None, ...]], rows: int) -> bool:
    """Whether a tensor has the number of rows in a dim that is not its first one."""
    return any(rows in shape[1:] for shape in shapes)


def _is_passed_on(op: str) -> bool:
    return passes_on(op, Passes.SAME, Passes.TYPE)


def _is_formed(op: str) -> bool:
    """Whether the result consists of elements of its input."""
    return passes_on(op) or (is_kind(op, Kind.MOVING) and meaning(op).picks and op != "OneHot")
