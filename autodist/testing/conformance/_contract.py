"""The duties of all classes that users name in texts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator

from autodist.errors import AutoDistError, ConformanceFailed
from autodist.registry import Named


def broken_names(instance: Named, read: Callable[[str], object]) -> Iterator[str]:
    """Yield what is wrong with an instance as a named value object.

    Args:
        instance: The candidate.
        read: Makes an instance of a text.
    """
    cls = type(instance)
    parameters = getattr(cls, "__dataclass_params__", None)
    if "__dataclass_fields__" not in vars(cls) or parameters is None or not parameters.frozen:
        yield (
            f"`{cls.__name__}` is not a frozen dataclass of its own, so it can't be compared, hashed or written as text"
        )
        return
    if getattr(cls, "name", None) != cls.__name__:
        yield f"its `name` is {getattr(cls, 'name', None)!r}, expected that of its class, {cls.__name__!r}"
    if vars(cls).get("__doc__", "").startswith(f"{cls.__name__}(") or not cls.summary().endswith("."):
        yield "its docstring does not begin with one line, a sentence, that says what it does"
    required = [
        field.name
        for field in dataclasses.fields(cls)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    yield from (f"its parameter `{name}` has no default" for name in required)
    found, problem = attempted(lambda: read(str(instance)))
    if problem is not None:
        yield f"its text `{instance}` can't be read back: {problem}"
    elif found != instance:
        yield f"its text `{instance}` is read back as {found!r}"


def attempted(call: Callable[[], object]) -> tuple[object, str | None]:
    """The result of a candidate's code, or the exception that it raises."""
    try:
        return call(), None
    except Exception as error:  # whatever another package's code raises
        told = error.message if isinstance(error, AutoDistError) else str(error)
        return None, f"{type(error).__name__}: {told}"


def raise_broken(instance: object, broken: Iterable[str]) -> None:
    """Raise an error that lists how the candidate breaks its contract, each once; do nothing if it does not.

    Raises:
        ConformanceFailed: With one line for each.
    """
    lines = tuple(dict.fromkeys(broken))
    if lines:
        title = f"{type(instance).__name__} breaks its contract:"
        raise ConformanceFailed("\n  - ".join([title, *lines]), hint="docs/extending.md says what it is to keep")
