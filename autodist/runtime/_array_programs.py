"""Functions of arrays: replicas have parts of the arguments, and share the work tensor by tensor.

Every worker calls them with the same arrays, and has the whole result. No argument has to be a batch: a search chooses
the dims that are cut.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from autodist.coordination import Worker
from autodist.cost.operations import work_s
from autodist.errors import CaptureError, UsageError
from autodist.graph import loop_segments
from autodist.graph.layouts import NoPlanError, cut_arguments
from autodist.runtime._arguments_told import bytes_of, cuts_of
from autodist.runtime._compile import Compiler
from autodist.runtime._execution import Execution
from autodist.runtime._looped_programs import Dims, LoopedProgram
from autodist.runtime._plain import PlainSteps
from autodist.runtime.data import Arguments, Convention, flatten, has_parts

_LOG = logging.getLogger("autodist")
_COST_OF_A_CALL_S = 2e-3
"""The cost of a turn of a loop as a program of its own."""


class ArrayPrograms:
    """Runs the functions of arrays of a scope.

    Args:
        worker: This process.
        execution: Runs compiled steps.
        plain: Runs functions that can't be shared.
        compiler: Returns the current compiler.
        convention: What workers bring.
        num_replicas: Number of replicas.
        ends_anywhere: Whether any worker says that a loop ends, given what this one says, and where it is in words.
    """

    def __init__(
        self,
        worker: Worker,
        execution: Execution,
        plain: PlainSteps,
        compiler: Callable[[], Compiler],
        convention: Convention,
        num_replicas: int,
        ends_anywhere: Callable[[bool, str], bool],
    ) -> None:
        self._num_replicas = num_replicas
        self._worker = worker
        self._execution = execution
        self._plain = plain
        self._compiler = compiler
        self._convention = convention
        self._whole: set[Any] = set()
        self._ends_anywhere = ends_anywhere
        self._looped: dict[Any, LoopedProgram] = {}
        """Per kind of call, a program with a loop whose turns depend on data."""
        self._aside: set[Callable[..., Any]] = set()
        """Segments of programs with loops; of turns something is said only if they are shared in the end."""
        self._unsaid: dict[Any, str] = {}

    def run(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        plain: Callable[[], Any],
        dims: Dims | None = None,
    ) -> Any:
        """Run a function of arrays; traces it when it is new, or for arguments of other shapes.

        Args:
            function: The function.
            args: Its arguments, the same on all workers.
            kwargs: Its keywords.
            plain: Calls it as TensorFlow does without a scope.
            dims: Per array among its arguments, the dim that is cut, None for whole; None to find out.

        Raises:
            UsageError: The workers have different arrays, or parts of them, or the arrays have no such dims.
        """
        import tensorflow as tf

        if self._num_replicas == 1 or not tf.executing_eagerly():
            return self._plain.run(plain)
        self._check(function, args, kwargs)
        arguments = flatten(args, kwargs, _readable(function))
        if arguments.composites:
            raise UsageError(
                f"`{_name(function)}` is a function of arrays, and is given a {arguments.composites[0][1].kind}",
                hint="give it dense arrays: `x.to_tensor()`, `tf.sparse.to_dense(x)`",
            )
        arguments = replace(arguments, split=(False,) * len(arguments.arrays))
        key = self.key_of(function, arguments, dims)
        if key not in self._whole and key not in self._looped and key not in self._execution.steps:
            self._execution.settle()
            self._bring_in(key, function, arguments, dims, may_split=True)
        if not self._execution.is_settled:
            self._execution.settle()
        if key in self._looped:
            found = self._looped[key].run(arguments.arrays, dims)
            if found is not None:
                return found[0]
            del self._looped[key]
            self._bring_in(key, function, arguments, dims, may_split=False)
        if key in self._whole:
            return self._plain.run(plain)
        step = self._execution.steps[key]
        return step.result(self._execution.run(step, arguments, local=False))

    def _check(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if has_parts(args, kwargs) or self._convention.batch == "local":
            raise UsageError(
                f"`{_name(function)}` is a function of arrays, and is given this worker's part of them",
                hint="give it whole arrays, the same on all workers; AutoDist cuts them. Parts of batches, of "
                "`ad.shard` or with `batch='local'`, are for steps without `arrays=True`",
            )

    def _bring_in(
        self, key: Any, function: Callable[..., Any], arguments: Arguments, dims: Dims | None, *, may_split: bool
    ) -> None:
        """Compile a function, or have it run whole and say why; or split it at a loop, and say nothing yet."""
        compiler, name = self._compiler(), _name(function)
        try:
            captured, loops = compiler.capture_arrays(function, arguments)
            strategy = compiler.strategy_of_arrays(captured)
            parts = len(strategy.graph.replicas)
            if dims is not None:
                _check_dims(name, arguments, dims, parts)
            cuts = cut_arguments(captured.graph, parts, self._worker.world_size, dims)
        except (CaptureError, NoPlanError) as error:
            self._run_whole(key, name, f"it can't be shared: {getattr(error, 'message', error)}")
            return
        segments = loop_segments(captured.graph, name, arguments.names) if loops and may_split else None
        if segments is not None:
            self._looped[key] = LoopedProgram(captured, segments, self, self._ends_anywhere)
            self._aside |= {segments.before, segments.turn, segments.behind}
            return
        if cuts is None:
            self._run_whole(key, name, _nothing_to_cut(arguments, parts))
            return
        captured = replace(captured, graph=captured.graph.with_tiles(cuts.dims))
        self._tell(key, name, cuts_of(arguments, cuts), bytes_of(cuts), loops)
        self._execution.steps[key] = compiler.compile_arrays(captured, strategy, arguments)

    def key_of(self, function: Callable[..., Any], arguments: Arguments, dims: Dims | None) -> Any:
        """The key that calls share which run in the same way."""
        return "arrays", function, arguments.key, dims

    def run_segment(self, segment: Callable[..., Any], arrays: Sequence[Any], dims: Dims | None, whole: Any) -> Any:
        """Run a segment of a program with a loop, by `whole` if replicas can't share it."""
        import tensorflow as tf

        return self.run(segment, tuple(arrays), {}, lambda: whole(*map(tf.constant, arrays)), dims)

    def pays(self, segment: Callable[..., Any], arrays: Sequence[Any], dims: Dims | None) -> bool:
        """Whether replicas share a turn of a loop that was run before, and save more than a call of its own costs."""
        arguments = flatten(tuple(arrays), {}, _readable(segment))
        key = self.key_of(segment, replace(arguments, split=(False,) * len(arrays)), dims)
        if key in self._looped:
            return True  # turns of the loop in it have paid
        step = self._execution.steps.get(key)
        if step is None:
            return False
        pays = (1 - 1 / self._num_replicas) * work_s(step.captured.graph, 1) > _COST_OF_A_CALL_S
        if pays and key in self._unsaid:
            _LOG.info("%s", self._unsaid.pop(key))
        return pays

    def _run_whole(self, key: Any, name: str, reason: str) -> None:
        self._whole.add(key)
        if self._worker.is_chief and key[1] not in self._aside:
            _LOG.info("`%s` runs whole on every worker: %s", name, reason)

    def _tell(self, key: Any, name: str, cut: str, sent: str, loops: tuple[str, ...]) -> None:
        if not self._worker.is_chief:
            return
        told = f"`{name}`: replicas have parts of {cut}; {sent}"
        if key[1] in self._aside:
            self._unsaid[key] = told
            return
        _LOG.info("%s", told)
        if loops:
            _LOG.info("`%s`: data say how often %s turns, so each replica computes it whole", name, ", ".join(loops))


