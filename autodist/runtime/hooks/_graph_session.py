"""TensorFlow 1 style: a graph that is built first and then run by ``session.run(fetches, feed_dict)``.

What a call of ``run`` fetches becomes a function of what it feeds: the part of the graph behind the fetches, imported
into a tracing, with an eager variable in place of every variable of the graph. A function that has a gradient behind
its fetches is a training step and goes through the same kernels as all others; every other one runs on each worker.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autodist.errors import UsageError
from autodist.graph import MARK, SOURCE_GRAPH, TARGET, Patches, adopt_marks, node_of, strip_missing_colocation
from autodist.runtime._engine import Engine
from autodist.runtime._reference import ReferenceEngine
from autodist.runtime.data import WholeArray
from autodist.runtime.hooks._graph_parts import consumed, drawn_tensors, for_this_worker, needed_for, refuse_queues

_LOG = logging.getLogger("autodist")


@dataclass(frozen=True)
class _Program:
    """The work of a call of ``run`` with certain fetches and feeds.

    Attributes:
        function: Takes what is fed, then what is drawn from iterators.
        trains: Whether it is a training step.
        drawn: Tensors of iterators in the graph, such as the batch of a training step that is not fed.
    """

    function: Callable[..., Any]
    trains: bool
    drawn: tuple[str, ...] = ()


class GraphSession:
    """Runs parts of a TensorFlow 1 graph, as ``tf.compat.v1.Session`` does; made by ``AutoDist.Session``.

    Args:
        engine: Runs training steps.
        graph: The graph.
        gradients: The growing list of variable handles in the graph, by number of the gradient.
    """

    def __init__(self, engine: Engine | ReferenceEngine, graph: Any, gradients: Sequence[Any]) -> None:
        self._graph = graph
        self._engine = engine
        self._gradients = gradients
        self._variables: dict[str, Any] = {}
        self._drawings: dict[str, tuple[list[str], Callable[..., Any]]] = {}
        self._programs: dict[Any, _Program] = {}
        self._entered: list[contextlib.ExitStack] = []

    @property
    def graph(self) -> Any:
        """The graph whose parts it runs."""
        return self._graph

    @property
    def sess_str(self) -> str:
        """TensorFlow's name for where a session runs; this one has no single place."""
        return ""

    def run(
        self,
        fetches: Any,
        feed_dict: Mapping[Any, Any] | None = None,
        options: Any = None,
        run_metadata: Any = None,
    ) -> Any:
        """Run what is needed for `fetches`.

        Args:
            fetches: Tensors, operations, variables, names of them, or lists, tuples and dicts of these.
            feed_dict: Values of placeholders (or of any tensor). Those whose dim 0 is unknown in the graph are the
                global batch, which is split over the replicas when the call trains; all others go to every replica
                whole. Batches that come from iterators in the graph are split as well.
            options: Must be None; here for scripts that pass it.
            run_metadata: Must be None, as well.

        Returns:
            The values as NumPy arrays, in the structure of `fetches`; None for operations.

        Raises:
            UsageError: A batch with a dim 0 of fixed size is fed to a training step, or a variable has no value.
            CaptureError: The step can't be captured.
        """
        import tensorflow as tf

        _check_options(options, run_metadata)
        leaves = [self._element(fetch) for fetch in tf.nest.flatten(fetches)]
        feeds = {self._element(tensor).name: _array(tensor, value) for tensor, value in (feed_dict or {}).items()}
        values = self._values([leaf.name for leaf in leaves], dict(sorted(feeds.items())))
        return tf.nest.pack_sequence_as(fetches, values)

    def make_callable(self, fetches: Any, feed_list: Sequence[Any] = (), accept_options: bool = False) -> Any:
        """A function of the values of `feed_list` that runs `fetches`."""
        _check_options(accept_options or None, None)
        return lambda *values: self.run(fetches, dict(zip(feed_list, values, strict=True)))

    def close(self) -> None:
        """Do nothing: values live in the scope."""

    def as_default(self) -> Any:
        """Make it the session of ``tensor.eval()`` and ``operation.run()`` inside a ``with`` block."""
        from tensorflow.python.framework import stack

        return stack.default_session(self)

    def __enter__(self) -> GraphSession:
        entered = contextlib.ExitStack()
        entered.enter_context(self.graph.as_default())
        entered.enter_context(self.as_default())
        self._entered.append(entered)
        return self

    def __exit__(self, *error: Any) -> None:
        self._entered.pop().close()

    # What is fetched ---------------------------------------------------------------------------------------------

    def _element(self, fetch: Any) -> Any:
        """The tensor or operation of the graph that is meant."""
        import tensorflow as tf

        if isinstance(fetch, tf.SparseTensor):
            raise UsageError(
                f"`{fetch.values.name}` belongs to a sparse tensor, a session of AutoDist takes dense ones only",
                hint="feed and fetch `indices` and `values`, or a dense tensor",
            )
        value = None if isinstance(fetch, str) else getattr(fetch, "_graph_element", None)
        element = self.graph.as_graph_element(fetch if value is None else value)
        if _is_operation(element.name) or element.op.type != "VarHandleOp":
            return element
        reads = [op for op in element.consumers() if op.type == "ReadVariableOp"]
        return reads[0].outputs[0] if reads else element

    def _values(self, names: list[str], feeds: dict[str, np.ndarray]) -> list[Any]:
        from tensorflow.python.eager import context

        wanted = [name for name in dict.fromkeys(names) if name not in feeds]
        with context.eager_mode():
            found = dict(zip(wanted, self._run(wanted, feeds), strict=True)) if wanted else {}
        return [feeds[name] if name in feeds else found[name] for name in names]

    def _run(self, names: list[str], feeds: dict[str, np.ndarray]) -> list[Any]:
        import tensorflow as tf

        key = (tuple(names), tuple(feeds))
        if key not in self._programs:
            self._programs[key] = self._program(names, list(feeds))
        program = self._programs[key]
        drawn = self._draw(program.drawn)
        given = {**feeds, **drawn}
        if program.trains:
            tensors = iter(self._engine.run(program.function, self._arguments(given), {}))
        else:
            tensors = iter(program.function(*map(tf.convert_to_tensor, given.values())))
        return [drawn[n] if n in drawn else None if _is_operation(n) else _numpy(next(tensors)) for n in names]

    def _draw(self, names: Sequence[str]) -> dict[str, np.ndarray]:
        """The next elements of iterators in the graph, all that one of them gives at once."""
        found: dict[str, np.ndarray] = {}
        for node in dict.fromkeys(map(node_of, names)):
            if node not in self._drawings:
                outputs = [tensor.name for tensor in self.graph.get_operation_by_name(node).outputs]
                self._drawings[node] = (outputs, self._program(outputs, [], draws=False).function)
            outputs, function = self._drawings[node]
            found.update(zip(outputs, (tensor.numpy() for tensor in function()), strict=True))
        return {name: found[name] for name in names}

    def _arguments(self, given: Mapping[str, np.ndarray]) -> tuple[Any, ...]:
        """The arguments of a training step: its batch, and those that are not split."""
        whole = [name for name in given if self._is_whole(name)]
        if given and not any(self.graph.as_graph_element(n).shape.rank != 0 for n in given if n not in whole):
            self._refuse_fixed(whole)
        return tuple(value.view(WholeArray) if name in whole else value for name, value in given.items())

    def _is_whole(self, name: str) -> bool:
        """Whether a tensor has a dim 0 of a size that the graph fixes: it can't be a part of itself."""
        shape = self.graph.as_graph_element(name).shape
        return bool(shape.rank) and shape[0] is not None

    def _refuse_fixed(self, names: Sequence[str]) -> None:
        for name in names:
            shape = self.graph.as_graph_element(name).shape
            raise UsageError(
                f"`{name}` is fed to a training step and has the shape {shape}, its dim 0 is not free",
                hint="make placeholders of the batch by `tf.compat.v1.placeholder(dtype, [None, ...])`, and batches of "
                "an iterator without `drop_remainder`",
            )

    # From a part of the graph to a function ----------------------------------------------------------------------

    def _program(self, names: Sequence[str], feeds: Sequence[str], *, draws: bool = True) -> _Program:
        import tensorflow as tf

        graph_def = self._part(names, feeds)
        trains = any(MARK in node.attr for node in graph_def.node)
        refuse_queues(graph_def)
        drawn = drawn_tensors(graph_def, self.graph) if draws else []
        if drawn:
            graph_def = self._part([name for name in names if name not in drawn], [*feeds, *drawn])
        for_this_worker(graph_def, f"session_{id(self)}", self._engine.worker.is_chief)
        handles = [node.name for node in graph_def.node if node.op == "VarHandleOp"]
        for handle in handles:
            self._variable(handle)
        given = [*feeds, *drawn]
        wanted = [name for name in names if name not in drawn]

        def step(*arrays: Any) -> list[Any]:
            return self._import(graph_def, handles, dict(zip(given, arrays, strict=True)), wanted)

        if trains:
            self._check_values(handles)
            return _Program(step, trains, tuple(drawn))
        placeholders = [self.graph.as_graph_element(name) for name in given]
        specs = [tf.TensorSpec(placeholder.shape, placeholder.dtype) for placeholder in placeholders]
        return _Program(tf.function(step, autograph=False).get_concrete_function(*specs), trains, tuple(drawn))

    def _part(self, names: Sequence[str], feeds: Sequence[str]) -> Any:
        """The part of the graph behind fetches, without what is fed."""
        graph_def = self.graph.as_graph_def()
        nodes = {node.name: node for node in graph_def.node}
        needed = needed_for(nodes, [node_of(name) for name in names], {node_of(feed) for feed in feeds})
        targets = [n for n, node in nodes.items() if TARGET in node.attr and node_of(node.input[0]) in needed]
        kept = needed | set(targets)
        part = type(graph_def)(versions=graph_def.versions, library=graph_def.library)
        part.node.extend(node for node in graph_def.node if node.name in kept)
        strip_missing_colocation(part)
        return part

    def _import(
        self, graph_def: Any, handles: Sequence[str], feeds: Mapping[str, Any], names: Sequence[str]
    ) -> list[Any]:
        """Bring a part of the graph into the function that is being traced; returns the tensors of the names."""
        import tensorflow as tf

        traced = tf.compat.v1.get_default_graph()
        setattr(traced, SOURCE_GRAPH, self._graph)
        variables = {name: self._variables[name] for name in handles}
        for variable in variables.values():
            traced.watch_variable(variable)
        if any(MARK in node.attr for node in graph_def.node):
            adopt_marks([self._handle(gradient) for gradient in self._gradients])
        inputs = {f"{name}:0": traced.capture(variable.handle) for name, variable in variables.items()}
        inputs |= {name: tf.convert_to_tensor(feeds[name]) for name in feeds.keys() & consumed(graph_def)}
        elements = tf.graph_util.import_graph_def(graph_def, inputs, list(names), name="")
        return [element for element in elements if isinstance(element, tf.Tensor)]

    def _handle(self, handle: Any) -> Any:
        variable = self._variables.get(handle.op.name)
        return None if variable is None else variable.handle

    def _variable(self, name: str) -> Any:
        """The eager variable for a variable of the graph."""
        from tensorflow.python.ops.resource_variable_ops import UninitializedVariable

        if name not in self._variables:
            operation = self.graph.get_operation_by_name(name)
            shape, dtype = operation.get_attr("shape"), operation.get_attr("dtype")
            self._variables[name] = UninitializedVariable(True, name=name, shape=shape, dtype=dtype)
        return self._variables[name]

    def _check_values(self, handles: Sequence[str]) -> None:
        """Check that all variables of a training step have values; if none of the graph has, initialize all."""
        if len(self._without_values(self._variables)) == len(self._variables) > 0:
            self._initialize()
        empty = self._without_values(handles)
        if empty:
            raise UsageError(
                f"the variables {', '.join(f'`{name}`' for name in empty)} have no value yet",
                hint="run their initializers first: `session.run(tf.compat.v1.global_variables_initializer())`",
            )

    def _without_values(self, handles: Iterable[str]) -> list[str]:
        import tensorflow as tf

        return [n for n in handles if not tf.raw_ops.VarIsInitializedOp(resource=self._variables[n].handle)]

    def _initialize(self) -> None:
        import tensorflow as tf

        keys = tf.compat.v1.GraphKeys.GLOBAL_VARIABLES, tf.compat.v1.GraphKeys.LOCAL_VARIABLES
        variables = [variable for key in keys for variable in self.graph.get_collection(key)]
        _LOG.info("no variable has been initialized: initializing all %d of the graph", len(variables))
        self.run([variable.initializer for variable in variables])


