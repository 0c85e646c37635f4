"""The meaning of TensorFlow's error where a loss needs examples that are in another replica's part of the batch."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from autodist.errors import CaptureError
from autodist.graph import BatchScaling, CapturedStep, StepAnalysis, data_inputs
from autodist.graph.operators import meaning
from autodist.kernels import PICKED, DistributedGraph

_REASON = re.compile(r"(?:INVALID_ARGUMENT: |^)(?!\d+ root error)(.+)")


@contextlib.contextmanager
def part_failures(captured: CapturedStep, graph: DistributedGraph, prefix: str) -> Iterator[None]:
    """Say it plainly when a replica picks examples that its part of the batch does not have, on the way to a loss.

    Args:
        captured: The step.
        graph: As rewritten.
        prefix: What its names begin with in the session.

    Raises:
        CaptureError: It does.
    """
    import tensorflow as tf

    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        found = re.search(rf"node {re.escape(prefix)}/replica_\d+/([^}}]+)", error.message)
        if found is None or not graph.loss_meets:
            raise
        # An op of the backward pass has the name of the one that it belongs to within its own.
        behind = found[1].removeprefix("gradient_tape/").rpartition("/")[0]
        name = behind if behind in captured.graph.analysis.nodes else found[1]
        if not _picks_examples(captured.graph.analysis, name):
            raise
        raise CaptureError(
            f"op `{name}` at {captured.line_of(name)} fails on a replica's part of the batch: "
            f"{_REASON.findall(error.message)[0]}",
            hint=PICKED,
        ) from error


def _picks_examples(analysis: StepAnalysis, name: str) -> bool:
    """Whether an op picks examples of the batch, or of what they have become in common, by their places."""
    node, dependence = analysis.nodes.get(name), analysis.dependence
    if node is None or node.op == "OneHot" or not (meaning(node.op).picks or meaning(node.op).updates_places):
        return False
    source = data_inputs(node)[meaning(node.op).source]
    have_met = dependence.scaling(source) is not BatchScaling.CONSTANT and dependence.dim_of_batch(source) is None
    return have_met or name in dependence.causes
