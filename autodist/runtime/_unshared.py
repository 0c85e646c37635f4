"""Steps that train nothing, and that replicas can't share: each worker runs them on whole batches."""

from __future__ import annotations

from autodist.errors import CaptureError
from autodist.graph import CapturedStep
from autodist.kernels import why_not_exact
from autodist.runtime._step_plan import written_by
from autodist.runtime.state import Placements


class NotSharedError(CaptureError):
    """The workers can't share a step that trains nothing: each of them runs it on the whole batch."""


def refuse_unshared(captured: CapturedStep, placements: Placements) -> None:
    """Check that replicas which share a step give the results of one device.

    Args:
        captured: The step.
        placements: Where variables live.

    Raises:
        NotSharedError: They don't; says why.
    """
    import tensorflow as tf

    leaves = tf.nest.flatten(captured.structure)
    reason = None
    if captured.graph.trainable:
        reason = "it takes a gradient"
    elif captured.asking:
        reason = f"it asks in Python how many rows there are, at {captured.asking[0]}"
    elif any(isinstance(leaf, tf.__internal__.CompositeTensor) for leaf in leaves):
        reason = "it returns ragged or sparse tensors"
    elif any(placements.is_served(name) for name in written_by(captured.graph)):
        reason = "it changes variables at parameter servers, or of which workers have parts"
    reason = reason or why_not_exact(captured.graph)
    if reason is not None:
        raise NotSharedError(reason)
