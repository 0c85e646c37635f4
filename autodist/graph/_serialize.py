"""G as one file: a zip archive of a header in JSON and the GraphDef, which Netron and TensorBoard open as well.

The GraphDef is read on demand: to list variables, or to count what a strategy sends, takes neither
TensorFlow nor its start-up time.
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
import secrets
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autodist.errors import GraphError
from autodist.graph._identity import SCHEME, Identity
from autodist.graph._quiet_import import without_chatter
from autodist.graph._variables import Gradient, Output, Role, StepInput, Variable
from autodist.graph.analysis import VariableUse

if TYPE_CHECKING:
    from autodist.graph._training_graph import TrainingGraph

_FORMAT = "autodist training graph"
_VERSION = 2
_OLDEST = 1
_HEADER = "header.json"
_GRAPH_DEF = "graph.pb"
_MOST_BYTES = 2**31  # of a protobuf message
_BROKEN = (zipfile.BadZipFile, zlib.error, KeyError, EOFError, NotImplementedError, RuntimeError)
"""Exceptions from reading a damaged archive."""


def save_graph(graph: TrainingGraph, path: str | os.PathLike[str]) -> None:
    """Write the file, whole or not at all.

    Raises:
        GraphError: It can't be written.
    """
    target = Path(path)
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            _add(archive, _HEADER, json.dumps(_header(graph), indent=1).encode())
            if graph.graph_def is not None:
                _add(archive, _GRAPH_DEF, graph.graph_def.SerializeToString(deterministic=True))
        draft.replace(target)
    except OSError as error:
        reason = error.strerror or error
        raise GraphError(f"the graph file `{os.fspath(path)}` can't be written: {reason}") from error
    finally:
        draft.unlink(missing_ok=True)


def _add(archive: zipfile.ZipFile, member: str, content: bytes) -> None:
    """Write a file of the archive without the time, so that one graph has one content."""
    archive.writestr(zipfile.ZipInfo(member), content, archive.compression, archive.compresslevel)


def without_directories(content: bytes) -> bytes:
    """A graph file's content that can be given to others: the user's files appear by name, without directories.

    Raises:
        GraphError: It is no such content, or it is damaged.
    """
    written = io.BytesIO()
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive, zipfile.ZipFile(written, "w") as other:
            for member in archive.infolist():
                text = _read(archive, member.filename)
                if member.filename == _HEADER:
                    header = json.loads(text)
                    header["lines"] = {node: Path(line).name for node, line in header["lines"].items()}
                    text = json.dumps(header, indent=1).encode()
                other.writestr(member.filename, text, zipfile.ZIP_DEFLATED)
    except (*_BROKEN, ValueError, TypeError, AttributeError) as error:
        raise GraphError(f"this is not a graph file, or it is damaged: {error}") from error
    return written.getvalue()


def load_graph(path: str | os.PathLike[str]) -> tuple[dict[str, Any], bytes | None]:
    """The fields of the graph in the file, and its GraphDef, not yet parsed.

    Raises:
        GraphError: It can't be read, is no such file, is damaged, or was written by a newer version.
    """
    name = os.fspath(path)
    try:
        with zipfile.ZipFile(path) as archive:
            header = json.loads(_read(archive, _HEADER))
            _check(header, name)
            content = _read(archive, _GRAPH_DEF) if header["has_graph_def"] else None
        return _fields(header), content
    except OSError as error:
        raise GraphError(f"the graph file `{name}` can't be read: {error.strerror or error}") from error
    except (*_BROKEN, ValueError, TypeError, AttributeError) as error:
        if isinstance(error, GraphError):
            raise
        raise GraphError(
            f"`{name}` is not a graph file, or it is damaged: {error}",
            hint="a run keeps its graph as `graph.zip` in its run directory",
        ) from error


def _read(archive: zipfile.ZipFile, member: str) -> bytes:
    """Return what a file of the archive holds; a small archive may claim to hold more than the memory does."""
    size_bytes = archive.getinfo(member).file_size
    if size_bytes > _MOST_BYTES:
        raise ValueError(f"its `{member}` has {size_bytes:,} bytes, {_MOST_BYTES:,} are allowed")
    return archive.read(member)


def parse_graph_def(content: bytes | None) -> Any:
    """The GraphDef; imports TensorFlow's protobufs."""
    if content is None:
        return None
    with without_chatter():
        from tensorflow.core.framework import graph_pb2

    return graph_pb2.GraphDef.FromString(content)


def _header(graph: TrainingGraph) -> dict[str, Any]:
    fields = {f.name: getattr(graph, f.name) for f in dataclasses.fields(graph) if f.name != "graph_def"}
    plain = {name: _plain(value) for name, value in fields.items()}
    uses = {name: dataclasses.asdict(use) for name, use in graph.uses.items()}
    has_graph_def = graph.graph_def is not None
    identity = {"scheme": SCHEME, **dataclasses.asdict(graph.identity)}
    about = {"format": _FORMAT, "version": _VERSION, "has_graph_def": has_graph_def, "identity": identity}
    return {**about, **plain, "uses": uses}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    return getattr(value, "value", value)  # a role, by its text


def _check(header: Any, name: str) -> None:
    if not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise ValueError("its header is not that of a training graph")
    version = header.get("version")
    if isinstance(version, int) and version > _VERSION:
        raise GraphError(
            f"`{name}` is a graph file of version {version}, this AutoDist reads up to {_VERSION}",
            hint="it was written by a newer AutoDist: upgrade this one",
        )
    if version not in range(_OLDEST, _VERSION + 1):
        raise ValueError(f"its version is {version!r}")


def _fields(header: dict[str, Any]) -> dict[str, Any]:
    return {
        "variables": tuple(_variable(row) for row in header["variables"]),
        "inputs": tuple(_input(row) for row in header["inputs"]),
        "outputs": tuple(Output(**{**row, "shape": _shape(row["shape"])}) for row in header["outputs"]),
        "effects": tuple(header["effects"]),
        "lines": dict(header["lines"]),
        "batch_size": header["batch_size"],
        "uses": {name: VariableUse(**row) for name, row in header["uses"].items()},
        "identity": _identity(header.get("identity", {})),
    }


def _identity(row: dict[str, Any]) -> Identity | None:
    """None where another version has written the file, and made it in another way: it is made from the content then."""
    known = dict(row)
    return Identity(**known) if known.pop("scheme", None) == SCHEME else None


def _input(row: dict[str, Any]) -> StepInput:
    return StepInput(**{**row, "shape": _shape(row["shape"]), "tiles": tuple(row.get("tiles", ()))})


def _variable(row: dict[str, Any]) -> Variable:
    known = {
        "shape": tuple(row["shape"]),
        "role": Role(row["role"]),
        "gradients": tuple(Gradient(**gradient) for gradient in row["gradients"]),
        "owners": tuple(row["owners"]),
        "coupled": tuple(row["coupled"]),
    }
    return Variable(**{**row, **known})


def _shape(sizes: list[int | None] | None) -> tuple[int | None, ...] | None:
    return None if sizes is None else tuple(sizes)
