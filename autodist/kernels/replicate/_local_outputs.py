"""The outputs of a step for batches that each worker brought itself."""

from __future__ import annotations

from collections.abc import Sequence

from autodist.graph import Output


def with_whole_composites(outputs: Sequence[Output], whole: Sequence[str], local: Sequence[str]) -> tuple[str, ...]:
    """The rows of a worker, where a result has such; of a sparse or ragged one, if all of its components have.

    Those that say where its values are mostly belong to the whole batch: the values of some rows would not fit them.

    Args:
        outputs: What the step returns.
        whole: For each, that of the whole batch.
        local: For each, the rows of this worker; the same if it has no rows.
    """
    triples = list(zip(outputs, whole, local, strict=True))
    split = {output.composite for output, everything, own in triples if everything == own} - {None}
    return tuple(everything if output.composite in split else own for output, everything, own in triples)
