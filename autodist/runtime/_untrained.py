"""Steps that train nothing, such as a ``test_step`` that updates metrics, on batches that reach workers in parts.

A step that is given the whole batch needs none of this: it runs on every worker, and changes variables alike.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autodist.coordination import Worker, receive_bytes, send_bytes
from autodist.runtime.data import Arguments

_LOG = logging.getLogger("autodist")


class WholeBatches:
    """Runs functions on the whole of batches that reach the workers in parts.

    Args:
        worker: This process.
        scope: What tells this scope from the others of the run.
    """

    def __init__(self, worker: Worker, scope: str) -> None:
        self._worker = worker
        self._key = f"whole/{scope}"
        self._numbers = itertools.count()
        self._functions: dict[Any, _OfWhole] = {}

    def run(self, function: Callable[..., Any], arguments: Arguments) -> Any:
        """Call a function on the whole batch, on every worker; return this worker's rows of results per example.

        Args:
            function: Function of the batch, in Python.
            arguments: Arguments of its call: those that are parts of a batch, and others.

        Raises:
            TimedOut: Another worker does not run it.
        """
        key = (function, arguments.key)
        if key not in self._functions:
            self._functions[key] = _OfWhole(function, arguments, self._worker.is_chief)
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
        key = f"{self._key}/{next(self._numbers) % 2}"  # one is written again after all have read the other
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
                coordinator.put(part, b"")  # else it stays in the launcher's memory until the run ends
        kinds = [tensor.dtype for tensor in mine]
        return [[tf.io.parse_tensor(t, kind).numpy() for t, kind in zip(row, kinds, strict=True)] for row in texts]


class _OfWhole:
    """A function of batches of any size, as TensorFlow runs it."""

    def __init__(self, function: Callable[..., Any], arguments: Arguments, is_chief: bool) -> None:
        import tensorflow as tf

        self._name = getattr(function, "__name__", str(function))
        self._bound = arguments.bind(function)
        self._specs = list(zip(arguments.specs(), arguments.parts, strict=True))
        self._tells = is_chief
        # It is run as on one device, where its Python code knows how many rows there are.
        self._run = tf.function(self._bound)
        self._by_row = self._by_row_of(None)

    def __call__(self, arrays: Sequence[Any], own: slice, rows: int) -> Any:
        """Call it on a batch of this many rows; return the rows `own` of results per example."""
        import tensorflow as tf

        found = self._run(*map(tf.convert_to_tensor, arrays))
        leaves = tf.nest.flatten(found)
        if self._by_row is None:
            self._by_row = self._of_other_sizes(leaves, rows)
        parts = [leaf[own] if is_by_row else leaf for leaf, is_by_row in zip(leaves, self._by_row, strict=True)]
        return tf.nest.pack_sequence_as(found, parts)

    def _of_other_sizes(self, leaves: Sequence[Any], rows: int) -> list[bool]:
        """Per result of a function that must know the number of examples, whether it has a row for each."""
        by_row = [_rows(leaf) == (rows,) for leaf in leaves]
        if not any(by_row):
            return by_row
        for other in (rows + 1, 2 * rows):
            found = self._by_row_of(other)
            if found is not None and len(found) == len(by_row):
                return [is_now and is_then for is_now, is_then in zip(by_row, found, strict=True)]
        if self._tells:
            _LOG.warning(
                "`%s` can't be traced for another number of rows than %d: what it returns with %d rows is taken for a "
                "result per example, of which each worker gets those of its own examples",
                self._name, rows, rows,
            )  # fmt: skip
        return by_row

    def _by_row_of(self, rows: int | None) -> list[bool] | None:
        """Per result, whether it has as many rows as the batch; None if it can't be traced for this many.

        Args:
            rows: Rows of the batch that it is traced for; None for any number.
        """
        import tensorflow as tf

        specs = [
            tf.TensorSpec([rows, *spec.shape[1:]], spec.dtype) if is_part else spec for spec, is_part in self._specs
        ]
        try:
            traced = tf.function(self._bound).get_concrete_function(*specs)
        except Exception:  # whatever its Python code does with a number that it does not expect
            return None
        return [_rows(leaf) == (rows,) for leaf in tf.nest.flatten(traced.structured_outputs)]


def _rows(leaf: Any) -> tuple[int | None, ...]:
    """The number of rows of a result, None where it was not known when it was traced; nothing if it has no rows."""
    import tensorflow as tf

    return tuple(leaf.shape[:1]) if isinstance(leaf, tf.Tensor) and leaf.shape.rank else ()
