"""A script's `keras.distribution`: Keras on TensorFlow accepts it and does nothing."""

from __future__ import annotations

import contextlib
import glob
import logging
import re
import sys
from collections.abc import Collection, Iterable, Iterator
from math import prod
from typing import Any

from autodist.errors import StrategyError
from autodist.fitting_names import unnumbered
from autodist.garbage import objects_of
from autodist.graph import TrainingGraph
from autodist.resource_spec import ResourceSpec

_LOG = logging.getLogger("autodist")
_LEFT: list[tuple[Any, frozenset[str]]] = []
"""Distributions whose scopes were left, the last first, and the paths of the variables that were made inside."""
_MOST_NAMES = 6
_MOST_OTHERS = 2
_HINTS = {
    "DataParallel": "make the mesh of `keras.distribution.list_devices()`; or leave out `set_distribution()` or scope",
    "ModelParallel": "mend the mesh or the LayoutMap; or leave out `set_distribution()` or scope, and run with "
    "`--strategy Tiled`",
}


def has_layouts(graph: TrainingGraph) -> bool:
    """Whether the script says by a ``ModelParallel`` which strategy a step has."""
    keras = sys.modules.get("keras")
    return keras is not None and isinstance(_distribution_for(keras, graph)[0], keras.distribution.ModelParallel)


def tiling_of_keras(graph: TrainingGraph, spec: ResourceSpec) -> str | None:
    """The strategy that the script's ``ModelParallel`` means; None if it has set none, or ``DataParallel``.

    It is the one in whose ``scope()`` variables of the step were made, for these alone, or else the one that is set.

    Which of its layouts fit only variables that the step does not train, or outputs of layers, is logged. Those of
    variables of other models are for the steps that train these.

    Raises:
        StrategyError: The mesh is not that of the cluster's replicas, or the layouts name nothing; lists all of it.
    """
    keras = sys.modules.get("keras")
    found, made = (None, None) if keras is None else _distribution_for(keras, graph)
    if keras is None or not isinstance(found, (keras.distribution.DataParallel, keras.distribution.ModelParallel)):
        return None
    mesh = found.device_mesh
    lengths = dict(zip(mesh.axis_names, mesh.shape, strict=True))
    if isinstance(found, keras.distribution.DataParallel):
        _raise("DataParallel", list(_of_size(lengths, spec)))
        return None
    # Keras knows no numbers: a layout is for all variables of a name.
    paths = {variable.name: unnumbered(variable.name) for variable in graph.variables}
    trainable = [v for v in graph.trainable if made is None or paths[v.name] in made]
    names, batch = _unique(paths[variable.name] for variable in trainable), found.batch_dim_name
    layouts = {key: found._layout_map[key] for key in found._layout_map}
    idle = _idle(list(layouts), names, _unique(paths.values()))
    known = {*idle, *_of_other_models(list(layouts), [*names, *idle])}
    mistakes = [*_of_mesh(lengths, batch, spec), *_of_layouts(list(layouts), names, known)]
    if not mistakes:
        shapes = {v.name: (v.shape, found._layout_map[paths[v.name]]) for v in trainable}
        mistakes = [
            *_along_the_batch(layouts, lengths, batch),
            *_cut_twice(layouts, lengths),
            *_of_shapes(shapes, lengths),
        ]
    _raise("ModelParallel", mistakes)
    if not layouts:
        _LOG.info("the script's LayoutMap is empty: all weights stay whole")
    for key, fitting in idle.items():
        _LOG.info("the LayoutMap's %r changes nothing: it fits only %s", key, fitting)
    cuts = {v.name: _cut_dims(found._layout_map[paths[v.name]], lengths) for v in trainable}
    rules = [f"{glob.escape(name)}={dim}" for name, dims in cuts.items() for dim in dims]
    groups = lengths[batch] if len(_long(lengths)) > 1 else 1
    return f"Tiled(dims={(*rules, '*=whole')!r}{f', groups={groups}' if groups > 1 else ''})"


def _distribution_for(keras: Any, graph: TrainingGraph) -> tuple[Any, frozenset[str] | None]:
    """The distribution for a step, and the paths of the variables that it is for; None for all."""
    paths = {unnumbered(variable.name) for variable in graph.trainable}
    left = next(((found, made) for found, made in _LEFT if not made.isdisjoint(paths)), None)
    return left or (keras.distribution.distribution(), None)


@contextlib.contextmanager
def remembering(distribution: Any, kind: type) -> Iterator[None]:
    """Remember which variables are made inside of a distribution's ``scope()``: they have its layouts.

    Args:
        distribution: This.
        kind: The class of variables.
    """
    old = objects_of(kind)  # held, so that no new one has the identity of one that is gone
    before = {id(variable) for variable in old}
    try:
        yield
    finally:
        made = frozenset(v.path for v in objects_of(kind) if id(v) not in before)
        _LEFT[:] = [(distribution, made), *((one, paths - made) for one, paths in _LEFT)]


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _raise(kind: str, mistakes: list[str]) -> None:
    if mistakes:
        text = f"the script's `keras.distribution.{kind}` can't be followed: {'; '.join(mistakes)}"
        raise StrategyError(text, hint=_HINTS[kind])


def _long(lengths: dict[str, int]) -> list[str]:
    """The axes that are longer than 1."""
    return [axis for axis, length in lengths.items() if length > 1]


