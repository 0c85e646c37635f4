"""What conversions move: tables that can be checked by hand, and an enumeration of every element on every device."""

import itertools
from math import comb, inf, lcm, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autodist.cost.resharding import (
    PARTIAL,
    WHOLE,
    AxisTiles,
    Places,
    places_of,
    pulled_elements,
    shares_between,
)


def ordered_layouts(axes, rank):
    """Every layout of a tensor, each dim being cut by its axes in every order."""
    for at in itertools.product(range(-2, rank), repeat=len(axes)):
        cutting = [[axis for axis, place in zip(axes, at, strict=True) if place == dim] for dim in range(rank)]
        partial = tuple(axis for axis, place in zip(axes, at, strict=True) if place == -2)
        for orders in itertools.product(*(itertools.permutations(names) for names in cutting)):
            yield Places(tuple(orders), partial)


def moved_share(source, target, lengths):
    """What moves directly or by way of the best layout in between, as a multiple of the tensor's size."""
    shape = [
        lcm(*(prod(lengths[axis] for axis in axes) for axes in dims))
        for dims in zip(source.dims, target.dims, strict=True)
    ]
    shape = [size * prod(lengths.values()) for size in shape]  # whatever a stop cuts is even
    stops = [stop for stop in ordered_layouts(tuple(lengths), len(shape)) if set(stop.partial) <= set(source.partial)]
    moved = [pulled_elements(source, target, shape, lengths)]
    moved += [pulled_elements(source, s, shape, lengths) + pulled_elements(s, target, shape, lengths) for s in stops]
    return min(moved) / prod(shape)


STATES = {"R": 0, "C": 1, "r": WHOLE, "+": PARTIAL}


def states(word):
    return tuple(STATES[letter] for letter in word)


# --- one axis


@pytest.mark.parametrize("tiles", AxisTiles)
@pytest.mark.parametrize("n", [2, 3, 4, 8])
def test_conversions_along_one_axis_move_what_is_computed_by_hand(n, tiles):
    moved = shares_between((n,), 2, tiles).between
    expected = {
        "RR": 0, "RC": 1 - 1 / n, "Rr": n - 1, "CC": 0, "CR": 1 - 1 / n, "Cr": n - 1, "rR": 0, "rC": 0, "rr": 0,
        "+R": n - 1, "+C": n - 1, "+r": 2 * (n - 1), "++": 0, "R+": inf, "r+": inf,
    }  # fmt: skip
    for word, share in expected.items():
        assert moved(states(word[0]), states(word[1])) == pytest.approx(share), word


def test_partial_sums_are_gathered_as_they_are_if_nothing_is_reduced_first():
    for n in (2, 3, 4, 8):
        shares = shares_between((n,), 2)
        assert shares.direct[shares.number[(PARTIAL,)], shares.number[(WHOLE,)]] == pytest.approx(n * (n - 1))


# --- two axes

TWO_CUTS = [
    ("RR", "CC", 0.75, 0.75), ("RC", "CR", 0.75, 0.75), ("RR", "rr", 3, 3), ("RC", "rr", 3, 3),
    ("RR", "rC", 1.5, 1.5), ("RC", "rR", 1.5, 1.5), ("RR", "Cr", 1.5, 1.5), ("RR", "rR", 1, 1),
    ("++", "RR", 3, 3), ("++", "RC", 3, 3), ("++", "rr", 12, 6), ("+R", "Rr", 3, 2), ("R+", "rR", 3, 2),
    ("Rr", "Cr", 1, 1),
]  # fmt: skip


@pytest.mark.parametrize(("source", "target", "direct", "moved"), TWO_CUTS)
def test_two_axes_by_digits(source, target, direct, moved):
    shares = shares_between((2, 2), 2, AxisTiles.DIGITS)
    at = shares.number[states(source)], shares.number[states(target)]
    assert (shares.direct[at], shares.moved[at]) == pytest.approx((direct, moved))


@pytest.mark.parametrize(
    ("source", "target", "moved"),
    [
        ("R.C", "C.R", 0.5),  # two of four tiles swap
        ("AB,*", "A,*", 1),  # the axis that stays is the major one
        ("BA,*", "A,*", 1.5),
        ("AB,*", "*,AB", 0.75),
        ("A,B", "*,B", 1),
        ("A,B", "*,*", 3),
    ],
)
def test_boxes_depend_on_the_order_of_axes(source, target, moved):
    def places(text):
        text = {"R.C": "A,B", "C.R": "B,A"}.get(text, text)
        return Places(tuple(tuple(dim.replace("*", "")) for dim in text.split(",")))

    assert pulled_elements(places(source), places(target), (4, 4), {"A": 2, "B": 2}) / 16 == moved
    assert moved_share(places(source), places(target), {"A": 2, "B": 2}) <= moved


