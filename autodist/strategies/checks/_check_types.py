"""Checks the types in a strategy made in Python: reading JSON checks them, calling a class does not."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any, Literal, get_args, get_origin, get_type_hints

from autodist.registry import raise_mistakes
from autodist.strategies._problem import Problem, sentences
from autodist.strategies._strategy import Strategy, VariableConfig

_MOST_BITS = 4096
"""The most bits of a whole number: Python refuses to print much longer ones."""

_REASON = "a strategy is made of value objects, tuples, texts and whole numbers"


def wrong_types(strategy: object) -> tuple[Problem, ...]:
    """All parts of a strategy that have a wrong type; nothing else can be checked before these are right.

    Example:
        >>> from autodist.strategies import GraphConfig
        >>> print(wrong_types(Strategy(GraphConfig(["a:CPU:0"], "tcp"), ()))[0].statement)  # doctest: +ELLIPSIS
        `graph.replicas` is ['a:CPU:0'], allowed: a tuple (a strategy is made of ...)
    """
    # Nearly all strategies are right: a check without messages, which is several times as fast, comes first.
    return () if _fit(Strategy)(strategy) else tuple(_wrong(Strategy, strategy, "", None))


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


@functools.cache
def _fit(hint: Any) -> Callable[[Any], bool]:
    """A function that tells whether a value and all its parts have a type; it agrees with `_wrong`."""
    arms = [(arm, _parts_fit(arm)) for arm in _arms(hint)]

    def fits(value: Any) -> bool:
        for arm, parts_fit in arms:
            if _is(arm, value):
                return parts_fit is None or parts_fit(value)
        return False

    return fits if hint is not str else _is_text


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _parts_fit(arm: Any) -> Callable[[Any], bool] | None:
    """A function that tells whether all parts of a value have their types; None if it has no parts."""
    if _origin(arm) is tuple:
        fits = _fit(get_args(arm)[0])
        return lambda parts: all(map(fits, {id(part): part for part in parts}.values()))  # many shards are one object
    return None if arm in (str, int, bool, type(None)) or _origin(arm) is Literal else _fields_fit


def _fields_fit(value: Any) -> bool:
    kind: Any = type(value)
    return all(fits(getattr(value, field)) for field, fits in _fits_of_fields(kind))


@functools.cache  # by the value's own class, because fields have the type of a base class
def _fits_of_fields(cls: Any) -> tuple[tuple[str, Callable[[Any], bool]], ...]:
    hints = _hints(cls) if hasattr(cls, "__dataclass_fields__") else {}
    return tuple((field, _fit(its)) for field, its in hints.items())


def _is(arm: Any, value: Any) -> bool:
    if arm is int:
        return type(value) is int and value.bit_length() <= _MOST_BITS  # not isinstance: True is not a number
    if _origin(arm) is Literal:
        return isinstance(value, str)  # other checks see whether it is one of the words
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
    except Exception:  # a foreign object, or a number with more digits than Python prints
        return f"of type {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."


@functools.cache
def _hints(cls: Any) -> dict[str, Any]:
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}
