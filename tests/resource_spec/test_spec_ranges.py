import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodist.errors import SpecError
from autodist.resource_spec import expand_host_range

plain = st.text(st.characters(exclude_characters="[]"), max_size=6)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("localhost", "localhost"),
        ("worker[1-4]", "worker1 worker2 worker3 worker4"),
        ("n[08-11]", "n08 n09 n10 n11"),
        ("n[8-11]", "n8 n9 n10 n11"),
        ("n[1,3,5-7].lan", "n1.lan n3.lan n5.lan n6.lan n7.lan"),
        ("n[1, 3]", "n1 n3"),
        ("r[1-2]n[1-2]", "r1n1 r1n2 r2n1 r2n2"),
        ("n[0-1]", "n0 n1"),
        ("fe80::[1-2]", "fe80::1 fe80::2"),
    ],
)
def test_ranges_of_hosts_are_expanded(text, names):
    assert expand_host_range(text) == tuple(names.split())


@given(prefix=plain, suffix=plain, first=st.integers(0, 500), count=st.integers(1, 50), width=st.integers(1, 6))
def test_a_range_counts_and_pads(prefix, suffix, first, count, width):
    last = first + count - 1
    expanded = expand_host_range(f"{prefix}[{first:0{width}d}-{last}]{suffix}")
    padded = width if f"{first:0{width}d}".startswith("0") else 1
    assert list(expanded) == [f"{prefix}{number:0{padded}d}{suffix}" for number in range(first, last + 1)]


@given(numbers=st.lists(st.integers(0, 999), unique=True, min_size=1, max_size=9))
def test_a_list_keeps_its_order(numbers):
    assert expand_host_range(f"a{numbers}") == tuple(f"a{number}" for number in numbers)


@given(text=st.text("ab[]-,019 ", max_size=14))
def test_any_text_expands_or_is_refused(text):
    try:
        names = expand_host_range(text)
    except SpecError:
        return
    assert len(names) == len(set(names)) or "][" in text
    assert not any("[" in name or "]" in name for name in names)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a[1-2", "unbalanced"),
        ("a1-2]", "unbalanced"),
        ("a[[1]]", "unbalanced"),
        ("a[]", "expected numbers"),
        ("a[x]", "expected numbers"),
        ("a[1:4]", "expected numbers"),
        ("a[1-]", "expected numbers"),
        ("a[4-1]", "expected `1-4`"),
        ("a[1,1-2]", "1 twice"),
        ("a[1-999999999]", "at most 10,000"),
        ("a[1-200][1-200]", "at most 10,000"),
    ],
)
def test_mistakes_in_ranges_of_hosts_are_said(text, message):
    with pytest.raises(SpecError, match=message):
        expand_host_range(text)
