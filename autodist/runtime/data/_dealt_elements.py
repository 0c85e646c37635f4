"""Elements of a dataset that workers divide: which of them each worker gets, and whether all find the same.

Each worker reads all elements of a source and keeps its own. Where the sources differ, in an order that comes from a
set, say, examples would be lost and others read twice. So a worker hashes each block of elements that a global batch is
dealt out of before it keeps any of them. Its n-th batch needs n blocks at least, unless the source has ended. So all
workers know the hash of the first n blocks then, however many elements they drop later, and however far they are ahead.
"""

from __future__ import annotations

import itertools
from collections import deque
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from autodist.runtime.data._fingerprints import can_be_hashed, chained, hashed_block
from autodist.runtime.data._random_maps import drawn_parts

_NOBODYS, _BEGINNING = 0, -1


class PassRead:
    """Hashes of the blocks that one pass over a dataset has read so far.

    Args:
        begin: What the first one goes on from.
    """

    def __init__(self, begin: int) -> None:
        self._ahead: deque[int] = deque()
        self._read = self._taken = begin

    def add(self, block: int) -> None:
        """Note that a block has been read, whose hash this is."""
        self._read = chained(self._read, block)
        self._ahead.append(self._read)

    def take(self) -> int:
        """A hash of as many blocks as batches have been taken, or of all where the source has ended."""
        if self._ahead:
            self._taken = self._ahead.popleft()
        return self._taken


class BlocksRead:
    """The parts of its source that each pass over a dataset has read.

    Args:
        listed: A hash of the names of the files that the source reads; 0 if it reads none.
        most_passes: How many passes note what they read, None for all. Where a pass may find the elements in a cache,
            how much of the source it reads depends on how far ahead the one before was.
    """

    def __init__(self, listed: int, most_passes: int | None) -> None:
        self._listed = listed
        self._most_passes = most_passes
        self._numbers = itertools.count(1)
        self._passes: WeakValueDictionary[int, PassRead] = WeakValueDictionary()
        self._awaited = _NOBODYS

    def begin(self) -> PassRead:
        """Begin a pass; the next reading of the source belongs to it."""
        found, number = PassRead(self._listed), next(self._numbers)
        if self._most_passes is None or number <= self._most_passes:
            self._passes[number] = found
            self._awaited = number
        return found

    def note(self, number: Any, block: Any) -> Any:
        """Note a block; the pipeline calls it in a thread of its own.

        Args:
            number: Number of the pass; -1 for the first block of a reading.
            block: A hash of it.

        Returns:
            The number of the pass. It is 0 for readings that belong to none: when `repeat` begins the source again, or
            the program looks at the first batch only.
        """
        if number == _BEGINNING:
            number, self._awaited = self._awaited, _NOBODYS
        found = self._passes.get(int(number))
        if found is not None:
            found.add(int(block))
        return np.int64(number)


def of_elements(source: Any, size: int, start: int, stop: int, read: BlocksRead) -> Any:
    """The elements of a source that are the rows `start` to `stop` - 1 of each block of `size` of them."""
    import tensorflow as tf

    drawn = drawn_parts(source)

    @tf.autograph.experimental.do_not_convert
    def deal_out(number: Any, window: Any) -> Any:
        block = window if isinstance(window, tf.data.Dataset) else tf.data.Dataset.zip(window)
        known = tf.numpy_function(read.note, [number, hashed_block(block, size, drawn)], tf.int64)
        return tf.ensure_shape(known, []), block.skip(start).take(stop - start)

    if not can_be_hashed(source):
        return _unhashed(source, size, start, stop)
    blocks = source.window(size).scan(tf.constant(_BEGINNING, tf.int64), deal_out)
    return blocks.flat_map(lambda block: block)


def _unhashed(source: Any, size: int, start: int, stop: int) -> Any:
    def is_mine(number: Any, element: Any) -> Any:
        return (number % size >= start) & (number % size < stop)

    return source.enumerate().filter(is_mine).map(lambda number, element: element)
