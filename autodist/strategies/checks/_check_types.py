"""Whether the parts of a strategy made in Python have their types: reading JSON says so, calling a class does not."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin, get_type_hints

from autodist.registry import raise_mistakes
from autodist.strategies._problem import Problem, sentences
from autodist.strategies._strategy import Strategy, VariableConfig

__all__ = ["require_types", "wrong_types"]

_MOST_BITS = 4096
"""Python does not print much longer numbers."""

_REASON = "a strategy is made of value objects, tuples, texts and whole numbers"


def wrong_types(strategy: object) -> tuple[Problem, ...]:
    """All parts of a strategy that have a wrong type; nothing else can be said of it before these are right.

    Example:
        >>> from autodist.strategies import GraphConfig
        >>> print(wrong_types(Strategy(GraphConfig(["a:CPU:0"], "tcp"), ()))[0].statement)  # doctest: +ELLIPSIS
        `graph.replicas` is ['a:CPU:0'], allowed: a tuple (a strategy is made of ...)

    """
    return tuple(_wrong(Strategy, strategy, "", None))


def require_types(*strategies: object) -> None:
    """Raise if any part has a wrong type.

    Raises:
        StrategyError: Lists all of them.

    """
    raise_mistakes("the strategy", sentences(p for strategy in strategies for p in wrong_types(strategy)))


def _wrong(hint: Any, value: Any, where: str, variable: str | None) -> Iterator[Problem]:
    arms = _arms(hint)
    arm = next((arm for arm in arms if _is(arm, value)), None)
    if arm is None:
        allowed = " or ".join(_name(arm) for arm in arms)
        yield Problem(variable, f"`{where}`" if where else "the strategy", _given(value), allowed, _REASON)
    elif _origin(arm) is tuple:
        for index, part in enumerate(value):
            yield from _wrong(get_args(arm)[0], part, f"{where}[{index}]", variable)
    elif hasattr(value, "__dataclass_fields__"):
        name = getattr(value, "variable", None) if isinstance(value, VariableConfig) else variable
        cls: Any = type(value)
        for field, its in _hints(cls).items():
            place = f"{where}.{field}" if where else field
            yield from _wrong(its, getattr(value, field), place, name if isinstance(name, str) else None)


def _is(arm: Any, value: Any) -> bool:
    if arm is int:
        return type(value) is int and value.bit_length() <= _MOST_BITS  # not isinstance: True is no number
    if _origin(arm) is Literal:
        return isinstance(value, str)  # whether it is one of the words is for other checks to tell
    return isinstance(value, _origin(arm) or arm)


@functools.cache  # a large strategy has some hundred thousand parts, and typing finds the same again each time
def _origin(hint: Any) -> Any:
    return get_origin(hint)


@functools.cache
def _arms(hint: Any) -> tuple[Any, ...]:
    """The types of a union, or the one type."""
    return get_args(hint) if get_origin(hint) not in (tuple, Literal, None) else (hint,)


def _name(arm: Any) -> str:
    names = {str: "a str", int: "an int", bool: "a bool", type(None): "None"}
    return names.get(arm) or {tuple: "a tuple", Literal: "a str"}.get(get_origin(arm)) or f"a {arm.__name__}"


def _given(value: object) -> str:
    try:
        text = repr(value)
    except Exception:  # an object of somebody else's, or a number with more digits than Python likes to print
        return f"of type {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."


@functools.cache
def _hints(cls: Any) -> dict[str, Any]:
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}
