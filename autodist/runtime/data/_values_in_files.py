"""Whole values of variables outside of main memory, in files that are mapped: pages that are not read cost nothing.

A worker that trains a part of a model has the script make all of it. Each value goes into a file as soon as it is made,
and values that are all zeros, such as an optimizer's slots, into no file at all: nothing has touched their pages yet.
They can be read and changed like any other values.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import mmap
import os
import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from autodist.runtime.data._arrays import aligned_copy, aligned_empty

_LOG = logging.getLogger("autodist")
_FROM_BYTES = 1024 * 1024  # smaller values are no burden
_MOST_KEPT_BYTES = 32 * 1024 * 1024  # as the C library has it
_STRETCH_BYTES = 256 * 1024 * 1024
_MMAP_THRESHOLD, _TRIM_THRESHOLD, _MOST_ARENAS = -3, -1, -8  # of mallopt
_FEW_ARENAS = 2
"""Otherwise each thread keeps free memory of its own, and TensorFlow has many threads."""
_IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs")


@dataclass
class _Stretch:
    """A file that is mapped; the values in it hold the mapping, and the system has the file no longer than that."""

    mapping: Any
    descriptor: int
    used: int = 0

    @property
    def size(self) -> int:
        return len(self.mapping)


class _FiledValues:
    """The values of this process that are in files: none until a directory is given."""

    def __init__(self) -> None:
        self._directory: Path | None = None
        self._room_bytes = 0
        self._ample_bytes = float("inf")
        self._current: _Stretch | None = None
        self._mappings: dict[int, weakref.ref[Any]] = {}

    @property
    def is_open(self) -> bool:
        """Whether large values go into files."""
        return self._directory is not None

    def open(self, scratch: Path | None, room_bytes: int = 0, ample_bytes: int | None = None) -> bool:
        """Have large values go into files from now on.

        Args:
            scratch: Where files may be; else, or if that is in main memory, where temporary files are.
            room_bytes: How many bytes of values may stay in main memory before.
            ample_bytes: How many bytes of values there may be before main memory counts as scarce; None for any number.

        Returns:
            Whether there is a directory that is on a disk.
        """
        places = [scratch, Path(tempfile.gettempdir()), Path("/var/tmp")]
        on_disk = [place for place in places if place is not None and _is_on_disk(place)]
        self._directory = on_disk[0] if on_disk else None
        self._room_bytes, self._ample_bytes = room_bytes, float("inf") if ample_bytes is None else ample_bytes
        if self.is_open:
            _give_back_from(_FROM_BYTES)
            if ample_bytes is not None:
                _set_option(_MOST_ARENAS, _FEW_ARENAS)
        return self.is_open

    def empty(self, shape: Sequence[int], dtype: Any) -> np.ndarray:
        """An array to be filled, in a file if it is large."""
        kind = np.dtype(dtype)
        size = prod(shape) * kind.itemsize
        if not self._is_for_file(kind, size):
            return aligned_empty(shape, dtype)
        taken = self._taken(size)
        return aligned_empty(shape, dtype) if taken is None else _array_in(taken[0].mapping, taken[1], shape, kind)

    def moved(self, value: np.ndarray) -> np.ndarray:
        """A value equal to this one bit for bit, in a file if it is large, or itself."""
        if not self._is_for_file(value.dtype, value.nbytes) or self._mapping_of(value) is not None:
            return value
        content = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
        if not content.any():
            zeros = mmap.mmap(-1, value.nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            return _array_in(zeros, 0, value.shape, value.dtype)
        taken = self._taken(value.nbytes)
        if taken is None:
            return value
        stretch, begin = taken
        _write(stretch.descriptor, content, begin)
        return _array_in(stretch.mapping, begin, value.shape, value.dtype)

    def let_go(self, value: np.ndarray) -> None:
        """Free the pages of a value that have been looked at, or written; the file has them."""
        mapping = self._mapping_of(value)
        if mapping is not None:
            begin = value.ctypes.data - _address(mapping)
            mapping.madvise(mmap.MADV_DONTNEED, begin, value.nbytes)

    def lent(self, value: np.ndarray) -> np.ndarray:
        """A copy to feed to a session, which takes its memory over; or, where memory is short, copies it once more.

        What Python has made, TensorFlow frees only between two steps: the first one would have all variables twice.
        """
        return np.array(value) if self.is_open else aligned_copy(value)

    def tidy(self) -> None:
        """Give memory back to the system that values have been made in, which the C library keeps for others.

        In steps it keeps it, unless memory is scarce: it takes a while to get it again.
        """
        if self.is_open:
            if self._ample_bytes >= 0:
                _give_back_from(_MOST_KEPT_BYTES)
            self.sweep()

    def sweep(self) -> None:
        """Give unused memory back to the system: planning a large step takes hundreds of MB."""
        if self.is_open:
            gc.collect()
            getattr(ctypes.CDLL(None), "malloc_trim", lambda _: None)(0)

    def _is_for_file(self, kind: Any, size: int) -> bool:
        if self._directory is None or size < _FROM_BYTES or kind.hasobject:
            return False
        self._room_bytes -= size
        self._ample_bytes -= size
        return self._room_bytes < 0

    def _taken(self, size: int) -> tuple[_Stretch, int] | None:
        """A part of a file for a value, and where it begins; None if the disk is full: then values stay in memory."""
        wanted = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        try:
            if self._current is None or self._current.used + wanted > self._current.size:
                self._current = self._made(max(wanted, _STRETCH_BYTES))
            begin = self._current.used
            # Whoever writes to a mapped page for which the disk has no block is ended by a signal, without a word.
            os.posix_fallocate(self._current.descriptor, begin, wanted)
        except OSError as error:
            _LOG.warning(
                "values of variables stay in main memory, `%s` has no room for them (%s): let TMPDIR name another one",
                self._directory,
                error.strerror,
            )
            self._directory = None
            return None
        self._current.used += wanted
        return self._current, begin

    def _made(self, size: int) -> _Stretch:
        with tempfile.TemporaryFile(dir=self._directory) as file:
            os.ftruncate(file.fileno(), size)
            descriptor = os.dup(file.fileno())
            mapping = mmap.mmap(descriptor, size)
        stretch = _Stretch(mapping, descriptor)
        weakref.finalize(stretch, os.close, descriptor)
        address = _address(mapping)
        self._mappings[address] = weakref.ref(mapping)
        weakref.finalize(mapping, self._mappings.pop, address, None)
        return stretch

    def _mapping_of(self, value: np.ndarray) -> Any:
        """The mapping of a file that an array is in; None if it is in none."""
        place = value.ctypes.data
        for address, known in self._mappings.items():
            mapping = known()
            if mapping is not None and address <= place < address + len(mapping):
                return mapping
        return None


FILED_VALUES = _FiledValues()


def _give_back_from(size: int) -> None:
    """Have the C library give memory of this size and more back to the system when it is freed.

    By default that begins with little and ends with 32 MB; below it keeps pieces that not all tensors fit in.
    """
    for threshold in (_MMAP_THRESHOLD, _TRIM_THRESHOLD):
        _set_option(threshold, size)


def _set_option(option: int, value: int) -> None:
    """Set an option of the C library's allocator, if it has one."""
    getattr(ctypes.CDLL(None), "mallopt", lambda *_: None)(option, value)


def _array_in(mapping: Any, begin: int, shape: Sequence[int], kind: Any) -> np.ndarray:
    content = np.frombuffer(mapping, np.uint8, prod(shape) * kind.itemsize, begin)
    array: np.ndarray = content.view(kind).reshape(shape)
    return array


def _address(mapping: Any) -> int:
    return int(np.frombuffer(mapping, np.uint8, 1).ctypes.data)


def _write(descriptor: int, content: np.ndarray, begin: int) -> None:
    left = content.data
    while left:
        count = os.pwrite(descriptor, left, begin)
        left, begin = left[count:], begin + count


def _is_on_disk(place: Path) -> bool:
    """Whether files in a directory are not in main memory; mounts are as Linux tells them."""
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
        real = place.resolve(strict=True)
    except OSError:
        return False
    kinds = {point: kind for _, point, kind, *_ in mounts}
    kind = next((kinds[str(point)] for point in (real, *real.parents) if str(point) in kinds), "")
    return kind not in _IN_MEMORY and os.access(real, os.W_OK)
