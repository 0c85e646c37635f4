"""The sizes of the lists of tensors over which loops go, such as steps of time: TensorFlow's shapes don't say them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeAlias

from autodist.graph._graph_def import data_inputs, split_tensor, tensor_shape
from autodist.graph.batch import EntriesOf
from autodist.graph.operators import LOOPS, Kind, ListUse, is_kind, meaning

Shape: TypeAlias = tuple[int | None, ...] | None
Body: TypeAlias = tuple[Mapping[str, Any], list[str]]
"""The nodes of a loop's body by name, and the tensors that it returns."""


def stacked_shapes(
    nodes: Mapping[str, Any], behind: Collection[str], body_of: Callable[[Any], Body]
) -> dict[str, Shape]:
    """By node that stacks a list, the shape of what it gives, as far as the list tells it.

    Args:
        nodes: A graph, or the body of a function.
        behind: Its nodes that are computed from tensors whose shapes are not known yet.
        body_of: Gives the body of a loop, with the shapes for what the loop is given.
    """
    lists = _Lists(nodes, body_of)
    found: dict[str, Shape] = {}
    for name, node in nodes.items():
        if meaning(node.op).list_use is ListUse.STACKS and name not in behind:
            handle = data_inputs(node)[0]
            length, element = lists.length(handle), lists.element(handle)
            if element is not None:
                found[name] = (length, *element)
    return found


def may_grow(graph_def: Any) -> bool:
    """Whether some node puts tensors behind the last place of a list, so that its length is not that of its start."""
    return any(
        meaning(node.op).list_use is ListUse.SETS and node.attr["resize_if_index_out_of_bounds"].b
        for node in _all_nodes(graph_def)
    )


def _all_nodes(graph_def: Any) -> Iterator[Any]:
    yield from graph_def.node
    for function in graph_def.library.function:
        yield from function.node_def


class _Lists(EntriesOf):
    """The sizes of lists that are made with all of their places, and numbers that are computed from such sizes."""

    def __init__(self, nodes: Mapping[str, Any], body_of: Callable[[Any], Body]) -> None:
        super().__init__(nodes, lambda tensor: tensor_shape(nodes, tensor))
        self._body_of = body_of

    def length(self, tensor: str) -> int | None:
        """How many tensors a list has; None where that is not known."""
        while True:
            name, index = split_tensor(tensor)
            node = self._nodes[name]
            given = data_inputs(node)
            match meaning(node.op).list_use:
                case ListUse.SETS:
                    tensor = given[0]
                case ListUse.UNSTACKS:
                    shape = tensor_shape(self._nodes, given[0])
                    return shape[0] if shape else None
                case ListUse.MAKES if node.op == "TensorListReserve":
                    return self._number(given[1])
                case None if node.op in LOOPS:
                    tensor = given[index]
                case None if is_kind(node.op, Kind.ELEMENTWISE):  # passed on, all zeros, or a sum
                    tensor = given[0]
                case _:
                    return None

    def element(self, tensor: str) -> Shape:
        """The shape of the tensors of a list; None where that is not known."""
        name, index = split_tensor(tensor)
        if name not in self._nodes:
            return None
        node = self._nodes[name]
        given = data_inputs(node)
        match meaning(node.op).list_use:
            case ListUse.SETS:
                return tensor_shape(self._nodes, given[2])
            case ListUse.UNSTACKS:
                shape = tensor_shape(self._nodes, given[0])
                return shape[1:] if shape else None
            case None if node.op in LOOPS:
                body = self._body_of(node)
                return _Lists(body[0], self._body_of).element(body[1][index])
            case None if is_kind(node.op, Kind.ELEMENTWISE):
                return next((shape for t in given if (shape := self.element(t)) is not None), None)
        return None

    def _number(self, tensor: str) -> int | None:
        entries = self.of(tensor)
        number = entries[0] if entries else None
        return number if isinstance(number, int) and number >= 0 else None

    def _compute(self, tensor: str) -> Any:
        node = self._nodes[split_tensor(tensor)[0]]
        if node.op == "TensorListLength":
            length = self.length(data_inputs(node)[0])
            return None if length is None else (length,)
        return super()._compute(tensor)
