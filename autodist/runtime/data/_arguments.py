"""Arguments of a step: which are parts of the batch, which come whole to every replica, which are Python values."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, TypeVar

from autodist.errors import AutoDistError, CaptureError, OtherLengthsError, StrategyError
from autodist.graph import Lengths
from autodist.runtime.data._declared import NOTHING_DECLARED, Declared, Dims, OpenDims
from autodist.runtime.data.composites import Composite, refuse_parts, warn_of_composite

_LOG = logging.getLogger("autodist")
_Step = TypeVar("_Step")


@dataclass(frozen=True)
class Arguments:
    """A call's arguments, taken apart.

    Attributes:
        arrays: The tensor arguments, as NumPy arrays, in flattened order.
        names: What to call each of them in an error.
        static: Everything else, by its position in the flattened arguments.
        structure: ``(args, kwargs)`` with anything in the leaves.
        form: The structure as text, without what is in the leaves.
        parts: Per array, whether it is known to be this worker's part of a batch (True) or no part of one (False);
            None where nothing is known.
        notes: Per array, a hash of the global batch that it comes from, if it came with one.
        split: Per array, whether dim 0 is the batch, to be split over the replicas; else each gets the whole array.
        global_rows: For parts of a batch, how many rows the whole batch has; None where that is not known.
        declared: The shapes that their source declares, with which one device would trace.
        open_dims: Per array, the dims besides the rows that are traced as open; empty if there are none.
        ties: Per open dim, the number of the length that it has, where replicas share the batch: a step is traced again
            where other dims have one length.
        composites: The ragged and sparse arguments, by their positions in the flattened arguments.
        is_global: Whether some are known to be a whole global batch.
        whole: Takes the call's arguments apart without padding of ragged and sparse ones; None if there is none.
    """

    arrays: tuple[Any, ...]
    names: tuple[str, ...]
    static: tuple[tuple[int, Any], ...]
    structure: Any
    form: str
    parts: tuple[bool | None, ...]
    notes: tuple[int | None, ...]
    split: tuple[bool, ...]
    global_rows: int | None = None
    declared: Declared = NOTHING_DECLARED
    open_dims: Dims = ()
    ties: tuple[int, ...] = ()
    composites: tuple[tuple[int, Composite], ...] = ()
    is_global: bool = False
    whole: Callable[[], Arguments] | None = field(default=None, compare=False)

    @property
    def has_open_rows(self) -> bool:
        """Whether tracing for one device would not know either how many rows there are."""
        return self.declared.has_open_rows

    @property
    def is_local(self) -> bool:
        """Whether the arrays hold this worker's part of the global batch only."""
        return True in self.parts

    @property
    def batch(self) -> tuple[Any, ...]:
        """The arrays that are split over the replicas."""
        return tuple(array for array, is_split in zip(self.arrays, self.split, strict=True) if is_split)

    @property
    def large_wholes(self) -> str:
        """The arrays that have rows but are not split, in words."""
        found = zip(self.arrays, self.names, self.split, strict=True)
        return ", ".join(
            dict.fromkeys(
                f"{name} ({len(array)} rows)" for array, name, is_split in found if array.ndim and not is_split
            )
        )

    @property
    def key(self) -> Any:
        """The key that two calls must share to be served by one trace: everything but the batch size and the values."""
        given = zip(self.shapes, self.split, strict=True)
        return self.given, self.split, tuple(shape[0] for shape, is_split in given if shape and not is_split)

    @property
    def given(self) -> Any:
        """The part of :attr:`key` that does not depend on numbers of rows, and on which arrays are split."""
        shapes = tuple(shape[1:] for shape in self.shapes)
        return self.kind, shapes, self.ties, tuple((position, _hashable(value)) for position, value in self.static)

    @property
    def shapes(self) -> tuple[tuple[int | None, ...], ...]:
        """The shape of each array, with None for open dims."""
        shapes: tuple[tuple[int | None, ...], ...] = tuple(array.shape for array in self.arrays)
        if not self.open_dims:
            return shapes
        return tuple(
            tuple(None if dim in dims else size for dim, size in enumerate(shape))
            for shape, dims in zip(shapes, self.open_dims, strict=True)
        )

    @property
    def lengths(self) -> Lengths | None:
        """The sizes of the open dims, where replicas share the batch; None if there are none."""
        return Lengths.of([array.shape for array in self.arrays], self.open_dims) if self.ties else None

    @property
    def kind(self) -> Any:
        """The key of calls whose arrays have the same places, types and ranks."""
        return tuple((a.dtype.str, a.ndim) for a in self.arrays), self.form

    def bind(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function` as a function of the tensors alone."""
        import tensorflow as tf

        static = dict(self.static)
        composites = dict(self.composites)
        count = len(static) + len(self.arrays) - sum(found.num_tensors - 1 for found in composites.values())
        structure = self.structure
        shapes = self.shapes

        @tf.autograph.experimental.do_not_convert
        def rebuild(tensors: Any) -> Any:
            remaining = iter(tensors)

            def leaf(position: int) -> Any:
                composite = composites.get(position)
                if composite is None:
                    return static[position] if position in static else next(remaining)
                # The second tensor tells where the rows of a ragged one begin.
                is_open = None in shapes[composite.first + 1]
                return composite.packed(list(islice(remaining, composite.num_tensors)), any_rows=is_open)

            flat = list(map(leaf, range(count)))
            return tf.nest.pack_sequence_as(structure, flat)

        def step(*tensors: Any) -> Any:
            args, kwargs = rebuild(tensors)
            return function(*args, **kwargs)

        return step

    def specs(self, rows: int | None = None) -> list[Any]:
        """``tf.TensorSpec`` of each array.

        Args:
            rows: How many rows parts of the batch have there; None for as many as the arrays.
        """
        import tensorflow as tf

        shapes = [
            shape if rows is None or not is_split else (rows, *shape[1:])
            for shape, is_split in zip(self.shapes, self.split, strict=True)
        ]
        dtypes = [tf.string if a.dtype.kind == "O" else a.dtype for a in self.arrays]
        return list(map(tf.TensorSpec, shapes, dtypes))


def split_by_rows(arguments: Arguments, before: tuple[bool, ...] | None) -> tuple[bool, ...]:
    """Per array, whether it is a part of the batch: it has the batch's rows.

    The batch is what ``ad.shard`` has marked as its parts. Where nothing is marked, it has as many rows as most of the
    arrays; the first array decides a tie. An array that has the batch's rows in one call only, by
    chance, does not become something else by that: what the first call has found stays.

    Args:
        arguments: Those of a call.
        before: What was found for the first call of this kind; None if this is the first one.
    """
    if before is not None and all(
        is_part is None or is_part is was for is_part, was in zip(arguments.parts, before, strict=True)
    ):
        return before
    candidates = [array for array, is_part in zip(arguments.arrays, arguments.parts, strict=True) if is_part]
    candidates = candidates or [
        array
        for array, is_part in zip(arguments.arrays, arguments.parts, strict=True)
        if array.ndim and is_part is None
    ]
    counts = Counter(len(array) for array in candidates).most_common(1)
    rows = counts[0][0] if counts else None
    return tuple(
        array.ndim > 0 and len(array) == rows if is_part is None else is_part
        for array, is_part in zip(arguments.arrays, arguments.parts, strict=True)
    )


class OneTraceError(CaptureError):
    """A step whose random numbers begin again in each trace, and which is not traced for all lengths at once."""

    def __init__(self, reason: str = "batches of other lengths would have another one") -> None:
        super().__init__(
            f"the step draws random numbers by kernels, which begin again in each trace, and {reason}",
            hint="draw by `keras.layers.Dropout`, `keras.random.SeedGenerator` or `tf.random.Generator`, which keep "
            "their state in variables; or give all batches one shape",
        )


class ArgumentSplits:
    """Which arguments of the calls of a scope are split: those that were in the first call of the kind; and open dims.

    Args:
        num_replicas: Number of replicas that share a batch.
        tells: Whether it warns of batches that are not shared.
    """

    def __init__(self, num_replicas: int, *, tells: bool = False) -> None:
        self.num_replicas = num_replicas
        self._tells = tells
        self._told: set[Any] = set()
        """The arguments that it has warned of."""
        self._not_shared: set[Any] = set()
        """The steps that can't share ragged or sparse batches."""
        self._one_trace: set[Any] = set()
        """Kinds of calls that are traced once, because of their random numbers."""
        self._found: dict[Any, tuple[bool, ...]] = {}
        self._open = OpenDims()
        self._apart: set[Any] = set()
        """Kinds of calls and their lengths that no trace for many lengths serves."""

    def of(self, place: Any, arguments: Arguments) -> Arguments:
        """The arguments with what is split, see :func:`split_by_rows`, and with their open dims.

        Args:
            place: What tells the calls of a step from those of others.
            arguments: Those of a call.
        """
        if arguments.whole is not None and place in self._not_shared:
            arguments = arguments.whole()
        key = (place, arguments.kind)
        before = self._found.get(key)
        found = replace(arguments, split=split_by_rows(arguments, before))
        if found.split != before:
            self._found[key] = found.split
            if self.num_replicas > 1 and any(found.split) and found.large_wholes:
                _LOG.info("every replica gets the whole of %s, and its rows of the rest", found.large_wholes)
            if self.num_replicas > 1 and self._tells:
                self._tell_of_composites(found)
        is_shared = self.num_replicas > 1 and any(found.split)
        if is_shared and found.is_local and found.global_rows is None:
            return found  # workers with parts of their own may have other lengths
        dims = self._open.of((key, found.split), found.declared, found.arrays, found.split)
        if not is_shared:
            return replace(found, open_dims=dims)
        ties, lengths = _ties(found.arrays, dims)
        # A dim of one may stand for one of any size.
        is_apart = 1 in lengths or (key, ties, lengths) in self._apart
        return found if is_apart else replace(found, open_dims=dims, ties=ties)

    def _tell_of_composites(self, arguments: Arguments) -> None:
        for _, composite in arguments.composites[: 0 if arguments.whole is not None else 1]:
            name = arguments.names[composite.first]
            if (composite.kind, name) not in self._told:
                self._told.add((composite.kind, name))
                warn_of_composite(composite.kind, name)

    def traced(self, place: Any, arguments: Arguments, trace: Callable[[Arguments], _Step]) -> tuple[_Step, Arguments]:
        """Trace a call with its open dims, or without them where that is impossible; return its arguments as well.

        Args:
            place: As for :meth:`of`.
            arguments: What that has returned.
            trace: Traces a call, or returns what it was traced to.
        """
        try:
            return self._traced(place, arguments, trace)
        except OneTraceError:
            if (place, arguments.kind) in self._one_trace:
                raise
            self._one_trace.add((place, arguments.kind))
            self._open.open_at_once(((place, arguments.kind), arguments.split))
            return self._traced(place, self.of(place, arguments), trace)
        except (CaptureError, StrategyError) as error:
            if arguments.whole is None:
                raise
            _LOG.info("replicas can't share the ragged or sparse batches of a step: %s", error.message)
        self._not_shared.add(place)
        return self._traced(place, self.of(place, arguments), trace)

    def _traced(self, place: Any, arguments: Arguments, trace: Callable[[Arguments], _Step]) -> tuple[_Step, Arguments]:
        try:
            return trace(arguments), arguments
        except OtherLengthsError as error:
            self._check_traced_once(place, arguments, error)
            self._apart.add(((place, arguments.kind), *_ties(arguments.arrays, arguments.open_dims)))
            arguments = replace(arguments, open_dims=(), ties=())
            return trace(arguments), arguments
        except Exception as error:
            is_of_step = not isinstance(error, AutoDistError) or isinstance(error, CaptureError | StrategyError)
            if not arguments.open_dims or not is_of_step:
                raise
            self._check_traced_once(place, arguments, error)
            reason = getattr(error, "message", f"{type(error).__name__} while it was traced")
            _LOG.info("a step is traced for each shape of its batches, since it can't be for any: %s", reason)
        self._open.close(((place, arguments.kind), arguments.split))
        arguments = replace(arguments, open_dims=(), ties=())
        return trace(arguments), arguments

    def _check_traced_once(self, place: Any, arguments: Arguments, error: Exception) -> None:
        if (place, arguments.kind) in self._one_trace:
            raise OneTraceError(getattr(error, "message", type(error).__name__)) from error

    def check_traced_once(self, place: Any, arguments: Arguments) -> None:
        """Check that a step which draws by kernels is traced once where it is so on one device.

        Args:
            place: As for :meth:`of`.
            arguments: What that has returned.

        Raises:
            OneTraceError: It would be traced again for other lengths; :meth:`traced` traces it for all, if that works.
        """
        is_own = arguments.is_local and arguments.global_rows is None  # one device has other batches then
        may_be_open = any(arguments.declared.open_dims(arguments.arrays, arguments.split))
        if may_be_open and not arguments.open_dims and not is_own:
            raise OneTraceError


def check_is_global(arguments: Arguments, *, local: bool) -> None:
    """Check that all workers have the whole of a batch with ragged or sparse tensors.

    Args:
        arguments: Those of a call.
        local: Whether each worker brings its own part.

    Raises:
        UsageError: They do.
    """
    if local and arguments.composites:
        composite = arguments.composites[0][1]
        refuse_parts(composite.kind, arguments.names[composite.first])


def _ties(arrays: Sequence[Any], open_dims: Dims) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Per open dim, the number of its length among those of all, by order of appearance; and these lengths."""
    sizes = [array.shape[dim] for array, dims in zip(arrays, open_dims, strict=False) for dim in dims]
    lengths = tuple(dict.fromkeys(sizes))
    return tuple(map(lengths.index, sizes)), lengths


def _hashable(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return _Identity(value)
    # 1, 1.0 and True are equal, but not to a tracing.
    return type(value), value


class _Identity:
    """Stands for an object without a hash, and keeps it alive so that no other takes its place."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self._value is other._value

    def __hash__(self) -> int:
        return id(self._value)
