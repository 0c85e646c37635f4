"""The nodes of a graph's functions, as those of a flat graph."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from autodist.graph._graph_def import normalize


class FunctionBodies:
    """The functions that loops, branches and calls of a graph run.

    Example:
        >>> FunctionBodies(graph.graph_def).nodes("while_body_12")  # doctest: +SKIP
        {'placeholder': ..., 'lstm_cell/MatMul': ...}
    """

    def __init__(self, graph_def: Any) -> None:
        self._library = graph_def.library
        self._nodes: dict[str, dict[str, Any]] = {}
        self._results: dict[str, list[str]] = {}

    def nodes(self, function: str) -> dict[str, Any]:
        """By name, the nodes of a function, its arguments as placeholders; inputs are named as in a graph."""
        if function not in self._nodes:
            self._nodes[function] = self._flat(function)
        return self._nodes[function]

    def arguments(self, function: str) -> list[str]:
        """The names of a function's arguments."""
        return [argument.name for argument in self._definitions[function].signature.input_arg]

    def results(self, function: str) -> list[str]:
        """The tensors that a function returns."""
        self.nodes(function)
        return self._results[function]

    @cached_property
    def _definitions(self) -> dict[str, Any]:
        return {function.signature.name: function for function in self._library.function}

    @cached_property
    def _graph(self) -> Any:
        """A graph that knows all functions: TensorFlow makes a body only where it knows the functions called there."""
        import tensorflow as tf

        graph = tf.Graph()
        with graph.as_default():
            tf.graph_util.import_graph_def(tf.compat.v1.GraphDef(library=self._library), name="")
        return graph

    def _flat(self, function: str) -> dict[str, Any]:
        from tensorflow.python.framework.function_def_to_graph import function_def_to_graph_def

        definition = self._definitions[function]
        with self._graph.as_default():
            body, names = function_def_to_graph_def(definition)
        nodes = {node.name: node for node in body.node}
        for argument in definition.signature.input_arg:
            node = nodes[argument.name]
            node.attr["_output_shapes"].list.shape.add().CopyFrom(node.attr["shape"].shape)
        returned = (definition.ret[output.name] for output in definition.signature.output_arg)
        self._results[function] = [normalize(names[tensor]) for tensor in returned]
        return nodes
