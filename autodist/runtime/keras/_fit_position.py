"""The position of Keras' ``fit`` in its data, and how to bring another ``fit`` to the same place."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from autodist.errors import UsageError
from autodist.runtime.data import without_note

if TYPE_CHECKING:
    from autodist.runtime._engine import Engine
    from autodist.runtime._reference import ReferenceEngine


class FitPosition:
    """The place of a running ``fit`` in its data.

    Keras makes an iterator per epoch, or more, or one for all epochs, by what it knows of the number of batches. Each
    iterator over a shuffled dataset has another order, so the place is the number of iterators made so far and the
    number of batches taken from the last one, with Keras' own counts.

    Args:
        epochs: Keras' ``EpochIterator`` of the training data.
    """

    def __init__(self, epochs: Any) -> None:
        self._epochs = epochs
        self._data = epochs._get_iterator()
        self._made = 0
        self._taken = 0
        self._waiting: _Counted | None = None
        self._done = 0
        self._enumerate = epochs._enumerate_iterator
        self.last_batch: Any = None
        epochs._get_iterator = lambda: self
        epochs._enumerate_iterator = self._remaining

    def __iter__(self) -> Iterator[Any]:
        """A new iterator for Keras."""
        if self._waiting is not None:
            found, self._waiting = self._waiting, None
            return found
        return self._begin()

    def to_json(self) -> dict[str, Any]:
        """The place, for a checkpoint."""
        return {
            "iterators": self._made,
            "taken": self._taken,
            "steps_seen": self._epochs._steps_seen,
            "num_batches": self._epochs._num_batches,
        }

    def go_to(self, place: dict[str, Any], batches: int) -> None:
        """Take up a place.

        Args:
            place: From :meth:`to_json` of another process.
            batches: How many batches of the current epoch have been had.

        Raises:
            UsageError: There are not as many batches.
        """
        current: _Counted | None = None
        for _ in range(place["iterators"]):
            current = self._begin()
        for _ in range(place["taken"]):
            try:
                self.last_batch = next(current)  # type: ignore[arg-type]
            except StopIteration:
                raise UsageError(
                    f"the data ends after {self._taken} batches, but training was at batch {place['taken']}",
                    hint="the data must be the same in all attempts; or remove the checkpoint",
                ) from None
        self._epochs._num_batches = place["num_batches"]
        self._epochs._steps_seen = place["steps_seen"] - batches
        self._done = batches
        if self._epochs.steps_per_epoch:
            self._epochs._current_iterator = current  # which Keras goes on with
        elif batches:
            self._waiting = current  # which Keras is about to ask for

    def build(self, model: Any) -> None:
        """Have a model make all its variables, metrics and the optimizer's included, for batches like the last one."""
        model._symbolic_build(data_batch=without_note(without_optionals(self.last_batch))[0])

    def prepare(self, model: Any) -> None:
        """Have a model's training step ready for batches like the last one.

        Where no batch of the epoch is left, the next thing is its validation, which the replicas share as they do after
        a step.
        """
        prepare = getattr(model.train_function, "prepare", None)
        if prepare is not None:  # else it is Keras' own, on one device
            prepare(self.last_batch)

    def _begin(self) -> _Counted:
        self._made += 1
        self._taken = 0
        return _Counted(iter(self._data), self)

    def _remaining(self) -> Iterator[Any]:
        """The steps of an epoch, in the first one without those that were done."""
        done, self._done = self._done, 0
        for first, last, iterator in self._enumerate():
            if last >= done:
                yield first, last, iterator

    def note_taken(self) -> None:
        """One more batch was taken."""
        self._taken += 1


class FitFollower(abc.ABC):
    """A callback that needs to know the position of ``fit`` in its data; it comes last, after all others."""

    @abc.abstractmethod
    def follow(self, engine: Engine | ReferenceEngine, position: FitPosition, others: Sequence[Any]) -> None:
        """Take note of a ``fit`` that is about to begin."""


def without_optionals(batch: Any) -> Any:
    """Keras marks absent parts of a batch (no sample weights, say) by empty optionals."""
    import tensorflow as tf

    return tf.nest.map_structure(lambda leaf: None if isinstance(leaf, tf.experimental.Optional) else leaf, batch)


class _Counted:
    """An iterator that counts what is taken from it."""

    def __init__(self, iterator: Iterator[Any], position: FitPosition) -> None:
        self._iterator = iterator
        self._position = position

    def __iter__(self) -> _Counted:
        return self

    def __next__(self) -> Any:
        batch = next(self._iterator)
        self._position.note_taken()
        return batch
