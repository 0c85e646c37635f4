"""Reads an object with arguments from text, literals only: ``AllReduce(chunk_size=64)``."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections import Counter
from typing import Any, TypeVar, get_type_hints

from autodist.errors import StrategyError
from autodist.registry._named import Named
from autodist.registry._typed import mistakes_of, raise_mistakes, read, suggestion

T = TypeVar("T", bound=Named)


def split_call(text: str) -> tuple[str, str]:
    """Return the name and the text between its parentheses.

    Example:
        >>> split_call("AllReduce(chunk_size=64)")
        ('AllReduce', 'chunk_size=64')
        >>> split_call("AllReduce")
        ('AllReduce', '')
    """
    match = re.fullmatch(r"([^()]*)(?:\((.*)\))?", text.strip(), re.DOTALL)
    return (match[1].strip(), match[2] or "") if match else (text, "")


def parameters(cls: type[Named]) -> dict[str, Any]:
    """Return the parameters with their defaults."""
    defaults = cls()
    return {field.name: getattr(defaults, field.name) for field in dataclasses.fields(cls)}


def instantiate(cls: type[T], arguments: str) -> T:
    """Return the instance with the arguments of the text.

    Example:
        >>> from autodist.strategies import AllReduce
        >>> instantiate(AllReduce, "chunk_size=2").chunk_size
        2

    Raises:
        StrategyError: Lists all mistakes and the allowed parameters.
    """
    mistakes: list[str] = []
    given = _keywords(cls, arguments, mistakes)
    hints = get_type_hints(cls, include_extras=True)
    good: dict[str, Any] = {}
    for key, value in given.items():
        known = len(mistakes)
        result = read(hints[key], value, key, mistakes)
        if len(mistakes) == known:
            good[key] = result
    instance = _constructed(cls, good, mistakes)
    raise_mistakes(f"`{cls.name}({arguments})`", mistakes, hint=_hint(cls))
    return instance


def _hint(cls: type[Named]) -> str:
    pairs = [f"{name}={default!r}" for name, default in parameters(cls).items()]
    return f"its parameters and defaults are {', '.join(pairs)}" if pairs else "it has no parameters"


def _keywords(cls: type[Named], arguments: str, mistakes: list[str]) -> dict[str, Any]:
    """Return the known keyword arguments' values."""
    call = _call(arguments)
    if call is None:
        mistakes.append("the arguments are not Python keyword arguments, allowed: `name=value, …` with plain values")
        return {}
    for argument in call.args:
        mistakes.append(f"`{ast.unparse(argument)}` has no name, allowed: `name=value`")
    pairs = [pair for keyword in call.keywords for pair in _keyword(keyword, parameters(cls), mistakes)]
    repeated = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
    mistakes.extend(f"`{name}` is given more than once" for name in repeated)
    return dict(pairs)


def _call(arguments: str) -> ast.Call | None:
    try:
        tree = ast.parse(f"f({arguments}\n)", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two: what deep nesting gives
        return None
    # `1)(2` would close our own parenthesis: the call must still be that of `f`.
    return tree if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) else None


def _keyword(keyword: ast.keyword, known: dict[str, Any], mistakes: list[str]) -> list[tuple[str, Any]]:
    if keyword.arg is None:
        mistakes.append(f"`**{ast.unparse(keyword.value)}` has no name, allowed: `name=value`")
        return []
    if keyword.arg not in known:
        mistakes.append(f"the parameter `{keyword.arg}` is unknown{suggestion(keyword.arg, known)}")
        return []
    try:
        return [(keyword.arg, ast.literal_eval(keyword.value))]
    except (ValueError, TypeError, RecursionError):
        given = ast.unparse(keyword.value)
        mistakes.append(
            f"`{keyword.arg}` is `{given}`, allowed: a plain value (number, quoted text, True, False, None)"
        )
        return []


def _constructed(cls: type[T], given: dict[str, Any], mistakes: list[str]) -> T:
    """Return the instance of the arguments that are well-typed, so that its own mistakes are listed with the others."""
    try:
        return cls(**given)
    except StrategyError as error:
        mistakes.extend(mistakes_of(error, cls.name))
        return cls()
