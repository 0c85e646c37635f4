"""How the tensors of a step depend on the batch: their extents, and where each of them can be computed.

A sum or mean over the batch that no gradient flows through (the number of tokens that are no padding, the mean of an
input) is *global*: replicas use its value for the whole batch. It is data to whatever is computed from it, so that a
loss divided by it is still a sum or a mean. What gradients do flow through, such as the statistics of a batch
normalization in training, stays a replica's own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from autodist.graph._extent import Extent, ExtentRules
from autodist.graph._graph_def import (
    FROZEN,
    data_inputs,
    node_of,
    output_shape,
    output_types,
    split_tensor,
    tensor_dtype,
)
from autodist.graph._joins import Join, join_of
from autodist.graph._marks import SEED

__all__ = ["BatchDependence"]

_REDUCED = frozenset({Extent.SUM, Extent.COUNT, Extent.MEAN, Extent.SAME})
_ROWLIKE = frozenset({Extent.ROWS, Extent.SUBSET})
_GLOBAL = frozenset({Extent.SUM, Extent.MEAN, Extent.MIXED})


class BatchDependence:
    """What every node of a flat graph takes from the batch.

    Args:
        nodes: The graph, by name.
        order: Its names in topological order.
        split: Placeholders whose dim 0 is the batch.
        handles: Placeholders of variables' handles.
        is_joined: Whether a node is a gradient's mark, or another at which replicas meet: what lies beyond sees the
            value for the whole batch.

    Attributes:
        extents: By node name, the extents of its outputs; a node that is not in it does not depend on the batch.
    """

    def __init__(
        self,
        nodes: dict[str, Any],
        order: Iterable[str],
        split: Iterable[str],
        handles: Iterable[str],
        is_joined: Callable[[str], bool],
    ) -> None:
        self.nodes = nodes
        self.extents: dict[str, tuple[Extent, ...]] = dict.fromkeys(split, (Extent.ROWS,))
        self._evaluable: dict[str, bool] = dict.fromkeys(self.extents, False)
        self._differentiable = {handle for handle in handles if FROZEN not in nodes[handle].attr}
        self._sizes: set[str] = set()
        as_data, as_it_is = ExtentRules(nodes, self._as_data), ExtentRules(nodes, self.extent)
        for name in order:
            node = nodes[name]
            inputs = [node_of(tensor) for tensor in data_inputs(node)]
            own = SEED in node.attr or join_of(node) is Join.OWN
            if own or (not self._differentiable.isdisjoint(inputs) and _carries_gradients(node)):
                self._differentiable.add(name)
            if name in self.extents or is_joined(name) or not any(i in self.extents for i in inputs):
                continue
            rules = as_data if name in self._differentiable else as_it_is
            self.extents[name] = rules.outputs(node)
            self._evaluable[name] = self._can_be_evaluated(node)
            if self._is_size(node):
                self._sizes.add(name)

    def extent(self, tensor: str) -> Extent:
        """Extent of a tensor."""
        name, index = split_tensor(tensor)
        found = self.extents.get(name, (Extent.CONSTANT,))
        return found[index] if index < len(found) else found[-1]

    def is_reduced(self, tensor: str) -> bool:
        """Whether the replicas' values of a tensor make that of the whole batch by a sum."""
        return self.extent(tensor) in _REDUCED or self.static_shape(tensor) is not None

    def is_evaluable(self, tensor: str) -> bool:
        """Whether a tensor can be computed from reduced ones of the whole batch, or is one itself."""
        return self._evaluable.get(node_of(tensor), True) or self.is_reduced(tensor)

    def is_global(self, tensor: str) -> bool:
        """Whether replicas use a tensor's value for the whole batch; see the module's docstring."""
        name = node_of(tensor)
        if self.extent(tensor) not in _GLOBAL or name in self._differentiable:
            return False
        # Whole numbers may be sizes, and a replica's tensors have its own sizes.
        is_size = name in self._sizes or not tensor_dtype(self.nodes, tensor).startswith(("float", "bfloat", "complex"))
        return not is_size and self.is_evaluable(tensor)

    def uses_global(self, name: str) -> bool:
        """Whether a node's copies in the replicas take global values as inputs, rather than make a part of one."""
        if join_of(self.nodes[name]) is Join.OWN:
            return False
        rows = any(extent in _ROWLIKE for extent in self.extents.get(name, ()))
        return rows or name in self._differentiable

    def static_shape(self, tensor: str) -> tuple[int | None, ...] | None:
        """For the shape of a tensor with a batch dim: its entries, None for the batch."""
        name, index = split_tensor(tensor)
        node = self.nodes[name]
        if node.op not in ("Shape", "ShapeN") or self.extent(tensor) is not Extent.SHAPE:
            return None
        source, output = split_tensor(data_inputs(node)[index])
        shape = output_shape(self.nodes[source], output)
        return shape if shape is not None and shape.count(None) == 1 else None

    def _as_data(self, tensor: str) -> Extent:
        return Extent.CONSTANT if self.is_global(tensor) else self.extent(tensor)

    def _is_size(self, node: Any) -> bool:
        """Whether a node depends on how many examples there are, but not on what they are."""
        if node.op in ("Shape", "ShapeN", "Size"):
            return Extent.SUBSET not in map(self.extent, data_inputs(node))
        varying = [node_of(t) for t in data_inputs(node) if node_of(t) in self.extents]
        return self._sizes.issuperset(varying)

    def _can_be_evaluated(self, node: Any) -> bool:
        if any(extent in _ROWLIKE for extent in self.extents[node.name]):
            return False
        return all(self.is_evaluable(tensor) for tensor in data_inputs(node))


def _carries_gradients(node: Any) -> bool:
    """Whether an output is a float, or a handle on the way to one."""
    return any(kind in _gradient_types() for kind in output_types(node))


@functools.cache
def _gradient_types() -> frozenset[int]:
    import tensorflow as tf

    kinds = ("bfloat16", "half", "float32", "float64", "complex64", "complex128", "resource", "variant")
    return frozenset(tf.as_dtype(kind).as_datatype_enum for kind in kinds)
