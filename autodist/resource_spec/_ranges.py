"""Host ranges: one text for many host names."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable

from autodist.errors import SpecError

MAX_HOSTS = 10_000
"""Most hosts that one range, or one spec, may have: a guard against typing errors such as ``[1-100000000]``."""

_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_ITEM = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


def expand_host_range(text: str) -> tuple[str, ...]:
    """Return the host names that a range means, in the order written; a text without brackets means itself.

    A bracket holds numbers and ``first-last`` ranges (both ends included), separated by commas. A first number with
    leading zeros sets the width of all of its range. Several brackets combine, the last one running fastest.

    Args:
        text: For example ``worker[1-4]``, ``node[01-12].cluster`` or ``rack[1,3]-host[5-7]``.

    Raises:
        SpecError: Unbalanced brackets, something else than numbers in them, a range that runs backwards, a number
            given twice, or more than 10,000 hosts.

    Example:
        >>> expand_host_range("worker[08-10,12]")
        ('worker08', 'worker09', 'worker10', 'worker12')
        >>> expand_host_range("localhost")
        ('localhost',)
    """
    pieces = _BRACKETS.split(text)
    literals, brackets = pieces[::2], pieces[1::2]
    if any("[" in literal or "]" in literal for literal in literals):
        raise SpecError(f"host range `{text}` has unbalanced brackets, expected a form like `worker[1-4]`")
    spans = [_parse_bracket(text, bracket) for bracket in brackets]
    _check_size(text, spans)
    choices = [[number for span in bracket for number in span.numbers()] for bracket in spans]
    for numbers in choices:
        _check_distinct(text, numbers)
    return tuple(_interleave(literals, combination) for combination in itertools.product(*choices))


class _Span:
    """``first-last`` of one bracket, with the width that its zero padding asks for."""

    def __init__(self, first: str, last: str) -> None:
        self.first, self.last = int(first), int(last)
        self.width = len(first) if first.startswith("0") else 1

    def __len__(self) -> int:
        return max(0, self.last - self.first + 1)

    def numbers(self) -> Iterable[str]:
        return (f"{number:0{self.width}d}" for number in range(self.first, self.last + 1))


def _parse_bracket(text: str, bracket: str) -> list[_Span]:
    spans = []
    for item in bracket.split(","):
        match = _ITEM.fullmatch(item.strip())
        if match is None:
            raise SpecError(
                f"host range `{text}` has `{item}` in brackets, expected numbers as in `[1-4]` or `[1,3,5-7]`"
            )
        first, last = match[1], match[2] or match[1]
        if int(last) < int(first):
            raise SpecError(f"host range `{text}` runs backwards in `{item}`, expected `{last}-{first}`")
        spans.append(_Span(first, last))
    return spans


def _check_size(text: str, spans: list[list[_Span]]) -> None:
    count = math.prod(sum(len(span) for span in bracket) for bracket in spans)
    if count > MAX_HOSTS:
        raise SpecError(f"host range `{text}` stands for {count:,} hosts, at most {MAX_HOSTS:,} are allowed")


def _check_distinct(text: str, numbers: list[str]) -> None:
    seen: set[str] = set()
    for number in numbers:
        if number in seen:
            raise SpecError(f"host range `{text}` has {number} twice, each number may appear once")
        seen.add(number)


def _interleave(literals: list[str], numbers: tuple[str, ...]) -> str:
    return literals[0] + "".join(number + literal for number, literal in zip(numbers, literals[1:], strict=True))
