"""Has TensorFlow keep the order of reads and updates that a step was written in.

Grappler's dependency optimizer drops a control edge from a read to an update where data takes the same way. Another
pass may then cut that way (it leads through an ``IdentityN``, which Keras' optimizers and custom gradients make), and
the update overtakes the read: of a step that calls one model twice, every fourth tracing gives wrong losses in
TensorFlow 2.21. Without that optimizer the edges stay.
"""

from __future__ import annotations

from typing import Any


def keep_orderings_in_session(config: Any) -> None:
    """Turn the optimizer off in a session's ``ConfigProto``."""
    from tensorflow.core.protobuf import rewriter_config_pb2

    config.graph_options.rewrite_options.dependency_optimization = rewriter_config_pb2.RewriterConfig.OFF


def keep_orderings_in_functions() -> None:
    """Turn the optimizer off for every ``tf.function`` of this process."""
    import tensorflow as tf

    tf.config.optimizer.set_experimental_options({"dependency_optimization": False})
