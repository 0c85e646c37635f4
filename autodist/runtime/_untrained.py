"""Steps that train nothing, such as a ``test_step`` that updates metrics, on batches of which workers have parts.

What has the whole batch needs nothing of this: it runs on every worker as it is, and changes variables alike.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autodist.runtime._arguments import Arguments
from autodist.runtime._transfer import receive_bytes, send_bytes
from autodist.runtime._worker import Worker

__all__ = ["WholeBatches"]


class WholeBatches:
    """Runs functions on the whole of batches that reach the workers in parts.

    Args:
        worker: Who this process is.
        scope: What tells this scope from the others of the run.

    """

    def __init__(self, worker: Worker, scope: str) -> None:
        self._worker = worker
        self._key = f"whole/{scope}"
        self._numbers = itertools.count()
        self._functions: dict[Any, _OfWhole] = {}

    def run(self, function: Callable[..., Any], arguments: Arguments) -> Any:
        """What a function gives for the whole batch, on every worker; of a result per example this worker's part.

        Args:
            function: Of the batch, in Python.
            arguments: Of its call: those that are parts of a batch, and others.

        Raises:
            TimedOut: Another worker does not run it.

        """
        key = (function, arguments.key)
        if key not in self._functions:
            self._functions[key] = _OfWhole(function, arguments)
        known, parts = self._functions[key], self._all_parts(arguments)
        sizes = [len(arrays[0]) for arrays in parts]
        whole = iter([np.concatenate(arrays) for arrays in zip(*parts, strict=True)])
        pairs = zip(arguments.arrays, arguments.parts, strict=True)
        first = sum(sizes[: self._worker.rank])
        own = slice(first, first + sizes[self._worker.rank])
        return known([next(whole) if is_part else array for array, is_part in pairs], own, sum(sizes))

    def _all_parts(self, arguments: Arguments) -> list[list[np.ndarray]]:
        """By rank, the parts of the batch's tensors."""
        import tensorflow as tf

        pairs = zip(arguments.arrays, arguments.parts, strict=True)
        mine = [tf.convert_to_tensor(array) for array, is_part in pairs if is_part]
        coordinator, timeout_s = self._worker.coordinator, self._worker.environment.start_timeout_s
        assert coordinator is not None, "one worker has whole batches"
        key = f"{self._key}/{next(self._numbers) % 2}"  # who writes to one again knows that all have read the other
        sent: list[str] = []
        with self._worker.whereabouts.at("evaluates or predicts"):
            for k, tensor in enumerate(mine):
                content = tf.io.serialize_tensor(tensor).numpy()
                sent += send_bytes(coordinator, f"{key}/{self._worker.rank}/{k}", content)
            coordinator.barrier(f"{key}/sent", timeout_s)
            texts = [
                [receive_bytes(coordinator, f"{key}/{rank}/{k}", timeout_s) for k in range(len(mine))]
                for rank in range(self._worker.world_size)
            ]
            coordinator.barrier(f"{key}/had", timeout_s)
            for part in sent:
                coordinator.put(part, b"")  # it would take the launcher's memory to the end of the run
        kinds = [tensor.dtype for tensor in mine]
        return [[tf.io.parse_tensor(t, kind).numpy() for t, kind in zip(row, kinds, strict=True)] for row in texts]


class _OfWhole:
    """A function of batches of any size, as TensorFlow runs it."""

    def __init__(self, function: Callable[..., Any], arguments: Arguments) -> None:
        import tensorflow as tf

        specs = [
            tf.TensorSpec([None, *spec.shape[1:]], spec.dtype) if is_part else spec
            for spec, is_part in zip(arguments.specs(), arguments.parts, strict=True)
        ]
        # It is run as on one device, where its Python code knows how many rows there are.
        self._run = tf.function(arguments.bind(function))
        self._by_row: list[bool] | None = None
        try:
            of_any_size = tf.function(arguments.bind(function)).get_concrete_function(*specs)
        except Exception:
            return  # it is for batches of one size only
        self._by_row = [_rows(leaf) == (None,) for leaf in tf.nest.flatten(of_any_size.structured_outputs)]

    def __call__(self, arrays: Sequence[Any], own: slice, rows: int) -> Any:
        """What it gives for a batch of so many rows; of a result per example, some of them."""
        import tensorflow as tf

        found = self._run(*map(tf.convert_to_tensor, arrays))
        leaves = tf.nest.flatten(found)
        by_row = self._by_row or [_rows(leaf) == (rows,) for leaf in leaves]
        parts = [leaf[own] if is_by_row else leaf for leaf, is_by_row in zip(leaves, by_row, strict=True)]
        return tf.nest.pack_sequence_as(found, parts)


def _rows(leaf: Any) -> tuple[int | None, ...]:
    """The number of rows of a result, None where it was not known when it was traced; nothing if it has no rows."""
    import tensorflow as tf

    return tuple(leaf.shape[:1]) if isinstance(leaf, tf.Tensor) and leaf.shape.rank else ()
