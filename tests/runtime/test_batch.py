"""Who gets which rows: every one of them once, whatever the numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodist.errors import UsageError
from autodist.runtime.data import LocalArray, batch_size, part_of, split_global, split_local

CLUSTERS = st.lists(st.integers(1, 4), min_size=1, max_size=5)


@given(size=st.integers(0, 200), replicas=CLUSTERS)
def test_every_row_goes_to_one_replica(size, replicas):
    ranges, first = [], 0
    for count in replicas:
        ranges += split_global(size, sum(replicas), first, count).ranges
        first += count
    assert [row for start, stop in ranges for row in range(start, stop)] == list(range(size))
    lengths = [stop - start for start, stop in ranges]
    assert max(lengths) - min(lengths) <= 1
    assert lengths == sorted(lengths, reverse=True)


@given(size=st.integers(0, 200), replicas=CLUSTERS)
def test_parts_of_workers_are_those_of_their_replicas(size, replicas):
    """What `ad.shard` cuts out, split again over the worker's replicas, is what a global batch gives them."""
    first = 0
    for count in replicas:
        start, stop = part_of(size, sum(replicas), first, first + count)
        local = split_local(stop - start, count).ranges
        assert tuple((start + a, start + b) for a, b in local) == split_global(size, sum(replicas), first, count).ranges
        first += count


def test_batch_size_of_arrays():
    assert batch_size([np.ones((3, 2)), np.ones(3)], ["x", "y"]) == 3
    with pytest.raises(UsageError, match="x: 3, y: 2"):
        batch_size([np.ones(3), np.ones(2)], ["x", "y"])
    with pytest.raises(UsageError, match="without any array"):
        batch_size([], [])


def test_local_arrays_keep_their_type_and_know_numpy():
    local = np.ones((2, 3)).view(LocalArray)
    assert isinstance(local / 2, LocalArray)
    assert isinstance(local[:1], LocalArray)
    assert type(local.numpy()) is np.ndarray
