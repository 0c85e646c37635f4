"""The static shapes of a graph's tensors, as TensorFlow infers them when it takes nodes in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autodist.graph._graph_def import split_tensor
from autodist.graph._scratch_graph import scratch_graph


def inferred_shapes(
    graph_def: Any, known: Sequence[Any] = (), replaced: Mapping[str, str] | None = None
) -> dict[str, list[tuple[int | None, ...] | None]]:
    """Return the shapes of all results of all nodes: None for an unknown rank, and for a length that is not known.

    No objects of Python are made for the operations: these take two thirds of the time of TensorFlow's own import.

    Args:
        graph_def: The graph, with the functions that it calls.
        known: Nodes without inputs, such as constants, which are added to it.
        replaced: By tensor of the graph, the one of the `known` nodes whose only result all readers take instead.

    Raises:
        ValueError: TensorFlow refuses the graph: shapes do not fit each other, for one.

    Example:
        >>> import tensorflow as tf
        >>> with tf.Graph().as_default() as graph:
        ...     summed = tf.reduce_sum(tf.compat.v1.placeholder(tf.float32, (None, 3), "x"), 1, name="summed")
        >>> shapes = inferred_shapes(graph.as_graph_def())
        >>> shapes["x"], shapes["summed"]
        ([(None, 3)], [(None,)])
    """
    from tensorflow.core.framework import graph_pb2
    from tensorflow.python.client import _pywrap_tf_session, pywrap_tf_session
    from tensorflow.python.framework import c_api_util
    from tensorflow.python.framework.ops import SymbolicTensor

    found = {}
    with scratch_graph() as graph:
        _take_in(graph, graph_pb2.GraphDef(node=known, versions=graph_def.versions), {})
        places = {pywrap_tf_session.TF_OperationName(made): made for made in graph.new_operations()}
        tensors = {tensor: c_api_util.tf_output(places[name], 0) for tensor, name in (replaced or {}).items()}
        _take_in(graph, graph_def, tensors)
        for made in graph.new_operations():
            operation = _pywrap_tf_session.PyOperation(made, SymbolicTensor)
            operation.graph = graph
            operation._init_outputs()
            name = pywrap_tf_session.TF_OperationName(made)
            if name not in places:
                found[name] = [_shape(*output._shape) for output in operation.outputs]
    return found


def _shape(lengths: Sequence[int | None], is_unknown: bool) -> tuple[int | None, ...] | None:
    return None if is_unknown else tuple(lengths)


def _take_in(graph: Any, graph_def: Any, replaced: Mapping[str, Any]) -> None:
    """Have TensorFlow's library add nodes to a graph of which Python knows nothing."""
    import tensorflow as tf
    from tensorflow.python.client import pywrap_tf_session
    from tensorflow.python.framework import c_api_util

    _forget_empty_attributes(graph_def)
    scope = c_api_util.ScopedTFImportGraphDefOptions()
    pywrap_tf_session.TF_ImportGraphDefOptionsSetValidateColocationConstraints(scope.options, False)
    for tensor, taken in replaced.items():
        pywrap_tf_session.TF_ImportGraphDefOptionsAddInputMapping(scope.options, *split_tensor(tensor), taken)
    buffer = pywrap_tf_session.TF_NewBufferFromString(graph_def.SerializeToString())
    try:
        with graph._c_graph.get() as native:
            results = pywrap_tf_session.TF_GraphImportGraphDefWithResults(native, buffer, scope.options)
            c_api_util.ScopedTFImportGraphDefResults(results)  # frees them
    except tf.errors.InvalidArgumentError as error:
        raise ValueError(error.message) from error
    finally:
        pywrap_tf_session.TF_DeleteBuffer(buffer)


def _forget_empty_attributes(graph_def: Any) -> None:
    """Drop attributes without a value, which TensorFlow refuses: reading one that a node lacks gives it such a one."""
    for node in graph_def.node:
        for name in [name for name, value in node.attr.items() if value.WhichOneof("value") is None]:
            del node.attr[name]