def _nothing_to_cut(arguments: Arguments, parts: int) -> str:
    """Why a function runs whole."""
    if not arguments.arrays:
        return "it takes no arrays; give it as arguments what is to be cut"
    listed = ", ".join(
        f"{name} of shape {tuple(array.shape)}" for name, array in zip(arguments.names, arguments.arrays, strict=True)
    )
    return (
        f"{parts} replicas can't share it, or would send more than they save: a large argument needs a dim of at least "
        f"{parts}, and an operation that can be cut along it; and results, which all replicas get whole, should be "
        f"smaller than what is computed for them; given: {listed}"
    )


def _check_dims(name: str, arguments: Arguments, dims: Dims, parts: int) -> None:
    """Refuse dims that arguments don't have.

    Raises:
        UsageError: Lists all mistakes.
    """
    shapes = [tuple(array.shape) for array in arguments.arrays]
    mistakes = []
    if len(dims) != len(shapes):
        mistakes.append(f"{len(dims)} entries, allowed: {len(shapes)}, one for each array")
    for argument, shape, dim in zip(arguments.names, shapes, dims, strict=False):
        fitting = [d for d, size in enumerate(shape) if size >= parts]
        if dim is not None and dim not in fitting:
            listed = " or ".join(map(str, [*fitting, None]))
            mistakes.append(f"{dim} for {argument} of shape {shape}, allowed: {listed}, for {parts} replicas")
    if mistakes:
        raise UsageError(
            f"`arrays={tuple(dims)}` of `{name}` has {'; '.join(mistakes)}",
            hint="say per array the dim that is cut, None for whole, or `arrays=True` to have them found",
        )


def _readable(function: Callable[..., Any]) -> Callable[[tuple[Any, ...]], str]:
    """Names arguments by their paths, as the function's signature does."""
    parameters = list(inspect.signature(function).parameters.values())
    several = [k for k, one in enumerate(parameters) if one.kind is inspect.Parameter.VAR_POSITIONAL]
    named = [one.name for one in parameters[: several[0] if several else None]]

    def readable(path: tuple[Any, ...]) -> str:
        head, place, *rest = path
        is_named = head == 0 and place < len(named)
        name = named[place] if is_named else f"argument {place}" if head == 0 else place
        return f"`{name}{''.join(f'[{key!r}]' for key in rest)}`"

    return readable


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", function))
