"""Who sums how much: all of it, nobody less than nothing, and no link takes longer than with equal parts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodist.transport import owner_places, reduction_shares
from autodist.transport._summing_shares import PLACES

RATES = st.lists(st.floats(0.01, 100), min_size=1, max_size=9)


def longest(shares, rates):
    """Seconds of the slowest link for a tensor of size 1."""
    count = len(rates)
    return max((1 + (count - 2) * share) / rate for share, rate in zip(shares, rates, strict=True))


@given(RATES)
def test_all_is_summed_somewhere(rates):
    shares = reduction_shares(rates)
    assert sum(shares) == pytest.approx(1)
    assert min(shares) >= 0


@given(st.lists(st.floats(0.01, 100), min_size=2, max_size=9))
def test_no_link_takes_longer_than_with_equal_parts(rates):
    equal = [1 / len(rates)] * len(rates)
    assert longest(reduction_shares(rates), rates) <= longest(equal, rates) * (1 + 1e-9)


@given(st.lists(st.floats(0.01, 100), min_size=3, max_size=6), st.data())
def test_nothing_is_gained_by_moving_some(rates, data):
    shares = list(reduction_shares(rates))
    giver = data.draw(st.sampled_from([host for host, share in enumerate(shares) if share > 0]))
    taker = data.draw(st.integers(0, len(rates) - 1))
    before, some = longest(shares, rates), shares[giver] / 2
    shares[giver] -= some
    shares[taker] += some
    assert longest(shares, rates) >= before * (1 - 1e-9)


@given(st.integers(1, 20), st.lists(st.integers(0, 300_000), max_size=60))
def test_places_are_the_same_for_all_and_divide_evenly(count, sizes):
    places = owner_places(sizes, count)
    assert places == owner_places(sizes, count)
    assert all(place is None or 0 <= place < PLACES for place in places)
    for size, place in zip(sizes, places, strict=True):
        assert (place is None) == (count == 1 or (size > 32 << 10 and size >> 14 >= count))


def test_equal_tensors_are_summed_by_everybody_in_turn():
    found = [int(place * 4 / PLACES) for place in owner_places([30_000] * 8, 4)]
    assert sorted(found) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [int(place * 4 / PLACES) for place in owner_places([30_000, 100, 100, 100], 4)] == [0, 1, 2, 3]
