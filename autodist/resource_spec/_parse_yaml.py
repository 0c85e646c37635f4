"""YAML to a resource spec, with all mistakes at once."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from autodist.documents import Document, Kind, Path, key_path, load, read_text, shown
from autodist.errors import SpecError
from autodist.resource_spec._build import build
from autodist.resource_spec._schema import (
    ALLOWED,
    SYNONYMS,
    Defaults,
    File,
    LinkSection,
    Node,
    SshGroup,
    is_secret,
    is_text,
    is_verbatim,
)
from autodist.resource_spec._value_checks import did_you_mean, nearest

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from autodist.resource_spec._hosts_and_links import Host, Link

_HOMES: dict[type[BaseModel], str] = {
    File: "at the top level",
    Node: "to an element of `nodes`",
    SshGroup: "to a group in `ssh`",
    LinkSection: "to an element of `links`",
}


def _syntax_hint(line: str) -> str | None:
    return 'inside `{}` and `[]` a host range needs quotes: `"worker[1-4]"`' if re.search(r"\w\[[0-9]", line) else None


_KIND = Kind("resource spec", SpecError, "at least `nodes`", is_text, is_verbatim, _syntax_hint)

Section = TypeVar("Section", bound=BaseModel)


def read_file(path: str | pathlib.Path) -> tuple[tuple[Host, ...], tuple[Link, ...]]:
    """Return the hosts and links of a file.

    Raises:
        SpecError: The file can't be read, or has mistakes.
    """
    text = read_text(path, _KIND, hint="name another file, or leave the spec out to use this machine")
    return parse(text, str(path))


def parse(text: str, source: str) -> tuple[tuple[Host, ...], tuple[Link, ...]]:
    """Return the hosts and links of a text.

    Raises:
        SpecError: The text has mistakes.
    """
    document = load(text, source, _KIND)
    file = _read(document, File, ())
    if file is None:
        document.check()
        raise AssertionError("a document without a readable shape has no mistake")
    _refuse_odd_group_names(document, file.ssh)
    return build(
        document,
        nodes=[_read(document, Node, ("nodes", index)) for index in range(len(file.nodes))],
        defaults=_read(document, Defaults, ("defaults",), file.defaults) or Defaults.model_validate({}),
        groups={name: _read(document, SshGroup, ("ssh", name)) for name in file.ssh},
        links=[_read(document, LinkSection, ("links", index)) for index in range(len(file.links))],
    )


def _read(document: Document, section: type[Section], path: Path, data: Any = None) -> Section | None:
    """Return one section; if it has mistakes they are noted, and what remains without the wrong keys is returned."""
    data = _at(document.data, path) if data is None else data
    try:
        return section.model_validate(data)
    except ValidationError as error:
        details = error.errors(include_url=False)
    _note(document, section, path, details)
    wrong = {detail["loc"][0] for detail in details if detail["loc"]}
    if not isinstance(data, dict) or not wrong:
        return None
    try:
        return section.model_validate({key: value for key, value in data.items() if key not in wrong})
    except ValidationError:
        return None


def _at(data: Any, path: Path) -> Any:
    for part in path:
        data = data[part]
    return data


def _note(document: Document, section: type[BaseModel], path: Path, details: Iterable[ErrorDetails]) -> None:
    known = section.model_fields
    unknown = [str(detail["loc"][-1]) for detail in details if detail["type"] == "extra_forbidden"]
    meant = {_nearest(key, known) for key in unknown}
    for key in unknown:
        document.add_at(document.position((*path, key), at_key=True), _unknown_key(path, key, known))
    for detail in details:
        where = (*path, *detail["loc"])
        if detail["type"] == "missing" and detail["loc"][-1] not in meant:
            document.add(where, f"`{key_path(where)}` is missing, expected {_allowed(section, where, path)}")
        elif detail["type"] not in ("missing", "extra_forbidden"):
            document.add(where, _wrong_value(document, detail, where, _allowed(section, where, path)))


def _unknown_key(path: Path, key: str, known: Mapping[str, Any]) -> str:
    where = key_path((*path, key))
    if is_secret(key):
        reason = "secrets don't belong in this file, which is copied to every host: use `key_file` or an SSH agent"
        return f"`{where}` is refused: {reason}"
    homes = [home for section, home in _HOMES.items() if key in section.model_fields]
    if homes:
        return f"`{where}` is out of place, `{key}` belongs {homes[0]}"
    near = _nearest(key, known)
    return f"`{where}` is an unknown key{did_you_mean(near or key, sorted(known))}"


def _nearest(key: str, known: Mapping[str, Any]) -> str | None:
    synonym = SYNONYMS.get(key.lower())
    if synonym in known:
        return synonym
    return nearest(key.lower().replace("-", "_"), known)


def _wrong_value(document: Document, detail: ErrorDetails, where: Path, allowed: str) -> str:
    given = f"`{key_path(where)}` is {shown(_at(document.data, where))}"
    reason = str(detail.get("ctx", {}).get("error", ""))
    return f"{given}: {reason}" if reason else f"{given}, expected {allowed}"


def _allowed(section: type[BaseModel], where: Path, path: Path) -> str:
    keys = [part for part in where[len(path) :] if part in ALLOWED]
    return ALLOWED[str(keys[0])] if keys else f"a mapping with keys of {', '.join(sorted(section.model_fields))}"


def _refuse_odd_group_names(document: Document, groups: Mapping[str, Any]) -> None:
    for name in groups:
        if not name.isprintable() or not name:
            document.add(("ssh", name), f"`{key_path(('ssh', name))}` needs a printable name", at_key=True)
