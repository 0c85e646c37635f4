"""``Reshape`` in indices: which dims of one shape correspond to which dims of the other."""

from __future__ import annotations

import itertools
from math import prod

from autodist.graph.operators._base import Access, Affine, Expression, Lengths, Signature, Size


def reshaped(signature: Signature) -> Expression | None:
    """Elements keep their order: dims of both shapes with as many elements after them end at the same place.

    The number of elements after each dim, in both shapes, gives the indices: where each divides the next, a dim is one
    index or a row of them, the outermost of which may be cut. One dim may be open, in which case the outermost index
    is.
    """
    before, after = signature.inputs[0], signature.outputs[0]
    if before is None or after is None or before.count(None) > 1 or after.count(None) > 1 or 0 in (*before, *after):
        return None
    if (None in before) != (None in after):
        return None
    if None in before:
        return _open(before, after)
    bounds = sorted({*_behind(before), *_behind(after)})
    if any(b % a for a, b in itertools.pairwise(bounds)):
        bounds = [b for b in bounds if b in _behind(before) and b in _behind(after)]
    return _closed(before, after, bounds)


def _behind(shape: tuple[Size, ...]) -> list[int]:
    """For each dim, and for all of them, how many elements follow it."""
    return [prod(s or 1 for s in shape[d:]) for d in range(len(shape) + 1)]


def _open(before: tuple[Size, ...], after: tuple[Size, ...]) -> Expression | None:
    """Dims before the open one have to be alike."""
    first = before.index(None)
    if before[:first] != after[:first] or after[first] is not None:
        return None
    dims = [(shape, d) for shape in (before, after) for d in range(first, len(shape))]
    bounds = sorted({1, *(prod(s or 1 for s in shape[d + 1 :]) for shape, d in dims)})
    if any(b % a for a, b in itertools.pairwise(bounds)):
        return None
    sizes: dict[str, Size] = {f"l{d}": size for d, size in enumerate(before[:first])}
    indices = _indices(bounds)
    sizes |= {"o": None, **{name: size for name, (size, _) in indices.items()}}
    leading = [Affine.of(f"l{d}") for d in range(first)]
    accesses = []
    for shape in (before, after):
        places = [_place(shape, d, indices) for d in range(first, len(shape))]
        last = prod(s or 1 for s in shape[first + 1 :])
        places[0] = Affine.of("o", bounds[-1] // last) + places[0]
        accesses.append(Access((*leading, *places)))
    return _made(sizes, accesses)


def _indices(bounds: list[int]) -> dict[str, tuple[int, int]]:
    """By name, the size of each index, and how many elements lie after one of its values; the outermost first."""
    pairs = list(itertools.pairwise(bounds))
    return {f"i{k}": (upper // lower, lower) for k, (lower, upper) in reversed(list(enumerate(pairs)))}


def _place(shape: tuple[Size, ...], dim: int, indices: dict[str, tuple[int, int]]) -> Affine:
    behind = prod(s or 1 for s in shape[dim + 1 :])
    size = shape[dim]
    terms = tuple(
        (name, lower // behind)
        for name, (_, lower) in indices.items()
        if lower >= behind and (size is None or lower < behind * size)
    )
    return Affine(terms)


def _closed(before: tuple[Size, ...], after: tuple[Size, ...], bounds: list[int]) -> Expression:
    """For shapes without open dims; dims between common bounds that don't divide each other are taken whole."""
    indices = _indices(bounds)
    sizes: dict[str, Size] = {name: size for name, (size, _) in indices.items()}
    joined: set[str] = set()
    accesses = []
    for side, shape in enumerate((before, after)):
        places: list[Affine | None] = []
        for dim in range(len(shape)):
            behind = prod(s or 1 for s in shape[dim + 1 :])
            if behind in bounds and behind * (shape[dim] or 1) in bounds:
                places.append(_place(shape, dim, indices))
                continue
            joined |= {n for n, (s, low) in indices.items() if low < behind * (shape[dim] or 1) and low * s > behind}
            own = f"x{dim}"
            if side:
                sizes[own] = shape[dim]
                joined.add(own)
            places.append(Affine.of(own) if side else None)
        accesses.append(Access(tuple(places)))
    return _made(sizes, accesses, frozenset(joined))


def _made(sizes: dict[str, Size], accesses: list[Access], joined: frozenset[str] = frozenset()) -> Expression:
    taken, made = accesses
    lengths = Lengths(tuple(place for place in made.dims if place is not None))
    return Expression(sizes, (made,), (taken, lengths), {}, joined)
