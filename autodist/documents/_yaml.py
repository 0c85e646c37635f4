"""YAML text to a :class:`Document`: like ``yaml.safe_load``, but it knows the position of everything."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import yaml
from yaml.constructor import SafeConstructor

from autodist.documents._document import Document, Kind, Path, Position, key_path
from autodist.errors import AutoDistError

_TAG = "tag:yaml.org,2002:"
_SCALARS = {_TAG + name for name in ("str", "int", "float", "bool", "null", "timestamp", "value", "merge")}
_UNREAD = {_TAG + name for name in ("str", "timestamp", "value", "merge")}

_MOST_VALUES = 200_000
"""With aliases of aliases, a short text can mean billions of values."""
_LONGEST_NUMBER = 100


def load(text: str, source: str, kind: Kind) -> Document:
    """Read YAML text; mistakes that leave something to read are noted in the document.

    Raises:
        AutoDistError: The kind's own. Not YAML, empty, or nested too deeply.
    """
    document = Document(source, kind)
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is not None:
            document.data = _Converter(document).value(node, ())
    except yaml.YAMLError as error:
        raise _syntax_error(error, text, document) from None
    except RecursionError:
        raise kind.error(f"{source}: nested too deeply for a {kind.name}") from None
    if node is None:
        raise kind.error(f"{source} is empty, a {kind.name} has {kind.least}")
    return document


def read_text(path: str | pathlib.Path, kind: Kind, hint: str) -> str:
    """Return the text of a file.

    Args:
        path: The file.
        kind: What it is for.
        hint: What to do if it does not exist.

    Raises:
        AutoDistError: The kind's own. The file can't be read.
    """
    try:
        content = pathlib.Path(path).read_bytes()
    except FileNotFoundError:
        raise kind.error(f"{kind.name} `{path}` does not exist", hint=hint) from None
    except IsADirectoryError:
        raise kind.error(f"{kind.name} `{path}` is a directory, expected a YAML file") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise kind.error(f"{kind.name} `{path}` can't be read: {reason}") from None
    return _decode(content, str(path), kind)


def _decode(content: bytes, source: str, kind: Kind) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        column = error.start - content[: error.start].rfind(b"\n")
        message = f"{source}:{line}:{column}: byte 0x{content[error.start]:02x} is not UTF-8, expected UTF-8 text"
        raise kind.error(message) from None


def _syntax_error(error: yaml.YAMLError, text: str, document: Document) -> AutoDistError:
    source, kind = document.source, document.kind
    if isinstance(error, yaml.reader.ReaderError):
        before = text[: error.position]
        at = Position(before.count("\n") + 1, len(before) - before.rfind("\n"))
        return kind.error(f"{source}:{at.line}:{at.column}: the character U+{int(error.character):04X} is not allowed")
    assert isinstance(error, yaml.MarkedYAMLError)
    mark = error.problem_mark or error.context_mark
    assert mark is not None
    problem = ", ".join(part for part in (error.context, error.problem, error.note) if part)
    line = text.splitlines()[mark.line] if mark.line < len(text.splitlines()) else ""
    return kind.error(f"{source}:{mark.line + 1}:{mark.column + 1}: not YAML: {problem}", hint=kind.syntax_hint(line))


class _Converter:
    """Turns nodes into plain data and notes positions and mistakes on the way."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.constructor = SafeConstructor()
        self.open: set[int] = set()
        self.count = 0

    def value(self, node: yaml.Node, path: Path) -> object:
        self.document.values[path] = _position(node)
        self.document.keys.setdefault(path, _position(node))
        self._spend()
        if id(node) in self.open:
            self.document.add_unreadable(path, "contains itself")
            return None
        self.open.add(id(node))
        try:
            return self._convert(node, path)
        finally:
            self.open.remove(id(node))

    def _spend(self) -> None:
        self.count += 1
        if self.count > _MOST_VALUES:
            kind = self.document.kind
            raise kind.error(f"{self.document.source}: more than {_MOST_VALUES:,} values, too many for a {kind.name}")

    def _convert(self, node: yaml.Node, path: Path) -> object:
        if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
            return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode) and node.tag in _SCALARS:
            return self._scalar(node, path)
        self.document.add_unreadable(path, f"has the YAML tag `{node.tag}`, only plain values are allowed")
        return None

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, object]:
        pairs: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        for merged in self._merged(node, path):
            pairs = {**self._pairs(merged, path), **pairs}
        pairs.update(self._pairs(node, path))
        result = {}
        for key, (key_node, value_node) in pairs.items():
            self.document.keys[(*path, key)] = _position(key_node)
            result[key] = self.value(value_node, (*path, key))
        return result

    def _merged(self, node: yaml.MappingNode, path: Path) -> Iterator[yaml.MappingNode]:
        """Yield the mappings that ``<<`` merges in, theirs included; the first to have a key wins."""
        for key, value in node.value:
            if key.tag != _TAG + "merge":
                continue
            for item in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                self._spend()
                if not isinstance(item, yaml.MappingNode):
                    self.document.add_at(_position(item), "`<<` merges something else than a mapping")
                    continue
                yield item
                yield from self._merged(item, path)

    def _pairs(self, node: yaml.MappingNode, path: Path) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        pairs: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        for key, value in node.value:
            if key.tag == _TAG + "merge":
                continue
            if not isinstance(key, yaml.ScalarNode) or key.tag == _TAG + "null" or not _is_unicode(key.value):
                self.document.add_at(_position(key), f"a key of `{key_path(path)}` is not a text")
            elif key.value in pairs:
                first = _position(pairs[key.value][0])
                self.document.add_at(
                    _position(key), f"`{key_path((*path, key.value))}` is given twice, first in line {first.line}"
                )
            else:
                pairs[key.value] = (key, value)
        return pairs

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> object:
        if node.tag == _TAG + "null":
            self.document.add_unreadable(path, "is empty, give it a value or remove it", at_key=True)
            return None
        if not _is_unicode(node.value):
            self.document.add_unreadable(path, "has half a surrogate pair, which is not a character")
            return None
        kind = self.document.kind
        if node.tag in _UNREAD or kind.is_verbatim(path) or (kind.is_text(path) and node.tag != _TAG + "bool"):
            return str(node.value)
        try:
            if len(node.value) > _LONGEST_NUMBER:
                raise ValueError
            return self.constructor.construct_object(node)
        except (ValueError, KeyError, IndexError, OverflowError):
            self.document.add_unreadable(path, "looks like a number or a truth value but can't be read as one")
            return None


def _position(node: yaml.Node) -> Position:
    return Position(node.start_mark.line + 1, node.start_mark.column + 1)


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)
