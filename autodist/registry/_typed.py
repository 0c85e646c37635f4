"""Reads plain values (JSON, literals) as annotated types, strictly, and collects every mistake instead of the first."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from autodist.errors import StrategyError

_PLAIN_NAMES: dict[Any, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}


@dataclass(frozen=True)
class Tagged:
    """Stands in ``Annotated[Base, Tagged(...)]``: one of several dataclasses, which its ``type`` tells.

    Attributes:
        kinds: Finds all of them by their ``type``, with those of other packages.
    """

    kinds: Callable[[], Mapping[str, type]]


@dataclass(frozen=True)
class OneOf:
    """Stands in ``Annotated[str, OneOf(...)]``: a text that is one of those that are known when it is read.

    Attributes:
        own: Those that are known in any case.
        find: Finds all, with those of other packages.
        former: By text of earlier versions, the text that replaces it.
        reads_former: Whether former texts are read as well, as in records that those versions have written.
    """

    own: tuple[str, ...]
    find: Callable[[], tuple[str, ...]]
    former: Mapping[str, str] = field(default_factory=dict, hash=False)
    reads_former: bool = False

    def has(self, value: object) -> bool:
        """Whether a value is one of them."""
        if type(value) is not str:
            return False
        return value in self.own or value in self.find() or (self.reads_former and value in self.former)


class _Placed(str):
    """A text with the path to the value that it is about: keys and indices."""

    path: tuple[str | int, ...]
    __slots__ = ("path",)

    def __new__(cls, text: str, path: tuple[str | int, ...] = ()) -> _Placed:
        placed = super().__new__(cls, text)
        placed.path = path
        return placed


class Mistake(_Placed):
    """A mistake in a value, one sentence."""

    __slots__ = ()


class _Where(_Placed):
    """How messages call a place."""

    __slots__ = ()

    def key(self, name: str) -> _Where:
        return _Where(f"{self}.{name}" if self else name, (*self.path, name))

    def item(self, index: int) -> _Where:
        return _Where(f"{self}[{index}]", (*self.path, index))

    def mistake(self, text: str) -> Mistake:
        return Mistake(f"`{self}` {text}", self.path)


def raise_mistakes(what: str, mistakes: Iterable[str], *, hint: str | None = None) -> None:
    """Raise one StrategyError that lists all mistakes; do nothing if there are none.

    Raises:
        StrategyError: With one line per mistake.
    """
    lines = tuple(mistakes)
    if len(lines) == 1:
        raise StrategyError(f"{what}: {lines[0]}", hint=hint)
    if lines:
        raise StrategyError("\n  - ".join([f"{what} has {len(lines)} mistakes:", *lines]), hint=hint)


def mistakes_of(error: StrategyError, what: str) -> list[str]:
    """Return the mistakes that :func:`raise_mistakes` put into the error; those of another error are its message.

    Example:
        >>> try:
        ...     raise_mistakes("PS", ["one", "two"])
        ... except StrategyError as error:
        ...     mistakes_of(error, "PS")
        ['one', 'two']
    """
    return error.message.split("\n  - ")[1:] or [error.message.removeprefix(f"{what}: ")]


def suggestion(given: str, known: Iterable[str]) -> str:
    """', did you mean `x`?' for the known name nearest to the given one, ignoring case, dashes and underscores.

    Example:
        >>> suggestion("all-reduce", ["AllReduce", "PSLoadBalancing"])
        ', did you mean `AllReduce`?'
        >>> suggestion("elephant", ["AllReduce"])
        ''
    """
    folded = {_fold(name): name for name in known}
    near = difflib.get_close_matches(_fold(given), folded, n=1)
    return f", did you mean `{folded[near[0]]}`?" if near else ""


def _fold(name: str) -> str:
    return name.replace("-", "").replace("_", "").casefold()


def plain(value: Any) -> Any:
    """Return the value object as dicts, lists and scalars, without what is None; a tagged class brings its ``type``."""
    if dataclasses.is_dataclass(value):
        pairs = ((f.name, getattr(value, f.name)) for f in dataclasses.fields(value))
        tag = {"type": _tag(type(value))} if _tag(type(value)) else {}
        return tag | {name: plain(part) for name, part in pairs if part is not None}
    if isinstance(value, tuple):
        return [plain(part) for part in value]
    return value


class Shared(dict[str, Any]):
    """A JSON object that is used for all that are equal to it; it keeps what it was read as.

    Attributes:
        read_as: By class, and whether its ``type`` named it, the value object.
    """

    def __init__(self, pairs: Iterable[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.read_as: dict[Any, Any] = {}


def shared() -> Callable[[list[tuple[str, Any]]], Shared]:
    """Make a hook of a JSON parser by which equal objects of one text become one.

    Example:
        >>> import json
        >>> first, second = json.loads('[{"a": 1}, {"a": 1}]', object_pairs_hook=shared())
        >>> first is second
        True
    """
    known: dict[Any, Shared] = {}

    def one_of(pairs: list[tuple[str, Any]]) -> Shared:
        # Contents must be the same, not only equal: 1 and True are equal.
        key = tuple((k, type(v), id(v) if isinstance(v, dict | list) else v) for k, v in pairs)
        return known.setdefault(key, Shared(pairs))

    return one_of


def read(hint: Any, value: Any, where: str, mistakes: list[str]) -> Any:
    """Read the value as the annotated type; what is wrong is appended to ``mistakes`` and the result is then useless.

    Args:
        hint: str, int, float, bool, a Literal, a text that is :class:`OneOf` some, ``tuple[T, ...]``, a dataclass, a
            class that is :class:`Tagged`, or a union of these.
        value: What JSON or a Python literal gives.
        where: The place of the value, for the messages.
        mistakes: One :class:`Mistake` is added per mistake, whose path starts at ``value``.

    Example:
        >>> mistakes: list[str] = []
        >>> read(tuple[int, ...], [1, "2"], "sizes", mistakes) and mistakes
        ["`sizes[1]` is '2', allowed: a whole number"]
    """
    here = where if isinstance(where, _Where) else _Where(where)
    if hasattr(hint, "__dataclass_fields__"):
        return _read_dataclass(hint, value, here, mistakes)
    origin = _origin(hint)
    if origin is Annotated and isinstance(hint.__metadata__[0], Tagged):
        return _read_tagged(hint.__metadata__[0].kinds(), value, here, mistakes)
    if origin in (Union, types.UnionType):
        return _read_union(get_args(hint), value, here, mistakes)
    if origin is tuple and isinstance(value, list | tuple):
        element = get_args(hint)[0]
        return tuple(read(element, part, here.item(i), mistakes) for i, part in enumerate(value))
    if not _fits(hint, value):
        mistakes.append(here.mistake(f"is {_short(value)}, allowed: {describe(hint)}{_instead(hint, value)}"))
    return value


@functools.cache  # a large strategy is read from some hundred thousand values
def _origin(hint: Any) -> Any:
    return get_origin(hint)


def describe(hint: Any) -> str:
    """Say what the type allows, in words.

    Example:
        >>> describe(Literal["ring", "tree"] | None)
        '`ring` or `tree` or null'
    """
    if hint in _PLAIN_NAMES:
        return _PLAIN_NAMES[hint]
    if get_origin(hint) is Literal:
        return " or ".join(f"`{choice}`" for choice in get_args(hint))
    if get_origin(hint) is Annotated:
        return " or ".join(f"`{choice}`" for choice in _one_of(hint).find())
    if get_origin(hint) is tuple:
        return f"a list (each: {describe(get_args(hint)[0])})"
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(describe(arm) for arm in get_args(hint))
    return "an object"


def _fits(hint: Any, value: Any) -> bool:
    origin = _origin(hint)
    if origin is Literal:
        return any(type(value) is type(choice) and value == choice for choice in get_args(hint))
    if origin is Annotated:
        return _one_of(hint).has(value)
    if hint is float and type(value) is int:
        return True
    return type(value) is hint  # not isinstance: True is no whole number


def _one_of(hint: Any) -> OneOf:
    [found] = hint.__metadata__
    assert isinstance(found, OneOf), hint
    return found


def _instead(hint: Any, value: Any) -> str:
    """The replacement of something from earlier versions, in brackets."""
    found = _one_of(hint).former.get(value) if type(value) is str and _origin(hint) is Annotated else None
    return f" ({found})" if found else ""


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _tag(cls: Any) -> str | None:
    return getattr(cls, "type", None)


def _read_union(arms: tuple[Any, ...], value: Any, where: _Where, mistakes: list[str]) -> Any:
    if all(_tag(arm) for arm in arms):
        return _read_tagged({_tag(arm): arm for arm in arms}, value, where, mistakes)
    objects = [arm for arm in arms if dataclasses.is_dataclass(arm)]
    if isinstance(value, dict) and objects and all(map(_tag, objects)):
        return _read_tagged({_tag(arm): arm for arm in objects}, value, where, mistakes)
    if isinstance(value, dict) and len(objects) == 1:
        return _read_dataclass(objects[0], value, where, mistakes)
    for arm in arms:
        attempt: list[str] = []
        result = read(arm, value, where, attempt)
        if not attempt:
            return result
    allowed = " or ".join(describe(arm) for arm in arms)
    mistakes.append(where.mistake(f"is {_short(value)}, allowed: {allowed}"))
    return None


def _read_tagged(classes: Mapping[Any, Any], value: Any, where: _Where, mistakes: list[str]) -> Any:
    tag = value.get("type") if isinstance(value, dict) else None
    if not isinstance(tag, str) or tag not in classes:
        given, place = (tag, where.key("type")) if isinstance(value, dict) else (value, where)
        known = " or ".join(f"`{name}`" for name in classes)
        mistakes.append(place.mistake(f"is {_short(given)}, allowed: an object whose `type` is {known}"))
        return None
    return _read_dataclass(classes[tag], value, where, mistakes, tagged=True)


@functools.cache
def _fields(cls: Any) -> dict[str, tuple[Any, bool]]:
    """For each field its type and whether it must be given."""
    hints = get_type_hints(cls, include_extras=True)
    missing = dataclasses.MISSING
    return {
        f.name: (hints[f.name], f.default is missing and f.default_factory is missing) for f in dataclasses.fields(cls)
    }


def _read_dataclass(cls: Any, value: Any, where: _Where, mistakes: list[str], *, tagged: bool = False) -> Any:
    known = value.read_as if isinstance(value, Shared) else {}
    if (cls, tagged) not in known:
        before = len(mistakes)
        fields = {k: v for k, v in value.items() if k != "type"} if tagged else value
        found = _read_fields(cls, fields, where, mistakes)
        if len(mistakes) > before:  # which are reported for each place
            return None
        known[cls, tagged] = found
    return known[cls, tagged]


def _read_fields(cls: Any, value: Any, where: _Where, mistakes: list[str]) -> Any:
    if not isinstance(value, dict):
        mistakes.append(where.mistake(f"is {_short(value)}, allowed: an object"))
        return None
    fields, before = _fields(cls), len(mistakes)
    for key in value.keys() - fields.keys():
        near = suggestion(key, fields) or ", allowed: " + ", ".join(fields)
        mistakes.append(where.key(key).mistake(f"is unknown{near}"))
    for name, (_, required) in fields.items():
        if required and name not in value:
            mistakes.append(where.key(name).mistake("is missing"))
    parts = {k: read(fields[k][0], v, where.key(k), mistakes) for k, v in value.items() if k in fields}
    return cls(**parts) if len(mistakes) == before else None
