"""The statistics that batch normalization takes: those of the whole batch, or of each replica's part.

While a step is traced, the operators that compute them carry an attribute. Taken of the whole batch they are means over
examples like any other, which replicas share (`graph/layouts`); by replica each has its own, as is documented.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from autodist.graph._attribute_patches import Patches
from autodist.graph.batch import BY_REPLICA, SYNCHRONIZED
from autodist.graph.operators import meaning
from autodist.graph.tracing._apart import with_attribute


@contextlib.contextmanager
def synchronize_batch_norm(*, everywhere: bool) -> Iterator[None]:
    """Have Keras' ``BatchNormalization`` normalize by the batch of all replicas in what is traced inside.

    Args:
        everywhere: Whether all such layers do, else only those with ``synchronized=True``.
    """
    from keras.layers import BatchNormalization

    def chosen(original: Any) -> Any:
        by_replica, of_all = with_attribute(original, BY_REPLICA), with_attribute(_moments(original), SYNCHRONIZED)

        def _moments_of(layer: Any, inputs: Any, mask: Any) -> Any:
            return (of_all if everywhere or layer.synchronized else by_replica)(layer, inputs, mask)

        return _moments_of

    def chosen_of_keras2(original: Any) -> Any:
        return with_attribute(original, SYNCHRONIZED if everywhere else BY_REPLICA)

    with Patches() as patches:
        patches.replace(BatchNormalization, "_moments", chosen)
        keras2: Any = sys.modules.get("tf_keras")
        for name in () if keras2 is None else ("_calculate_mean_and_var", "_no_sync_calculate_mean_and_var"):
            owners = [c for c in keras2.layers.BatchNormalization.__mro__ if name in c.__dict__]
            for owner in owners[:1]:
                patches.replace(owner, name, chosen_of_keras2)
        yield


def mark_fused_batch_norms(graph_def: Any, *, everywhere: bool) -> None:
    """Mark the fused batch normalization operators with the statistics that they use.

    Args:
        graph_def: A traced step, changed in place.
        everywhere: Whether the statistics are those of the whole batch, else each replica's own.
    """
    attribute = SYNCHRONIZED if everywhere else BY_REPLICA
    for nodes in (graph_def.node, *(function.node_def for function in graph_def.library.function)):
        for node in nodes:
            if meaning(node.op).gives_statistics and node.attr["is_training"].b:
                node.attr[attribute].s = b"1"


def _moments(original: Any) -> Any:
    """Keras' moments, without its synchronization by a mean of squares, which loses digits where the mean is large."""
    import keras

    def moments(layer: Any, inputs: Any, mask: Any) -> Any:
        if mask is not None:
            return original(layer, inputs, mask)
        return keras.ops.moments(inputs, axes=layer._reduction_axes)

    return moments
