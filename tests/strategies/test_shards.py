import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodist.strategies import ShardSlice, num_shards, shard_slices


@st.composite
def partitioned(draw):
    """A shape and a partition that fits it."""
    shape = tuple(draw(st.lists(st.integers(1, 7), max_size=3)))
    entries = []
    for dim in shape:
        cuts = sorted(draw(st.sets(st.integers(1, dim - 1)))) if dim > 1 else []
        sizes = tuple(int(n) for n in np.diff([0, *cuts, dim]))
        entries.append(draw(st.sampled_from([sizes, len(sizes)])))
    return shape, tuple(entries)


@given(partitioned())
def test_shards_cover_the_variable_once_in_row_major_order(case):
    shape, partition = case
    shards = shard_slices(partition, shape)
    seen = np.zeros(shape, int)
    for shard in shards:
        seen[shard.slices] += 1
        assert seen[shard.slices].shape == shard.size
        assert shard.num_elements == seen[shard.slices].size
    assert (seen == 1).all()
    assert [s.begin for s in shards] == sorted(s.begin for s in shards)
    assert len(shards) == num_shards(partition)


@given(st.integers(1, 40), st.integers(1, 40))
def test_even_parts_are_those_of_array_split(dim, parts):
    if parts > dim:
        return
    expected = [len(part) for part in np.array_split(np.arange(dim), parts)]
    assert [shard.size[0] for shard in shard_slices((parts,), (dim,))] == expected


def test_no_partition_is_one_shard():
    assert shard_slices(None, (2, 3)) == (ShardSlice((0, 0), (2, 3)),)
    assert shard_slices(None, ()) == (ShardSlice((), ()),)
    assert num_shards(None) == 1


@pytest.mark.parametrize("partition", [(), (1,), (1, 1, 1), (3, 1), (0, 1), (1, (1, 1)), (1, (3, 0)), ((), 1)])
def test_a_partition_that_does_not_fit_is_no_partition(partition):
    with pytest.raises(ValueError, match=r"entries for|parts of"):
        shard_slices(partition, (2, 3))


def test_shards_are_in_row_major_order():
    begins = [shard.begin for shard in shard_slices((2, (1, 1, 2)), (4, 4))]
    assert begins == list(itertools.product((0, 2), (0, 1, 2)))
