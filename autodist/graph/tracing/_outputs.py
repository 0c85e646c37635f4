"""The tensors that a step returns, in flattened order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from autodist.graph._inline import resolved
from autodist.graph._variables import Output


def outputs_of(tracing: Any, aliases: dict[str, str], *, whole: int = 0) -> tuple[Output, ...]:
    """The tensors that a step returns, in flattened order; a sparse or ragged result has several.

    Args:
        tracing: The graph of the traced function.
        aliases: By tensor of that graph, its name after calls were inlined.
        whole: How many of the last ones are wanted whole, also where workers have parts of the batch.
    """
    import tensorflow as tf

    composites: list[int | None] = []
    for k, leaf in enumerate(tf.nest.flatten(tracing.structured_outputs)):
        parts = [part for part in tf.nest.flatten(leaf, expand_composites=True) if tf.is_tensor(part)]
        composites.extend([k if leaf is not parts[0] else None] * len(parts) if parts else [])
    first_whole = len(composites) - whole
    return tuple(
        replace(_output(tensor, composite, aliases), is_whole=k >= first_whole)
        for k, (tensor, composite) in enumerate(zip(tracing.outputs, composites, strict=True))
    )


def _output(tensor: Any, composite: int | None, aliases: dict[str, str]) -> Output:
    shape = None if tensor.shape.rank is None else tuple(tensor.shape.as_list())
    return Output(resolved(tensor.name, aliases), shape, tensor.dtype.name, composite)
