"""What TensorFlow's error means where a loss needs examples that are in another replica's part of the batch."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from autodist.errors import CaptureError
from autodist.graph import CapturedStep
from autodist.kernels import PICKED, DistributedGraph

__all__ = ["part_failures"]

_REASON = re.compile(r"(?:INVALID_ARGUMENT: |^)(?!\d+ root error)(.+)")
_ASSERTION = "assertion failed"
"""In the error of what the program itself has checked."""


@contextlib.contextmanager
def part_failures(captured: CapturedStep, graph: DistributedGraph, prefix: str) -> Iterator[None]:
    """Say it plainly when an op of a replica fails in a step of which it was told that examples meet in its loss.

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
        is_warned = any(warning.startswith("the loss: op") for warning in graph.warnings)
        if found is None or not is_warned or _ASSERTION in error.message:
            raise
        # An op of the backward pass has the name of the one that it belongs to within its own.
        behind = found[1].removeprefix("gradient_tape/").rpartition("/")[0]
        nodes = captured.graph.analysis.nodes
        name = behind if found[1] not in nodes or behind in nodes else found[1]
        raise CaptureError(
            f"op `{name}` at {captured.line_of(name)} fails on a replica's part of the batch: "
            f"{_REASON.findall(error.message)[0]}",
            hint=PICKED,
        ) from error
