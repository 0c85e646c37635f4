"""The watch over a step: if it fails in this process, what it waits for from other workers ends soon afterwards.

TensorFlow ends a run that has failed when all its nodes have ended, and cancels those that wait. It can't cancel what
AutoDist's library waits for: its C interface has no way. That matters where a step fails on two workers at once, and
each waits for what the other one would have sent.

So a node of the library returns a number in memory of its own, and a dequeue, which TensorFlow can cancel, takes that
number as how many elements it waits for. Where the step comes to its end, the last element is put there. Where the step
fails, the dequeue is cancelled, TensorFlow frees the number, and so the library learns of the failure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from autodist.graph import GraphEditor, has_loops_back
from autodist.kernels import DistributedGraph
from autodist.transport import OP_PREFIX

_NAME = "autodist/watch"


@dataclass(frozen=True)
class StepWatch:
    """The watch over one step.

    Attributes:
        name: The step's name in the session, by which the library knows the watch.
    """

    name: str
    _ends: dict[tuple[str, ...], list[str]] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def over(cls, name: str, graph: DistributedGraph) -> tuple[Any, StepWatch | None]:
        """A step's graph, in which all that the library does waits until somebody watches, and the watch.

        Where the library does nothing, that is the graph itself, and no watch.

        Args:
            name: The step's name in the session.
            graph: The step as rewritten.
        """
        functions = graph.graph_def.library.function
        inside = any(map(_is_ours, (node for function in functions for node in function.node_def)))
        names = [node.name for node in graph.graph_def.node if _is_ours(node)]
        if not names and not inside:
            return graph.graph_def, None
        editor = graph.edit(graph.layout.main_device)
        watched = _add_watch(editor, name)
        for function in editor.library.function:
            _mark(function.node_def, name)
        _mark((editor[node] for node in names), name)
        if not has_loops_back(graph.graph_def):  # nothing within such a loop can wait for what is outside
            apart = graph.index.ancestors(node for serving in graph.serving for node in serving.targets)
            for node in names:
                if node not in apart:
                    editor.wait_for(node, [watched])
        return editor.finish(), cls(name)

    def ends(self, graph: Any, fetches: Sequence[str], targets: Sequence[str]) -> list[str]:
        """The nodes that have to run as well, so that a run ends its watch when it has done all that it is for.

        Args:
            graph: The session's graph, to which they are added once.
            fetches: The tensors that the run fetches.
            targets: The nodes that it runs.
        """
        key = (*fetches, *targets)
        if key not in self._ends:
            last = [graph.get_tensor_by_name(name).op for name in fetches]
            last += [graph.get_operation_by_name(name) for name in targets]
            self._ends[key] = self._add_end(graph, list(dict.fromkeys(last)))
        return self._ends[key]

    def _add_end(self, graph: Any, last: list[Any]) -> list[str]:
        import tensorflow as tf

        def found(node: str) -> Any:
            return graph.get_operation_by_name(f"{self.name}/{_NAME}/{node}")

        queue, element = found("queue").outputs[0], found("element").outputs
        with graph.as_default(), tf.device(found("queue").device), tf.name_scope(f"{self.name}/{_NAME}/end/"):
            with tf.control_dependencies([*last, found("begun")]):
                attributes = dict(found("held").node_def.attr)  # by which the library knows the watch
                over = graph.create_op("AutodistEndWatch", [], [], attrs=attributes, name="over")
            with tf.control_dependencies([over]):
                put = tf.raw_ops.QueueEnqueueV2(handle=queue, components=element)
        return [put.name, found("until_end").name]


def _add_watch(editor: GraphEditor, name: str) -> str:
    """Add the nodes that watch; return the one that runs as soon as they do.

    The queue has room for one element. So the second one gets in only when the dequeue has taken the first: then the
    dequeue holds the number, and whatever fails from there on is noticed. The third one is that of the step's end.
    """
    queue = editor.add("FIFOQueueV2", f"{_NAME}/queue", component_types=["bool"], shapes=[[]], capacity=1)
    element = editor.constant(f"{_NAME}/element", True, "bool")
    held = editor.add("AutodistBeginWatch", f"{_NAME}/held", collective=name)
    editor.add("QueueDequeueManyV2", f"{_NAME}/until_end", [queue, held], component_types=["bool"])
    first = editor.add("QueueEnqueueV2", f"{_NAME}/first", [queue, element], Tcomponents=["bool"])
    return editor.add("QueueEnqueueV2", f"{_NAME}/begun", [queue, element, f"^{first}"], Tcomponents=["bool"])


def _is_ours(node: Any) -> bool:
    """Whether a node is an operation of the library."""
    return node.op.startswith(OP_PREFIX)  # type: ignore[no-any-return]


def _mark(nodes: Iterable[Any], name: str) -> None:
    """Note at the library's operations to which watch they belong."""
    for node in nodes:
        if _is_ours(node):
            node.attr["watch"].s = name.encode()
