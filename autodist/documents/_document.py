"""A YAML document as plain data, with the position of every key and the mistakes found in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from autodist.errors import AutoDistError

Path: TypeAlias = "tuple[str | int, ...]"


def _nowhere(path: Path) -> bool:
    return False


def _no_hint(line: str) -> str | None:
    return None


@dataclass(frozen=True)
class Kind:
    """The purpose of a document.

    Attributes:
        name: What messages call it, ``"resource spec"``.
        error: The class of the error that its mistakes raise.
        least: The least content that it must have, for users that give an empty file.
        is_text: Whether the value at a path is a text even where YAML sees a number.
        is_verbatim: Whether the value at a path is taken as it is written, truth values included.
        syntax_hint: What to do about a line that is not YAML, if it is a mistake that people make.
    """

    name: str
    error: type[AutoDistError]
    least: str
    is_text: Callable[[Path], bool] = _nowhere
    is_verbatim: Callable[[Path], bool] = _nowhere
    syntax_hint: Callable[[str], str | None] = _no_hint


_LONGEST_SHOWN = 60


class Position(NamedTuple):
    """A place in the text; both count from 1."""

    line: int
    column: int


class Document:
    """One document and its mistakes.

    Attributes:
        source: What messages call the document, usually its file name.
        kind: What it is for.
        data: Its content: dicts with text keys, lists, texts, numbers, booleans.
        keys: Position of each key (of a list's element: of the element).
        values: Position of each value.
    """

    def __init__(self, source: str, kind: Kind) -> None:
        self.source = source
        self.kind = kind
        self.data: Any = None
        self.keys: dict[Path, Position] = {}
        self.values: dict[Path, Position] = {}
        self._mistakes: dict[tuple[Position, str], None] = {}
        self._unreadable: set[Path] = set()

    def position(self, path: Path, *, at_key: bool = False) -> Position:
        """Return the position of a value (or its key), or of the nearest thing around it that was written."""
        places = self.keys if at_key else self.values
        while path and path not in places:
            path = path[:-1]
        return places.get(path, self.values.get(path, Position(1, 1)))

    def add(self, path: Path, text: str, *, at_key: bool = False) -> None:
        """Note a mistake, unless it is about a value that could not be read, which was noted before."""
        if path not in self._unreadable:
            self.add_at(self.position(path, at_key=at_key), text)

    def add_at(self, position: Position, text: str) -> None:
        """Note a mistake of something that has no path."""
        self._mistakes[position, text] = None

    def add_unreadable(self, path: Path, problem: str, *, at_key: bool = False) -> None:
        """Note a value that is ``None`` in ``data``."""
        self.add(path, f"`{key_path(path)}` {problem}", at_key=at_key)
        self._unreadable.add(path)

    def check(self) -> None:
        """Raise the kind's error with all mistakes, in the order of the text, if there are any."""
        lines = [f"{self.source}:{at.line}:{at.column}: {text}" for at, text in sorted(self._mistakes)]
        if len(lines) == 1:
            raise self.kind.error(lines[0])
        if lines:
            raise self.kind.error("\n  ".join([f"{self.source} has {len(lines)} mistakes:", *lines]))


def key_path(path: Path) -> str:
    """Write a path the way people do.

    Example:
        >>> key_path(("nodes", 1, "address"))
        'nodes[1].address'
    """
    parts = [f"[{part}]" if isinstance(part, int) else f".{_clipped(part)}" for part in path]
    return "".join(parts).removeprefix(".") or "the document"


def shown(value: Any) -> str:
    """Write a value for a message, never the content of a mapping: it may hold a secret.

    Example:
        >>> shown("two"), shown([0, 0]), shown({"password": "x"})
        ('"two"', '[0, 0]', 'a mapping')
    """
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        return "a list"
    return _clipped(json.dumps(value, ensure_ascii=False))


def _clipped(text: str) -> str:
    text = text if text.isprintable() else ascii(text)[1:-1]
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