@pytest.mark.parametrize("lengths", [(2,), (2, 2), (3, 2), (2, 2, 2)])
@pytest.mark.parametrize("tiles", AxisTiles)
def test_one_stop_is_enough(lengths, tiles):
    shares = shares_between(lengths, 2, tiles)
    shortest = shares.moved.copy()
    for stop in range(len(shortest)):
        shortest = np.minimum(shortest, shortest[:, stop, None] + shortest[None, stop])
    finite = np.isfinite(shortest)
    assert (finite == np.isfinite(shares.moved)).all()
    # of boxes on three axes, a second stop saves at most a twelfth
    spare = 1.0 if tiles is AxisTiles.DIGITS or len(lengths) < 3 else 13 / 12
    assert (shares.moved[finite] <= shortest[finite] * spare + 1e-9).all()


@pytest.mark.parametrize("lengths", [(2, 2), (3, 2)])
def test_tables_and_layouts_agree(lengths):
    shares, named = shares_between(lengths, 2), dict(zip("AB", lengths, strict=True))
    for source, target in itertools.product(shares.layouts, repeat=2):
        at = places_of(source, ("A", "B"), 2), places_of(target, ("A", "B"), 2)
        direct = pulled_elements(*at, (6, 6) if 3 in lengths else (4, 4), named) / (36 if 3 in lengths else 16)
        assert direct == pytest.approx(shares.direct[shares.number[source], shares.number[target]])
        if direct < inf:
            assert moved_share(*at, named) <= shares.between(source, target) + 1e-9


def test_orders_are_counted():
    for axes, dims in itertools.product(range(1, 4), range(1, 4)):
        words = len(set(itertools.product(range(-1, dims), repeat=axes)))
        assert words == (dims + 1) ** axes
        exponents = {tuple(sorted(word)) for word in itertools.product(range(-1, dims), repeat=axes)}
        assert len(exponents) == comb(axes + dims, dims)  # 3, 6, 10 of a matrix
    assert len({tuple(sorted(word)) for word in itertools.product(range(4), repeat=3)}) == 20
    assert (4**6, 20**6) == (4_096, 64_000_000)
    assert len(list(ordered_layouts(("A",), 2))) == 4


# --- against an enumeration


@st.composite
def conversions(draw):
    lengths = draw(st.lists(st.sampled_from([2, 3, 4]), min_size=1, max_size=3).filter(lambda n: prod(n) <= 24))
    axes = tuple("ABC"[: len(lengths)])
    rank = draw(st.integers(1, 3))
    shape = tuple(draw(st.lists(st.integers(1, 7), min_size=rank, max_size=rank)))

    def layout(partial_among):
        order = draw(st.permutations(axes))
        at = {a: draw(st.integers(-2 if a in partial_among else -1, rank - 1)) for a in order}
        dims = tuple(tuple(a for a in order if at[a] == dim) for dim in range(rank))
        return Places(dims, tuple(a for a in order if at[a] == -2))

    source = layout(axes)
    return source, layout(source.partial), shape, dict(zip(axes, lengths, strict=True))


def held(layout, shape, lengths, at):
    """The elements of a device's tile, each with the numbers of the terms that the device has of it."""
    ranges = []
    for cutting, size in zip(layout.dims, shape, strict=True):
        part, parts = 0, 1
        for axis in cutting:
            part, parts = part * lengths[axis] + at[axis], parts * lengths[axis]
        ranges.append(range(size * part // parts, size * (part + 1) // parts))
    return set(itertools.product(*ranges))


@given(conversions())
@settings(max_examples=150, deadline=None)
def test_pulled_elements_are_those_that_devices_lack(conversion):
    source, target, shape, lengths = conversion
    fetched = 0
    for at in itertools.product(*map(range, lengths.values())):
        at = dict(zip(lengths, at, strict=True))
        terms = [range(lengths[a]) if a not in target.partial else [at[a]] for a in source.partial]
        own = {(e, tuple(at[a] for a in source.partial)) for e in held(source, shape, lengths, at)}
        need = set(itertools.product(held(target, shape, lengths, at), itertools.product(*terms)))
        fetched += len(need - own)
    assert pulled_elements(source, target, shape, lengths) == fetched


def test_terms_are_not_made():
    assert pulled_elements(Places(((),)), Places(((),), ("A",)), (4,), {"A": 2}) == inf
