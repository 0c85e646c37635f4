"""Taking a call's arguments apart: arrays, and what Python alone knows of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from autodist.runtime.data._arguments import Arguments
from autodist.runtime.data._batch import GlobalArray, LocalArray, WholeArray
from autodist.runtime.data._declared import NOTHING_DECLARED, Declared
from autodist.runtime.data.composites import (
    Composite,
    can_be_padded,
    form_of,
    is_composite,
    refuse_index_slices,
    refuse_parts,
    taken_apart,
)

_OF_KERAS = ("x", "y", "sample_weight")
_Path = tuple[Any, ...]
"""Indices and keys that lead to an argument."""


def flatten(
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    readable: Callable[[_Path], str] | None = None,
    *,
    declared: Declared = NOTHING_DECLARED,
    pads: bool = False,
) -> Arguments:
    """Take a call's arguments apart.

    Args:
        args: Those by position.
        kwargs: Those by name.
        readable: What to call an argument by its path in them.
        declared: See :class:`Arguments`.
        pads: Whether ragged and sparse arguments become dense ones with padding, for replicas to share, if all can.
    """
    from tensorflow.python.util import nest

    structure = (args, kwargs)
    readable = _readable if readable is None else readable
    leaves = nest.flatten_with_tuple_paths(structure)
    pads = pads and all(can_be_padded(leaf) for _, leaf in leaves if is_composite(leaf))
    found = _Found([], [], [], [], [], set(), [], set())
    for position, (path, leaf) in enumerate(leaves):
        found.add(position, leaf, readable(path), pads=pads)
    composites = tuple(composite for _, composite in found.composites)
    is_padded = pads and bool(composites)
    parts = tuple(found.parts)
    if True in parts:  # what has as many rows as a part has that by chance
        parts = tuple(False if k in found.are_global else part for k, part in enumerate(parts))
    if composites and True in parts:
        refuse_parts(composites[0].kind, f"{found.names[composites[0].first]} next to {found.names[parts.index(True)]}")
    return Arguments(
        tuple(found.arrays),
        tuple(found.names),
        tuple(found.static),
        structure,
        _form(structure),
        tuple(False for _ in parts) if composites and not is_padded else parts,
        tuple(found.notes),
        tuple(array.ndim > 0 for array in found.arrays),
        global_rows=found.rows.pop() if len(found.rows) == 1 else None,
        declared=_declared(found, declared),
        composites=tuple(found.composites),
        is_global=bool(found.are_global),
        whole=partial(flatten, args, kwargs, readable, declared=declared) if is_padded else None,
    )


@dataclass(frozen=True)
class _Found:
    """The parts of a call's arguments found so far, as the attributes of :class:`Arguments` say."""

    arrays: list[Any]
    names: list[str]
    static: list[tuple[int, Any]]
    parts: list[bool | None]
    notes: list[int | None]
    rows: set[int | None]
    composites: list[tuple[int, Composite]]
    are_global: set[int]

    def add(self, position: int, leaf: Any, name: str, *, pads: bool) -> None:
        if is_composite(leaf):
            composite, arrays = taken_apart(leaf, len(self.arrays), pads=pads)
            self.composites.append((position, composite))
        else:
            array = _as_array(leaf)
            if array is None:
                refuse_index_slices(leaf, name)
                self.static.append((position, leaf))
                return
            arrays = [array]
            self.are_global.update({len(self.arrays)} if isinstance(leaf, GlobalArray) else ())
        self.notes.extend(leaf.note if isinstance(leaf, LocalArray | WholeArray) else None for _ in arrays)
        self.rows.update({leaf.rows} if isinstance(leaf, LocalArray) else ())
        self.parts.extend(_part(array if len(arrays) > 1 else leaf, array) for array in arrays)
        self.arrays.extend(arrays)
        self.names.extend(name for _ in arrays)


def _declared(found: _Found, declared: Declared) -> Declared:
    """Add to a declaration that ragged and sparse arguments have any sizes, as they have on one device."""
    if not found.composites:
        return declared
    shapes: list[Any] = [array.shape for array in found.arrays]
    if len(declared.shapes) <= len(shapes):
        shapes[: len(declared.shapes)] = declared.shapes
    any_rows = declared.has_open_rows
    for _, composite in found.composites:
        known = composite.declared(any_rows=any_rows)
        shapes[composite.first : composite.first + len(known)] = known
    at_once = declared.at_once or not all(composite.is_padded for _, composite in found.composites)
    return replace(declared, shapes=tuple(shapes), at_once=at_once, rows_are_open=any_rows)


def flatten_batch(batch: Any, *, declared: Declared = NOTHING_DECLARED, pads: bool = False) -> Arguments:
    """Take apart what a step of Keras gets: `x`, `y` and `sample_weight`, or what the dataset has in their place.

    Args:
        batch: The step's only argument.
        declared: See :class:`Arguments`.
        pads: As for :func:`flatten`.
    """

    def readable(path: _Path) -> str:
        keys = path[2:]
        name = "data"
        if isinstance(batch, tuple) and len(batch) <= len(_OF_KERAS) and isinstance(keys[0], int):
            name, keys = _OF_KERAS[keys[0]], keys[1:]
        elif not keys:
            name = "x"
        return f"`{name}{''.join(f'[{key!r}]' for key in keys)}`"

    return flatten((batch,), {}, readable, declared=declared, pads=pads)


def _form(structure: Any) -> str:
    """A structure as text; handles the usual containers itself to be fast, since every call asks for it."""
    import tensorflow as tf

    if not tf.nest.is_nested(structure):
        return form_of(structure) if is_composite(structure) else "0"
    if type(structure) is tuple:
        return f"({','.join(map(_form, structure))},)"
    if type(structure) is list:
        return f"[{','.join(map(_form, structure))}]"
    if type(structure) is dict:
        return f"{{{','.join(f'{key!r}:{_form(value)}' for key, value in structure.items())}}}"
    return repr(tf.nest.map_structure(lambda leaf: _form(leaf) if is_composite(leaf) else 0, structure))


def _part(leaf: Any, array: np.ndarray) -> bool | None:
    """Whether a leaf is known to be a part of a batch; one without rows is not."""
    if not array.ndim or isinstance(leaf, WholeArray):
        return False
    return True if isinstance(leaf, LocalArray) else None


def _as_array(leaf: Any) -> Any:
    import tensorflow as tf

    if isinstance(leaf, np.ndarray | np.generic):
        return np.asarray(leaf)
    if isinstance(leaf, tf.Tensor) and hasattr(leaf, "_numpy"):
        return np.asarray(leaf._numpy())  # `numpy()` would copy
    return None


def _readable(path: _Path) -> str:
    head, *rest = path
    kind = "argument" if head == 0 else "keyword"
    return f"{kind} {'/'.join(map(str, rest))}"
