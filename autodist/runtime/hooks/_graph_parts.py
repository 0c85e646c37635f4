"""Parts of TensorFlow 1 graphs: what a fetch depends on, where its batch comes from, and what can't be run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autodist.errors import UsageError
from autodist.graph import full_name, node_of

_ITERATORS = frozenset({"Iterator", "IteratorV2"})
_FILE_WRITERS = frozenset({"MergeV2Checkpoints", "Save", "SaveSlices", "SaveV2", "WriteFile"})
_QUEUES = ("FIFOQueue", "PaddingFIFOQueue", "PriorityQueue", "RandomShuffleQueue", "Stage", "MapStage", "Unstage")


def needed_for(nodes: Mapping[str, Any], roots: Sequence[str], given: set[str]) -> set[str]:
    """Names of the nodes that are needed for `roots` where `given` ones are fed."""
    found: set[str] = set()
    stack = [root for root in roots if root not in given]
    while stack:
        name = stack.pop()
        if name not in found:
            found.add(name)
            stack.extend(node_of(source.lstrip("^")) for source in nodes[name].input)
    return found


def drawn_tensors(graph_def: Any, graph: Any) -> list[str]:
    """The tensors that a part of the graph draws from iterators."""
    nodes = [node.name for node in graph_def.node if node.op == "IteratorGetNext"]
    return [tensor.name for name in nodes for tensor in graph.get_operation_by_name(name).outputs]


def refuse_queues(graph_def: Any) -> None:
    """Refuse input that lives in one session.

    Raises:
        UsageError: There is some.
    """
    once = [node.name for node in graph_def.node if node.op == "OneShotIterator"]
    if once:
        raise UsageError(
            f"the graph takes its input from `{once[0]}`, a one-shot iterator",
            hint="take `tf.compat.v1.data.make_initializable_iterator(dataset)`, and run its `initializer` first",
        )
    found = [node.name for node in graph_def.node if node.op.startswith(_QUEUES)]
    if found:
        raise UsageError(
            f"the graph takes its input from {', '.join(f'`{name}`' for name in found)}, queues of one session",
            hint="feed placeholders, or take `tf.compat.v1.data.make_initializable_iterator(dataset)`",
        )


def consumed(graph_def: Any) -> set[str]:
    """The tensors that nodes take, by their full names."""
    tensors = {tensor for node in graph_def.node for tensor in node.input}
    return set(map(full_name, tensors))


def _forget(node: Any) -> None:
    """Make a node do nothing, but keep what it waits for."""
    waits = [f"^{node_of(source.lstrip('^'))}" for source in node.input]
    del node.input[:]
    node.input.extend(dict.fromkeys(waits))
    node.op = "NoOp"
    node.attr.clear()


def for_this_worker(graph_def: Any, session: str, is_chief: bool) -> None:
    """Have all functions of a session share its iterators, and leave files to the chief."""
    for node in graph_def.node:
        if node.op in _FILE_WRITERS and not is_chief:
            _forget(node)
        if node.op in _ITERATORS and not node.attr["shared_name"].s:
            node.attr["shared_name"].s = f"{session}_{node.name}".encode()
