"""Lookup tables of the program, made once more in the step's own graph.

A resource of one runtime can't be used in the session of another, but a table's contents can be read. So a table
becomes constants, a table, and a node that fills it; the rest of the step finds it under the name by which it was
captured. As part of the graph it goes wherever the graph goes: to every session, into files, into the graph's identity.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from autodist.errors import CaptureError
from autodist.graph._attribute_patches import Patches
from autodist.graph._nodes import NodeList
from autodist.graph.operators import Handle, meaning

_TYPES = (("Tin", "Tout"), ("Tkeys", "Tvalues"))
"""The attributes for a table's key and value types, in operators that read it."""
_KIND = "tensorflow::lookup::LookupInterface"
"""TensorFlow's type name of the resource behind a table's handle."""


@contextlib.contextmanager
def lookups_with_shapes() -> Iterator[None]:
    """Let look-ups inside, in tables that can change, have the shape of the keys.

    TensorFlow infers it only for tables that can't change; without it, the batch dim of the nodes that follow is
    unknown.
    """
    from tensorflow.python.ops import lookup_ops

    with Patches() as patches:
        for table in (lookup_ops.DenseHashTable, lookup_ops.MutableHashTable):
            patches.replace(table, "lookup", _with_shape)
        yield


def _with_shape(original: Any) -> Any:
    import tensorflow as tf

    def lookup(table: Any, keys: Any, *args: Any, **kwargs: Any) -> Any:
        found = original(table, keys, *args, **kwargs)
        is_scalar = table._value_shape.rank == 0 and np.ndim(getattr(table, "_empty_key", 0)) == 0
        if is_scalar and isinstance(found, tf.Tensor) and tf.is_tensor(keys):
            found.set_shape(keys.shape)
        return found

    return lookup


@dataclass(frozen=True)
class Table:
    """A lookup table that a step reads.

    Attributes:
        handle: The program's own.
        keys: Its keys, sorted.
        values: The value of each.
        can_change: Whether the program may change it.
    """

    handle: Any
    keys: np.ndarray
    values: np.ndarray
    can_change: bool

    @property
    def digest(self) -> str:
        """A hash of its contents."""
        known = hashlib.blake2b(digest_size=16)
        for array in (self.keys, self.values):
            known.update(f"{array.dtype.kind} {array.shape}".encode())
            known.update(repr(array.tolist()).encode() if array.dtype.hasobject else array.tobytes())
        return known.hexdigest()

    @property
    def is_as_captured(self) -> bool:
        """Whether its contents are those at the time of the capture."""
        if not self.can_change:
            return True
        return _contents(self.handle, _dtype(self.keys), _dtype(self.values), can_change=True).digest == self.digest


def read_table(handle: Any, placeholder: Any, graph_def: Any) -> Table | None:
    """The table behind an eager resource; None if it is not a table, or if nothing looks keys up in it.

    Args:
        handle: The resource.
        placeholder: The placeholder that represents it in the tracing.
        graph_def: The step that uses it.
    """
    import tensorflow as tf

    if _KIND not in repr(handle):
        return None
    nearest = _types(consumer.node_def for consumer in placeholder.consumers())
    for types in dict.fromkeys((*nearest, *sorted(set(_types(_all_nodes(graph_def)))))):
        try:
            return _contents(handle, *types, can_change=_can_change(handle))
        except (tf.errors.InvalidArgumentError, tf.errors.NotFoundError):
            continue  # another table's types
    return None


def refuse_changes(graph_def: Any, line_of: Callable[[str], str]) -> None:
    """Refuse a step that changes a lookup table.

    Raises:
        CaptureError: It does.
    """
    for node in _all_nodes(graph_def):
        if meaning(node.op).table is Handle.WRITES:
            raise CaptureError(
                f"the step changes a lookup table: op `{node.name}` ({node.op}) at {line_of(node.name)}",
                hint="each replica would change a table of its own: fill it before the first step, or in "
                "`dataset.map`; what changes in a step is kept in a `tf.Variable`",
            )


def embed_tables(graph_def: Any, tables: Mapping[str, Table]) -> tuple[str, ...]:
    """Put tables into a flat graph instead of the placeholders by which they were captured.

    Returns:
        The nodes that fill them, which must run in every step: once filled, a table only finds that it is.
    """
    return tuple(_embed(graph_def, name, table) for name, table in tables.items())


def _embed(graph_def: Any, name: str, table: Table) -> str:
    import tensorflow as tf

    types = {"key_dtype": _dtype(table.keys), "value_dtype": _dtype(table.values)}
    nodes = NodeList()
    keys = nodes.constant(f"{name}/keys", table.keys, types["key_dtype"])
    values = nodes.constant(f"{name}/values", table.values, types["value_dtype"])
    made = nodes.add("HashTableV2", f"{name}/table", shared_name=f"table_{table.digest}", **types)
    nodes.add(
        "InitializeTableV2", f"{name}/fill", [made, keys, values], Tkey=types["key_dtype"], Tval=types["value_dtype"]
    )
    [here] = [node for node in graph_def.node if node.name == name]
    here.op = "Identity"
    here.input.extend([made, f"^{name}/fill"])
    here.attr.clear()
    here.attr["T"].type = tf.resource.as_datatype_enum
    here.attr["_output_shapes"].list.shape.add()
    graph_def.node.extend(nodes.nodes)
    return f"{name}/fill"


def _all_nodes(graph_def: Any) -> Iterator[Any]:
    yield from graph_def.node
    for function in graph_def.library.function:
        yield from function.node_def


def _types(nodes: Iterable[Any]) -> Iterator[tuple[str, str]]:
    """Kinds of the tables that nodes read."""
    import tensorflow as tf

    for node in nodes:
        for names in _TYPES if meaning(node.op).table is Handle.READS else ():
            if all(name in node.attr for name in names):
                key_type, value_type = (tf.as_dtype(node.attr[name].type).name for name in names)
                yield key_type, value_type


def _contents(handle: Any, key_type: str, value_type: str, *, can_change: bool) -> Table:
    import tensorflow as tf

    with tf.init_scope():
        found = tf.raw_ops.LookupTableExportV2(table_handle=handle, Tkeys=key_type, Tvalues=value_type)
        keys, values = (_single(tensor.numpy()) for tensor in found)
    if values.ndim > 1:
        raise CaptureError(
            f"the step looks up values of {values.ndim - 1} dims in a lookup table, those that it may use are single",
            hint="look row numbers up in the table, and the rows in a `tf.Variable` by `tf.gather`",
        )
    # A hash table has its own order in each process, and a dense one gives its empty places as well.
    _, first, count = np.unique(keys, return_index=True, return_counts=True)
    order = first[count == 1]
    return Table(handle, keys[order], values[order], can_change)


def _can_change(handle: Any) -> bool:
    """Whether there is an object of the program by which it can change the table."""
    import tensorflow as tf

    kinds = (tf.lookup.experimental.MutableHashTable, tf.lookup.experimental.DenseHashTable)
    tables = [table for table in gc.get_objects() if issubclass(type(table), kinds)]
    return any(table.resource_handle is handle for table in tables)


def _single(array: np.ndarray) -> np.ndarray:
    """A table's keys or values: a dense hash table gives scalar ones as vectors of length 1."""
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


def _dtype(array: np.ndarray) -> str:
    return "string" if array.dtype.hasobject else str(array.dtype)
