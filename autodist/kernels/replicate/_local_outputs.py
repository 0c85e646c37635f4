"""The outputs of a step for batches that each worker brought itself."""

from __future__ import annotations

from collections.abc import Sequence

from autodist.graph import Output


def with_whole_composites(outputs: Sequence[Output], whole: Sequence[str], local: Sequence[str]) -> tuple[str, ...]:
    """This worker's outputs: its own rows, except for sparse and ragged results that have a component without rows.

    And except for those that are wanted whole.

    Such a component mostly says where values are in the whole batch; the values of one worker's rows would not fit it.

    Args:
        outputs: The outputs of the step.
        whole: By output, its tensor for the whole batch.
        local: By output, its tensor with this worker's rows; the same tensor if the output has no rows.
    """
    triples = list(zip(outputs, whole, local, strict=True))
    split = {output.composite for output, everything, own in triples if everything == own} - {None}
    return tuple(
        everything if output.is_whole or output.composite in split else own for output, everything, own in triples
    )
