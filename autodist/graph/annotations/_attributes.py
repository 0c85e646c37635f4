"""Nodes that carry an attribute of AutoDist's: unlike their names, it survives flattening."""

from __future__ import annotations

from typing import Any


def attributed(attribute: str, value: bytes) -> Any:
    """A context in which all nodes that are added get an attribute."""
    import tensorflow as tf
    from tensorflow.core.framework import attr_value_pb2

    graph = tf.compat.v1.get_default_graph()
    return graph._attr_scope({attribute: attr_value_pb2.AttrValue(s=value)})


def identity_with(tensor: Any, attribute: str, value: bytes, name: str = "autodist_target") -> Any:
    """A tensor behind an Identity that carries an attribute."""
    import tensorflow as tf

    with attributed(attribute, value):
        return tf.identity(tensor, name=name)