def make_session(
    engine: Engine | ReferenceEngine, gradients: Sequence[Any], known: dict[Any, GraphSession]
) -> GraphSession:
    """The session of the graph that is being built.

    Args:
        engine: Runs training steps.
        gradients: The growing list of variable handles in the graph, by number of the gradient.
        known: By graph, the sessions of the scope; a new one is added.

    Raises:
        UsageError: No graph is being built.
    """
    import tensorflow as tf
    from tensorflow.python.client.session import SessionInterface

    if tf.executing_eagerly() or tf.compat.v1.get_default_graph().building_function:
        raise UsageError(
            "`Session` was called where no graph is being built",
            hint="write `with tf.Graph().as_default(), ad.scope():`, and build the graph and the session inside",
        )
    graph = tf.compat.v1.get_default_graph()
    if graph not in known:
        known[graph] = _session_class(SessionInterface)(engine, graph, gradients)
    return known[graph]


def refuse_plain_sessions(
    patches: Patches, engine: Engine | ReferenceEngine, gradients: Callable[[], Sequence[Any]]
) -> None:
    """Refuse TensorFlow's own sessions for graphs that train: each worker would train its own variables.

    Args:
        patches: Where to register.
        engine: Tells how many replicas there are.
        gradients: Returns the variable handles of the gradients so far, by which such graphs are known.
    """
    import tensorflow as tf

    def wrap(original: Any) -> Any:
        @functools.wraps(original)
        def run(session: Any, *args: Any, **kwargs: Any) -> Any:
            graph = session.graph
            if engine.num_replicas > 1 and any(getattr(h, "graph", None) is graph for h in gradients()):
                raise UsageError(
                    f"a `{type(session).__name__}` of TensorFlow runs a graph that trains, in the scope of "
                    f"{engine.num_replicas} replicas: each worker would train variables of its own",
                    hint="take `ad.Session()`, which has `run` and `make_callable`; instead of monitored sessions "
                    "and hooks, a loop with a `tf.compat.v1.train.Saver`",
                )
            return original(session, *args, **kwargs)

        return run

    patches.replace(tf.compat.v1.Session.__mro__[1], "run", wrap)


@functools.cache
def _session_class(interface: type) -> type[GraphSession]:
    """The class that TensorFlow's `Saver` takes for a session; TensorFlow isn't imported with this module."""
    return type("Session", (GraphSession, interface), {"__doc__": GraphSession.__doc__})


def _check_options(options: Any, run_metadata: Any) -> None:
    if options is not None or run_metadata is not None:
        raise UsageError(
            "`options` and `run_metadata` were given to a session of AutoDist, whose steps are not run as they are",
            hint="leave them out; to look into steps, `tf.profiler.experimental.start(directory)`",
        )


def _array(tensor: Any, value: Any) -> np.ndarray:
    dtype = getattr(tensor, "dtype", None)
    return np.asarray(value, None if dtype is None else dtype.as_numpy_dtype)


def _is_operation(name: str) -> bool:
    return ":" not in name


def _numpy(tensor: Any) -> Any:
    return tensor.numpy() if hasattr(tensor, "numpy") else tensor
