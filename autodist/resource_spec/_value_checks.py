"""Small checks that the value objects and the parser share."""

from __future__ import annotations

import ipaddress
import itertools
import math
import re
from collections import Counter
from collections.abc import Hashable, Iterable
from typing import TypeVar

from autodist.errors import SpecError

_MOST_SHOWN = 12
_HOST_NAME = re.compile(r"(?![-.])[\w.-]+")

T = TypeVar("T", bound=Hashable)


def check_positive(what: str, value: float) -> None:
    """Raise a SpecError unless the value is finite and > 0."""
    if not 0 < value < math.inf:
        raise SpecError(f"{what} is {value}, it must be above 0")


def repeated(items: Iterable[T]) -> list[T]:
    """Return the items that appear more than once, each once.

    Example:
        >>> repeated("abcab")
        ['a', 'b']
    """
    return [item for item, count in Counter(items).items() if count > 1]


def nearest(given: str, known: Iterable[str]) -> str | None:
    """Return the known name that is nearest to a wrong one, if any is near.

    Example:
        >>> nearest("adress", ["address", "chief"])
        'address'
    """
    from difflib import get_close_matches

    return next(iter(get_close_matches(given, list(known), n=1)), None)


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the nearest known one, or some of those there are.

    Example:
        >>> did_you_mean("adress", ["address", "chief"]), did_you_mean("x", ["address", "chief"])
        ('; did you mean `address`?', ', known are address, chief')
    """
    names = list(known)
    near = nearest(given, names)
    if near:
        return f"; did you mean `{near}`?"
    return f", known are {', '.join(names[:_MOST_SHOWN])}{', ...' if len(names) > _MOST_SHOWN else ''}"


def is_address(text: str) -> bool:
    """Whether the text is a host name or an IP address, without user, port and brackets.

    Example:
        >>> is_address("worker-1.lab"), is_address("fe80::1%eth0"), is_address("10.0.0.256"), is_address("me@host")
        (True, True, False, False)
    """
    try:
        ipaddress.ip_address(text)
    except ValueError:
        # A wrong IP address such as 10.0.0.256 would pass as a host name.
        return _HOST_NAME.fullmatch(text) is not None and re.fullmatch(r"[0-9.]+", text) is None
    return re.fullmatch(r"[\w.:%-]+", text) is not None


def is_loopback(address: str) -> bool:
    """Whether the address means the machine that uses it: ``localhost``, 127.0.0.0/8 or ``::1``.

    Example:
        >>> is_loopback("127.0.0.3"), is_loopback("10.0.0.3")
        (True, False)
    """
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address.lower() == "localhost"


def share_out(gpus: tuple[int, ...], workers: int) -> list[tuple[int, ...]]:
    """Return the CUDA ids of each worker of one machine: neighbours stay together, shares differ by at most one.

    Raises:
        SpecError: Fewer GPUs than workers, but some: one GPU can't serve two workers.

    Example:
        >>> share_out((0, 1, 2), workers=2)
        [(0, 1), (2,)]
    """
    if 0 < len(gpus) < workers:
        raise SpecError(f"{workers} workers can't share {len(gpus)} GPU(s), each needs at least one of its own")
    size, extra = divmod(len(gpus), workers)
    ends = [size * worker + min(worker, extra) for worker in range(workers + 1)]
    return [gpus[start:end] for start, end in itertools.pairwise(ends)]
