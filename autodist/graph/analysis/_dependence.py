"""How the tensors of a step depend on the batch: their scalings, and where each of them can be computed.

A sum or mean over the batch that no gradient flows through (the number of tokens that are no padding, the mean of an
input) is *global*: replicas use its value for the whole batch. It is data to whatever is computed from it, so that a
loss divided by it is still a sum or a mean. Values through which gradients flow, such as the statistics of a batch
normalization in training, stay a replica's own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from autodist.graph._function_bodies import FunctionBodies
from autodist.graph._graph_def import (
    FROZEN,
    OWN_GRADIENT,
    data_inputs,
    is_stateful,
    node_of,
    output_shape,
    output_types,
    split_tensor,
    tensor_dtype,
    tensor_shape,
)
from autodist.graph.analysis._batch_scaling import ROWLIKE, BatchScaling, ScalingRules
from autodist.graph.annotations import RATIO, SEED, by_of
from autodist.graph.batch import BY, BY_REPLICA, RETURNED, SCALING_OF, Follower, Rows, Size, Value
from autodist.graph.operators import CONTROL_FLOW, Asks, Kind, is_kind, meaning, operator

WHOLE = "_autodist_whole"
"""NodeDef attribute of a number of examples that replicas use with its value for the whole batch."""

_REDUCED = frozenset({BatchScaling.SUM, BatchScaling.COUNT, BatchScaling.MEAN, BatchScaling.SAME})
_NO_SIZES = ("float", "bfloat", "complex", "bool")
_GLOBAL = frozenset({BatchScaling.SUM, BatchScaling.MEAN, BatchScaling.MIXED})

_CONSTANT = (BatchScaling.CONSTANT,)
_LENGTHS = frozenset({Asks.LENGTHS, Asks.EACH})
_SIZES = _LENGTHS | {Asks.COUNT}


class BatchDependence:
    """The share of the batch in every node of a flat graph.

    Args:
        nodes: The graph, by name.
        sources: By node, the nodes whose data it reads.
        order: Its names in topological order.
        split: Placeholders whose dim 0 is the batch.
        handles: Placeholders of variables' handles.
        is_joined: Whether a node is a gradient's mark, or another node at which the replicas' values are joined: the
            nodes that follow see the value for the whole batch.
        bodies: The functions of the graph.

    Attributes:
        scalings: By node name, the scalings of its outputs; a node that is not in it does not depend on the batch.
        joined: The gradients with respect to tensors that are equal for all examples: each replica has a part of them.
    """

    def __init__(
        self,
        nodes: dict[str, Any],
        sources: Mapping[str, Sequence[str]],
        order: Iterable[str],
        split: Iterable[str],
        handles: Iterable[str],
        is_joined: Callable[[str], bool],
        bodies: FunctionBodies,
    ) -> None:
        self.nodes = nodes
        self.scalings: dict[str, tuple[BatchScaling, ...]] = dict.fromkeys(split, (BatchScaling.ROWS,))
        has_batch = bool(self.scalings)
        self.joined: set[str] = set()
        self._evaluable: dict[str, bool] = dict.fromkeys(self.scalings, False)
        self._differentiable = {handle for handle in handles if FROZEN not in nodes[handle].attr}
        by_tensors = {name for name, node in nodes.items() if BY in node.attr}
        self._differentiable |= {sources[name][1] for name in by_tensors}
        self._sizes: set[str] = set()
        self._computable: dict[str, bool] = {}
        self._global: dict[str, bool] = {}
        """The answers of :meth:`is_global`, as soon as all is known that it asks for."""
        self._is_complete = False
        self._backward: set[str] = set()
        self._follower = Follower(
            nodes, bodies, dict.fromkeys(self.scalings, (Rows(0),)), self.is_global, self._differentiable
        )
        as_data = ScalingRules(nodes, self._as_data, self._value, self._follower.is_multiple)
        as_it_is = ScalingRules(nodes, self.scaling, self._value, self._follower.is_multiple)
        for name in order:
            node, inputs = nodes[name], sources[name]
            if (
                (not self._differentiable.isdisjoint(inputs) and _carries_gradients(node))
                or SEED in node.attr
                or self._has_own_gradient(node)
            ):
                self._differentiable.add(name)
            if name in self.scalings or is_joined(name):
                continue
            if name in by_tensors and self._is_joined_gradient(node):
                self.joined.add(name)
                continue
            if self._is_of_backward_pass(node, inputs):
                self._backward.add(name)  # keeps examples apart if its forward pass does
            if not self.scalings.keys().isdisjoint(inputs):
                self._visit(node, as_data if name in self._differentiable else as_it_is)
            elif has_batch and RATIO in node.attr:  # the replicas have other weights
                self.scalings[name], self._evaluable[name] = (BatchScaling.MIXED,), False
        self._is_complete = True

    def _has_own_gradient(self, node: Any) -> bool:
        """Whether the program defines a gradient that flows through a node, and on to something that has one."""
        if OWN_GRADIENT not in node.attr:
            return False
        return not self._differentiable.isdisjoint(node.attr[OWN_GRADIENT].s.decode().split(","))

    def _visit(self, node: Any, rules: ScalingRules) -> None:
        name, tensors = node.name, data_inputs(node)
        if name not in self._backward:
            self._follower.visit(node)
        self.scalings[name] = rules.outputs(node)
        self._evaluable[name] = self._can_be_evaluated(name, tensors)
        if self._is_size(node, tensors):
            self._sizes.add(name)

    def _is_of_backward_pass(self, node: Any, inputs: Iterable[str]) -> bool:
        if self._backward.isdisjoint(inputs) and SEED not in node.attr and RATIO not in node.attr:
            return False
        by = by_of(node)
        return not ((by is not None and by.is_returned) or RETURNED in node.attr)

    def _is_joined_gradient(self, node: Any) -> bool:
        """Whether a gradient was taken by something that is the same for all examples, and for all replicas."""
        if node_of(node.input[0]) not in self.scalings:
            return False
        source = node.input[1]
        return self.scaling(source) in (BatchScaling.CONSTANT, BatchScaling.SAME) or self.is_global(source)

    def scaling(self, tensor: str) -> BatchScaling:
        """How a tensor scales with the batch."""
        found = self.scalings.get(tensor)  # the name of a first output is that of its node
        if found is not None:
            return found[0]
        name, index = split_tensor(tensor)
        found = self.scalings.get(name, _CONSTANT)
        return found[index] if index < len(found) else found[-1]

    def is_reduced(self, tensor: str) -> bool:
        """Whether the replicas' values of a tensor make that of the whole batch by a sum."""
        return self.scaling(tensor) in _REDUCED or self.static_shape(tensor) is not None

    def is_evaluable(self, tensor: str) -> bool:
        """Whether a tensor can be computed from reduced ones of the whole batch, or is one itself."""
        return self._evaluable.get(node_of(tensor), True) or self.is_reduced(tensor)

    def is_in_order(self, tensor: str) -> bool:
        """Whether the replicas' rows of a tensor, one after another, are those of one device."""
        if self.scaling(tensor) not in (BatchScaling.ROWS, BatchScaling.SUBSET):
            return False
        shape, rows = tensor_shape(self.nodes, tensor), self._value(tensor)
        if shape is None:
            return True
        if node_of(tensor) in self._backward:  # the gradients of a vectorized loop have its turns as dim 0
            return shape[0] is None and shape.count(None) == 1
        if not isinstance(rows, Rows) or rows.position is not None or rows.dim != 0 or shape.count(None) > 1:
            return False  # carriers join along dim 0
        return rows.outer == 1 or (rows.outer is None and not rows.selected)

    def is_computable(self, tensor: str) -> bool:
        """Whether a tensor of the whole batch can be computed, cheaply, from values joined over the replicas.

        These are reduced values, or rows that are gathered from all replicas.
        """
        name = node_of(tensor)
        if self.is_evaluable(tensor) or self.is_in_order(tensor):
            return tensor_dtype(self.nodes, tensor) not in ("string", "variant", "resource")
        if name not in self._computable:
            node = self.nodes[name]
            self._computable[name] = False
            is_alone = name in self._backward or is_stateful(node.op) or node.op == "Placeholder"
            self._computable[name] = not (is_alone or self._is_costly(node)) and all(
                self.scaling(source) is BatchScaling.CONSTANT or self.is_computable(source)
                for source in data_inputs(node)
            )
        return self._computable[name]

    def is_of_values(self, tensor: str) -> bool:
        """Whether a tensor is computed, cheaply, from floats without a row per example, whatever these depend on."""
        node = self.nodes[node_of(tensor)]
        is_alone = node.name in self._backward or is_stateful(node.op) or node.op in CONTROL_FLOW
        return not (is_alone or self._is_costly(node)) and all(map(self._is_value, data_inputs(node)))

    def _is_value(self, tensor: str) -> bool:
        scaling = self.scaling(tensor)
        if scaling is BatchScaling.CONSTANT or self.is_reduced(tensor):
            return True
        return scaling is BatchScaling.MIXED and tensor_dtype(self.nodes, tensor).startswith(("float", "bfloat"))

    def _is_costly(self, node: Any) -> bool:
        """Whether a node applies weights, which each replica does for its own examples alone."""
        if not (is_kind(node.op, Kind.PRODUCT, Kind.CONVOLUTION) or node.op in CONTROL_FLOW):
            return False
        return any(
            node_of(source) in self._differentiable and self.scaling(source) is BatchScaling.CONSTANT
            for source in data_inputs(node)
        )

    def is_global(self, tensor: str) -> bool:
        """Whether replicas use a tensor's value for the whole batch; see the module's docstring."""
        if not self._is_complete:
            return self._find_global(tensor)
        if tensor not in self._global:
            self._global[tensor] = self._find_global(tensor)
        return self._global[tensor]

    def _find_global(self, tensor: str) -> bool:
        name = node_of(tensor)
        if WHOLE in self.nodes[name].attr:
            return name in self.scalings
        if self.scaling(tensor) not in _GLOBAL or name in self._differentiable or BY_REPLICA in self.nodes[name].attr:
            return False
        # Whole numbers may be sizes, and a replica's tensors have its own sizes.
        is_size = name in self._sizes or not tensor_dtype(self.nodes, tensor).startswith(_NO_SIZES)
        return not is_size and self.is_computable(tensor)

    def is_backward(self, name: str) -> bool:
        """Whether a node belongs to a backward pass."""
        return name in self._backward

    @property
    def causes(self) -> dict[str, str]:
        """By node of the forward pass in which examples of a batch meet, a text that says how they meet."""
        return self._follower.causes

    def meetings(self, tensors: Iterable[str]) -> tuple[str, ...]:
        """The nodes in which examples meet on the way to some tensors, as far as these are computed by replicas."""
        return tuple(sorted(self.causes.keys() & self.computed_by_replicas(tensors)))

    def computed_by_replicas(self, tensors: Iterable[str]) -> set[str]:
        """The nodes on the way to some tensors that are computed by replicas, each of its own rows."""
        seen: set[str] = set()
        stack = [tensor for tensor in tensors if not self.is_global(tensor)]
        while stack:
            name = node_of(stack.pop())
            if name in seen or name not in self.scalings:
                continue
            seen.add(name)
            node = self.nodes[name]
            if SCALING_OF in node.attr:
                stack.append(node.attr[SCALING_OF].s.decode())
            elif not is_kind(node.op, Kind.SHAPE):
                stack.extend(tensor for tensor in data_inputs(node) if not self.is_global(tensor))
        return seen

    def uses_global(self, name: str) -> bool:
        """Whether a node's copies in the replicas take global values as inputs, rather than make a part of one."""
        rows = any(scaling in ROWLIKE for scaling in self.scalings.get(name, ()))
        return rows or name in self._differentiable

    def static_shape(self, tensor: str) -> tuple[int | None, ...] | None:
        """For the shape of a tensor with a batch dim: its entries, None for the batch."""
        name, index = split_tensor(tensor)
        node = self.nodes[name]
        if meaning(node.op).asks not in _LENGTHS or self.scaling(tensor) is not BatchScaling.SHAPE:
            return None
        source, output = split_tensor(data_inputs(node)[index])
        shape = output_shape(self.nodes[source], output)
        return shape if shape is not None and shape.count(None) == 1 else None

    def dim_of_batch(self, tensor: str) -> int | None:
        """Along which dim a tensor of the forward pass has the examples; None if it has none, or they have met."""
        rows = self._value(tensor)
        return rows.dim if isinstance(rows, Rows) else None

    def follow(self, node: Any, values: Sequence[Value]) -> tuple[list[Value], str | None]:
        """Where a node's outputs would have the batch if its inputs had it there, and why examples would meet in it."""
        return self._follower.outcome(node, values)

    def entries(self, tensor: str) -> tuple[Size, ...] | None:
        """The entries of a vector of whole numbers, some of which may be multiples of the number of examples."""
        return self._follower.entries(tensor)

    def _value(self, tensor: str) -> Value:
        return self._follower.value(tensor)

    def _as_data(self, tensor: str) -> BatchScaling:
        return BatchScaling.CONSTANT if self.is_global(tensor) else self.scaling(tensor)

    def _is_size(self, node: Any, tensors: Sequence[str]) -> bool:
        """Whether a node depends on how many examples there are, but not on what they are."""
        if meaning(node.op).asks in _SIZES:
            return BatchScaling.SUBSET not in map(self.scaling, tensors)
        return all(name in self._sizes or name not in self.scalings for name in map(node_of, tensors))

    def _can_be_evaluated(self, name: str, tensors: Sequence[str]) -> bool:
        if not ROWLIKE.isdisjoint(self.scalings[name]):
            return False
        return all(self.is_evaluable(tensor) for tensor in tensors)


def _carries_gradients(node: Any) -> bool:
    """Whether gradients flow through a node: an output is a float, or a handle on the way to one."""
    known = operator(node.op)
    is_flat = known is not None and known.is_flat
    return not is_flat and any(kind in _gradient_types() for kind in output_types(node))


@functools.cache
def _gradient_types() -> frozenset[int]:
    import tensorflow as tf

    kinds = ("bfloat16", "half", "float32", "float64", "complex64", "complex128", "resource", "variant")
    return frozenset(tf.as_dtype(kind).as_datatype_enum for kind in kinds)
