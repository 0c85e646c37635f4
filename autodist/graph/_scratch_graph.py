"""Temporary graphs of TensorFlow, whose memory is free as soon as they are no longer used."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def scratch_graph() -> Iterator[Any]:
    """A graph that is the default one inside this context; its memory is free at the end.

    The operations of a graph refer to it and it to them. Where many objects are made, Python looks for such circles
    seldom, and some graphs of ten thousand nodes would take hundreds of megabytes until then.

    Example:
        >>> import tensorflow as tf
        >>> with scratch_graph() as graph:
        ...     one = tf.constant(1.0, name="one")
        ...     [operation.name for operation in graph.get_operations()]
        ['one']
    """
    import tensorflow as tf
    from tensorflow.python.framework.ops import dismantle_graph

    graph = tf.Graph()
    try:
        with graph.as_default():
            yield graph
    finally:
        dismantle_graph(graph)
