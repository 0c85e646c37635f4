"""The sizes of the lists of tensors over which loops go, such as steps of time: TensorFlow's shapes don't say them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from autodist.graph._graph_def import data_inputs, split_tensor, tensor_name, tensor_shape
from autodist.graph.batch import EntriesOf
from autodist.graph.operators import LOOPS, Kind, ListUse, is_kind, meaning

Shape: TypeAlias = tuple[int | None, ...] | None
Body: TypeAlias = tuple[Mapping[str, Any], list[str], Mapping[str, Shape]]
"""The nodes of a loop's body by name, the tensors that it returns, and of its lists the shapes of their tensors."""


@dataclass(frozen=True)
class Listed:
    """A list with which a function is called.

    Attributes:
        element: The shape that all of its tensors have.
    """

    element: Shape


def shapes_from_lists(
    nodes: Mapping[str, Any],
    behind: Collection[str],
    elements: Mapping[str, Shape],
    body_of: Callable[[Any], Body],
) -> dict[str, Shape]:
    """By tensor that comes from a list, its shape, as far as the list tells it.

    Args:
        nodes: A graph, or the body of a function.
        behind: Its nodes that are computed from tensors whose shapes are not known yet.
        elements: By argument of the function that is a list, the shape of its tensors.
        body_of: Gives the body of a loop, with the shapes for what the loop is given.
    """
    lists = Lists(nodes, elements, body_of)
    found: dict[str, Shape] = {}
    for name, node in nodes.items():
        use = meaning(node.op).list_use
        if use not in (ListUse.STACKS, ListUse.GETS, ListUse.POPS) or name in behind:
            continue
        handle = data_inputs(node)[0]
        element = lists.element(handle)
        if element is not None:
            tensor = tensor_name(name, 1 if use is ListUse.POPS else 0)
            found[tensor] = (lists.length(handle), *element) if use is ListUse.STACKS else element
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


class Lists(EntriesOf):
    """The sizes of lists that are made with all of their places, and numbers that are computed from such sizes."""

    def __init__(self, nodes: Mapping[str, Any], elements: Mapping[str, Shape], body_of: Callable[[Any], Body]) -> None:
        super().__init__(nodes, lambda tensor: tensor_shape(nodes, tensor))
        self._elements = elements
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
                return _common(tensor_shape(self._nodes, given[2]), self.element(given[0]))
            case ListUse.APPENDS:
                return _common(tensor_shape(self._nodes, given[1]), self.element(given[0]))
            case ListUse.POPS:
                return self.element(given[0])
            case ListUse.UNSTACKS:
                shape = tensor_shape(self._nodes, given[0])
                return shape[1:] if shape else None
            case None if node.op in LOOPS:
                body, results, elements = self._body_of(node)
                return _common(Lists(body, elements, self._body_of).element(results[index]), self.element(given[index]))
            case None if is_kind(node.op, Kind.ELEMENTWISE):
                return next((shape for t in given if (shape := self.element(t)) is not None), None)
        return self._elements.get(name)

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


def _common(one: Shape, other: Shape) -> Shape:
    """The part that two shapes have in common; None is one of which nothing is known."""
    if one is None or other is None or len(one) != len(other):
        return other if one is None else one
    return tuple(mine if mine == its else None for mine, its in zip(one, other, strict=True))