def _of_mesh(lengths: dict[str, int], batch: str, spec: ResourceSpec) -> Iterator[str]:
    yield from _of_size(lengths, spec)
    if batch not in lengths:
        yield f"`batch_dim_name` is {batch!r}, allowed: one of its mesh's axes, {', '.join(map(repr, lengths))}"
        return
    long = _long(lengths)
    told = " and ".join(f"`{axis}` of {lengths[axis]}" for axis in long)
    if len(long) > 2 or (len(long) == 2 and long[0] != batch):
        yield (
            f"its mesh has the axes {told}, allowed: one axis longer than 1, or two, of which the first is that of the "
            f"batch, `{batch}`"
        )


def _of_size(lengths: dict[str, int], spec: ResourceSpec) -> Iterator[str]:
    replicas, shape = len(spec.replicas), tuple(lengths.values())
    if prod(shape) != replicas:
        yield f"its mesh is {shape}, the cluster has {replicas} replicas, as `keras.distribution.list_devices()` says"


def _along_the_batch(layouts: dict[str, Any], lengths: dict[str, int], batch: str) -> Iterator[str]:
    """Weights that are cut along the batch's axis, which a mesh of two axes does not allow."""
    for key, layout in layouts.items() if len(_long(lengths)) > 1 else ():
        if layout is not None and batch in layout.axes:
            without = tuple(None if axis == batch else axis for axis in layout.axes)
            yield (
                f"its LayoutMap cuts {key!r} along `{batch}`, the axis of the batch, allowed: {without}, since each "
                "group of replicas has all parts of a weight"
            )


def _cut_twice(layouts: dict[str, Any], lengths: dict[str, int]) -> Iterator[str]:
    """Weights of which one axis cuts several dims."""
    for key, layout in layouts.items():
        axes = [axis for axis in (() if layout is None else layout.axes) if axis is not None and lengths[axis] > 1]
        for axis in sorted({axis for axis in axes if axes.count(axis) > 1}):
            yield f"its LayoutMap cuts {axes.count(axis)} dims of {key!r} along `{axis}`, allowed: one"


def _of_shapes(shapes: dict[str, tuple[tuple[int, ...], Any]], lengths: dict[str, int]) -> Iterator[str]:
    """Weights that have no such dims, or too short ones."""
    for name, (shape, layout) in shapes.items():
        axes = () if layout is None else layout.axes
        if len(axes) > len(shape):
            yield f"its LayoutMap has {axes} for `{name}`, allowed: {len(shape)} or fewer, for its shape {shape}"
            continue
        for dim, axis in enumerate(axes):
            if axis is not None and shape[dim] < lengths[axis]:
                yield (
                    f"its LayoutMap cuts dim {dim} of `{name}`, of shape {shape}, along `{axis}` of {lengths[axis]}, "
                    f"allowed: a dim of at least {lengths[axis]} elements"
                )


def _idle(keys: list[str], trained: list[str], names: list[str]) -> dict[str, str]:
    """By key that fits no trained variable, what it fits instead: other variables of the step, or outputs of layers."""
    outputs = [f"{layer}/output" for layer in dict.fromkeys(name.rpartition("/")[0] for name in names)]
    found = {}
    for key in keys:
        if any(re.fullmatch(key, name) for name in trained):
            continue
        others = [name for name in names if re.fullmatch(key, name)]
        some = " and ".join(f"`{name}`" for name in others[:_MOST_OTHERS])
        if others:
            more = f" and {len(others) - _MOST_OTHERS} more" if len(others) > _MOST_OTHERS else ""
            found[key] = f"{some}{more}, which this step does not train"
        elif any(re.fullmatch(key, output) for output in outputs):
            found[key] = "outputs of layers, which lie as the weights make them"
    return found


def _of_other_models(keys: list[str], names: list[str]) -> list[str]:
    """The keys that fit none of these names but another variable of the program.

    Such as one of a discriminator, while the generator's step is compiled. Nobody lists all models that a program has
    made, so its objects are searched, and only for keys that would be mistakes.
    """
    missing = [key for key in keys if not any(key == name or re.fullmatch(key, name) for name in names)]
    paths = {variable.path for variable in objects_of(sys.modules["keras"].Variable)} if missing else set()
    return [key for key in missing if any(re.fullmatch(key, path) for path in paths)]


def _of_layouts(keys: list[str], names: list[str], idle: Collection[str]) -> Iterator[str]:
    fitting = {name: [key for key in keys if re.fullmatch(key, name)] for name in names}
    known = ", ".join(names[:_MOST_NAMES])
    missing = [key for key in keys if key not in idle and not any(key in found for found in fitting.values())]
    if missing:
        what = "is the name" if len(missing) == 1 else "are names"
        whole = (f".*{key}{end}" for key in missing for end in ("", ".*"))
        meant = next((key for key in whole if any(re.fullmatch(key, name) for name in names)), None)
        way_on = "" if meant is None else f"; a key is a pattern of a whole name, such as {meant!r}"
        keys_text = ", ".join(map(repr, missing))
        yield f"its LayoutMap has {keys_text}, which {what} of no variable of the step, such as {known}{way_on}"
    for name, found in fitting.items():
        if len(found) > 1 and name not in found:  # a pattern that is the whole name overrides others
            yield f"its LayoutMap has {' and '.join(map(repr, found))} for `{name}`, allowed: one"


def _cut_dims(layout: Any, lengths: dict[str, int]) -> list[int]:
    """The first dim that a layout cuts along an axis that is longer than 1; none if there is no such dim."""
    axes = () if layout is None else layout.axes
    return [dim for dim, axis in enumerate(axes) if axis is not None and lengths[axis] > 1][:1]
