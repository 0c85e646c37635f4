"""A finding of verification."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One reason why a strategy does not fit; as text it is one sentence.

    Attributes:
        variable: The variable it is about; None if it is about the graph or about several.
        aspect: Which part of the strategy.
        given: The value in the strategy.
        allowed: The allowed values.
        reason: Why only these are allowed.

    Example:
        >>> print(Problem("w", "staleness", "-1", "at least 0", "it counts steps"))
        `w`: staleness is -1, allowed: at least 0 (it counts steps)
    """

    variable: str | None
    aspect: str
    given: str
    allowed: str
    reason: str

    def __str__(self) -> str:
        subject = f"`{self.variable}`: " if self.variable is not None else ""
        return f"{subject}{self.statement}"

    @property
    def statement(self) -> str:
        """The sentence without its subject, which several variables can share."""
        return f"{self.aspect} is {self.given}, allowed: {self.allowed} ({self.reason})"


def listed(names: Iterable[str], most: int = 8) -> str:
    """Return the first names in alphabetical order and how many more there are.

    Example:
        >>> listed({"b", "a", "c"}, most=2)
        '`a`, `b` and 1 more'
        >>> listed({"b", "a"}, most=2)
        '`a`, `b`'
    """
    ordered = sorted(names)
    more = f" and {len(ordered) - most} more" if len(ordered) > most else ""
    return ", ".join(f"`{name}`" for name in ordered[:most]) + more


def sentences(problems: Iterable[Problem]) -> tuple[str, ...]:
    """Return the problems as text, those that say the same of several variables in one sentence.

    Example:
        >>> sentences([Problem(v, "sync", "False", "True", "why") for v in ("a", "b")])
        ('`a`, `b`: sync is False, allowed: True (why)',)
    """
    subjects: dict[str, list[str]] = {}
    for problem in problems:
        names = subjects.setdefault(problem.statement, [])
        names.extend([problem.variable] if problem.variable is not None else [])
    return tuple(f"{listed(names)}: {text}" if names else text for text, names in subjects.items())


def differing(aspect: str, values: list[tuple[str, str]], allowed: str, reason: str) -> Iterator[Problem]:
    """Yield a problem if the (value, variable) pairs have more than one value; it says which worker has which."""
    names: dict[str, dict[str, None]] = {}
    for value, name in values:
        names.setdefault(value, {})[name] = None
    if len(names) > 1:
        given = " but ".join(f"{value} for {listed(names[value])}" for value in names)
        yield Problem(None, aspect, given, allowed, reason)
