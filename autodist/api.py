"""The names that a training script uses: :class:`AutoDist`, :func:`scope`, :func:`function`."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

from autodist.coordination import Worker, current_worker
from autodist.errors import UsageError
from autodist.graph import Patches, mark_v1_gradients
from autodist.installation import check_tensorflow
from autodist.registry import suggesting
from autodist.resource_spec import Device, ResourceSpec
from autodist.runtime import Engine, Recorder, ReferenceEngine
from autodist.runtime.checkpoints import LoopCheckpoint, save_models_whole
from autodist.runtime.data import ShardBy, ShardedDataset, WorkerShares, check_convention, shard_dataset
from autodist.runtime.hooks import (
    OPEN,
    GraphSession,
    hook_functions,
    hook_optimizers,
    hook_variables,
    make_session,
    refuse_fit_outside,
    refuse_keras2_fit_outside,
    refuse_plain_sessions,
)
from autodist.runtime.keras import FilesAside, hook_evaluation, hook_fit, hook_keras2
from autodist.runtime.measuring import engine_class
from autodist.strategies import Strategy, StrategyBuilder, fitting, installed_communicators

__all__ = ["AutoDist", "function", "scope"]

Arrays: TypeAlias = "bool | Sequence[int | None]"


class AutoDist:
    """A distributed training: a cluster and a strategy for the steps that are defined in its scope.

    Args:
        spec: The cluster: a file or a :class:`ResourceSpec`. Under ``autodist run`` the launcher's spec counts; in a
            script run alone, None is this machine.
        strategy: A builder, a strategy, a builder's name (``"AllReduce(chunk_size=64)"``) or a strategy's JSON file;
            ``autodist run --strategy`` overrides it. By default ``auto`` under ``autodist run``, else all-reduce.
        batch: ``"global"``: a step receives the whole batch, the same on every worker, and it is split over all
            replicas; ``"local"``: each worker brings its own part.
        gradient_reduction: ``"mean"`` for losses that are means over the batch, ``"sum"`` for sums; ``"auto"`` finds
            out for each gradient, and warns of a loss that is neither.
        evaluation: ``"shared"``: in Keras' ``evaluate`` and ``predict``, and in the validation of ``fit``, the replicas
            share each batch, once a training step has been taken, and where the results are those of one device; all
            workers must call them. ``"whole"``: every worker runs them on its own.
        batch_norm: ``"replica"``: Keras' ``BatchNormalization`` in training normalizes each replica's part of the batch
            by that part's mean and variance; ``"synchronized"``: by those of the whole batch, as on one device. Layers
            made with ``synchronized=True`` always do.
        strategy_builder: Another name of `strategy`, the one that figure 7.4 of Hao Zhang's thesis has.

    Raises:
        UsageError: An argument is not allowed, both names of the strategy are given, or the spec has several workers,
            which were not launched.
        SpecError: The spec has mistakes.
        StrategyError: There is no such strategy.
        NotInstalled: There is no TensorFlow, or not the version that AutoDist works with.

    Example:
        >>> ad = AutoDist(strategy="PSLoadBalancing")
        >>> with ad.scope():                                         # doctest: +SKIP
        ...     for x, y in ad.shard(dataset):
        ...         loss = train_step(x, y)
    """

    @suggesting
    def __init__(
        self,
        spec: str | os.PathLike[str] | ResourceSpec | None = None,
        strategy: str | os.PathLike[str] | StrategyBuilder | Strategy | None = None,
        *,
        batch: Literal["global", "local"] = "global",
        gradient_reduction: Literal["auto", "mean", "sum"] = "auto",
        evaluation: Literal["shared", "whole"] = "shared",
        batch_norm: Literal["replica", "synchronized"] = "replica",
        strategy_builder: str | StrategyBuilder | None = None,
    ) -> None:
        check_tensorflow()
        convention = self._convention = check_convention(batch, gradient_reduction, evaluation, batch_norm)
        if strategy is not None and strategy_builder is not None:
            raise UsageError(
                f"both `strategy={strategy!r}` and `strategy_builder={strategy_builder!r}` are given",
                hint="they are two names of one argument: leave one of them out",
            )
        strategy = strategy_builder if strategy is None else strategy
        worker = current_worker()
        self.spec = _resolve_spec(spec, worker)
        chosen = _permitted(
            worker.environment.strategy or strategy or worker.environment.default_strategy, worker, self.spec
        )
        self._replicas = _planned_replicas(chosen, self.spec)
        self._sessions: dict[Any, GraphSession] = {}
        recorder = Recorder.from_environ()
        if recorder is not None and recorder.is_reference:
            self._engine: Engine | ReferenceEngine = ReferenceEngine(worker, recorder)
        else:
            self._engine = engine_class()(worker, self.spec, chosen, convention, recorder)
        if worker.world_size > 1:
            refuse_fit_outside(worker)
            refuse_keras2_fit_outside(worker)

    @property
    def rank(self) -> int:
        """This worker among all, from 0; 0 is the chief."""
        return self._engine.worker.rank

    @property
    def world_size(self) -> int:
        """Number of workers; 1 for a script that is run alone."""
        return self._engine.worker.world_size

    @property
    def strategies(self) -> tuple[Strategy, ...]:
        """The strategies in use, one per traced step, in the order of tracing."""
        return self._engine.strategies

    @contextlib.contextmanager
    def scope(self) -> Iterator[AutoDist]:
        """Distribute the training steps that run inside.

        On leaving, all variables have their trained values; the model is an ordinary one. After an error they have
        them, too, as far as the workers that hold the values can still be reached.

        Raises:
            UsageError: Another scope is open.
        """
        OPEN.open(self)
        try:
            _log_to_stderr(self._engine.worker)
            save_models_whole()
            with self._hooks():
                try:
                    yield self
                    self._engine.close()
                except BaseException:
                    self._engine.abandon()
                    raise
        finally:
            self._sessions.clear()
            OPEN.close()

    def _hooks(self) -> Patches:
        patches = Patches()
        hook_variables(patches, self._engine.state)
        hook_functions(patches, self._engine)
        hook_optimizers(patches, self._engine)
        files = FilesAside(self._engine.worker.rank, self._engine.worker.environment.scratch)
        patches.callback(files.remove)
        hook_fit(patches, self._engine, self.shard, files)
        hook_evaluation(patches, self._engine, files)
        hook_keras2(patches, self._engine, self.shard, files)
        self._v1_gradients = patches.enter_context(mark_v1_gradients())
        refuse_plain_sessions(patches, self._engine, lambda: self._v1_gradients)
        return patches

    def Session(self) -> GraphSession:
        """A session for a TensorFlow 1 graph that is built inside the scope; it runs training steps distributed.

        Values live in the scope: all its sessions of one graph have the same.

        Example:
            >>> with tf.Graph().as_default(), ad.scope():               # doctest: +SKIP
            ...     x = tf.compat.v1.placeholder(tf.float32, [None, 784])
            ...     train = tf.compat.v1.train.AdamOptimizer().minimize(loss_of(x))
            ...     session = ad.Session()
            ...     session.run(tf.compat.v1.global_variables_initializer())
            ...     session.run(train, {x: batch})

        Raises:
            UsageError: No graph is being built, or the scope is not open.
        """
        if OPEN.current is not self:
            raise UsageError(
                "`Session` was called outside of its scope",
                hint="write `with tf.Graph().as_default(), ad.scope():`, and build the graph and the session inside",
            )
        if self._convention.batch_norm == "synchronized":
            raise UsageError(
                "`batch_norm='synchronized'` is given, but the graph of a session keeps batch normalization by replica",
                hint="use `ad.function` or `fit`, or leave `batch_norm` out",
            )
        return make_session(self._engine, self._v1_gradients, self._sessions)

    def function(self, step: Callable[..., Any] | None = None, *, arrays: Arrays = False) -> Callable[..., Any]:
        """Decorator of a step: like ``tf.function``, and distributed if it trains.

        The step must be called inside the scope. A step that trains nothing, such as one that updates metrics of a
        test, runs on every worker on whole batches, which are put together from the parts that come from :meth:`shard`.

        Args:
            step: The function, or none to decorate with options.
            arrays: Whether it is a program of arrays, such as k-means: all workers call it together with the same
                arrays, replicas have parts of the large ones, along any dim, and share the work; every worker has the
                whole result, which is that of one device. ``(0, None)`` says per array which dim is cut, None for
                whole; True has them found: those with which the fewest bytes are sent.

        Example:
            >>> @ad.function(arrays=True)                                # doctest: +SKIP
            ... def iterate(links, ranks):
            ...     return 0.15 / len(ranks) + 0.85 * tf.linalg.matvec(links, ranks)
        """
        return _decorated(step, self, arrays)

    def shard(self, dataset: Any, *, by: ShardBy = "auto") -> ShardedDataset:
        """Let each worker get its part of a ``tf.data.Dataset`` of global batches.

        Args:
            dataset: The batches as one device would see them.
            by: ``"batch"``: its rows of every global batch, which are those of one device, exactly; each worker reads
                all data. ``"file"``: each worker reads files of its own, ``"element"``: elements of its own, before
                anything is done with them; the size of the global batch is kept, what it consists of is not, and every
                element is seen once in an epoch. ``"auto"``: what keeps global batches as they are, ``"batch"``.

        Raises:
            UsageError: It is not a dataset of batches, or it can't be sharded like that.
        """
        counts = tuple(sum(device.host == host.name for device in self._replicas) for host in self.spec.hosts)
        shares = WorkerShares(counts, self._engine.worker.rank)
        return shard_dataset(dataset, shares, by=by, passes=self._engine.local_batches.passes())

    def checkpoint(
        self,
        directory: str | os.PathLike[str],
        *,
        every_steps: int | None = None,
        every_s: float | None = None,
        keep: int = 2,
        fresh: bool = False,
        **trackables: Any,
    ) -> LoopCheckpoint:
        """Save a training loop, and go on from the newest checkpoint, which is restored at once.

        Args:
            directory: Where checkpoints are, on the chief's machine.
            every_steps: Steps from one checkpoint to the next. Without this and `every_s`, one is saved after each
                pass over the data.
            every_s: Seconds from one checkpoint to the next, by the chief's clock.
            keep: How many checkpoints to keep.
            fresh: Begin from the start, whatever is in the directory: nothing of it is restored, and what AutoDist has
                not written stays. A restart of the same run goes on from what the run has written.
            trackables: What to save, by name: models, optimizers, modules, variables.

        Returns:
            The checkpoint; the loop goes over its ``steps(dataset)``.

        Raises:
            UsageError: An argument is not allowed, a model is not built, the checkpoint is of something else, none of
                those that are there can be read, or another run is in the directory.
            CheckpointFailed: A checkpoint can't be read at the moment.

        Example:
            >>> checkpoint = ad.checkpoint("checkpoints", every_steps=100, model=model)     # doctest: +SKIP
            >>> for epoch in range(3):                                                       # doctest: +SKIP
            ...     for step, (x, y) in checkpoint.steps(ad.shard(dataset)):
            ...         loss = train_step(x, y)
        """
        return LoopCheckpoint(self._engine, directory, every_steps, every_s, keep, fresh, trackables)


@suggesting
def scope(
    spec: str | os.PathLike[str] | ResourceSpec | None = None,
    strategy: str | os.PathLike[str] | StrategyBuilder | Strategy | None = None,
    *,
    batch: Literal["global", "local"] = "global",
    gradient_reduction: Literal["auto", "mean", "sum"] = "auto",
    evaluation: Literal["shared", "whole"] = "shared",
    batch_norm: Literal["replica", "synchronized"] = "replica",
    strategy_builder: str | StrategyBuilder | None = None,
) -> contextlib.AbstractContextManager[AutoDist]:
    """Distribute the training inside, as :meth:`AutoDist.scope` of an :class:`AutoDist` with these arguments.

    Args:
        spec: The cluster of a script that is run alone; under ``autodist run`` the launcher's counts.
        strategy: A builder, a strategy, a name, or a file; ``autodist run --strategy`` overrides it.
        batch: ``"global"``: every worker brings the whole batch; ``"local"``: its own part.
        gradient_reduction: ``"mean"`` or ``"sum"`` for losses that are so over the batch; ``"auto"`` finds out.
        evaluation: ``"shared"``: the replicas share the batches of ``evaluate`` and ``predict``; ``"whole"``: they
            don't.
        batch_norm: By what Keras' ``BatchNormalization`` normalizes: ``"replica"``: each replica's part of the batch;
            ``"synchronized"``: all of it.
        strategy_builder: Another name of `strategy`.

    Example:
        >>> with scope():                                            # doctest: +SKIP
        ...     model.compile(optimizer="adam", loss="mse")
        ...     model.fit(dataset)
    """
    return AutoDist(
        spec,
        strategy,
        batch=batch,
        gradient_reduction=gradient_reduction,
        evaluation=evaluation,
        batch_norm=batch_norm,
        strategy_builder=strategy_builder,
    ).scope()


def function(step: Callable[..., Any] | None = None, *, arrays: Arrays = False) -> Callable[..., Any]:
    """Decorator of a step, for the scope that is open when it is called; see :meth:`AutoDist.function`."""
    return _decorated(step, None, arrays)


def _decorated(step: Callable[..., Any] | None, owner: AutoDist | None, arrays: Arrays) -> Callable[..., Any]:
    """A step that runs in the scope of `owner`, or in any if that is None; None for what makes one of a function."""
    check_tensorflow()
    if step is None:
        return functools.partial(_decorated, owner=owner, arrays=arrays)
    python_function = getattr(step, "python_function", step)
    plain = functools.cache(lambda: _as_tf_function(step))

    @functools.wraps(python_function)
    def distributed(*args: Any, **kwargs: Any) -> Any:
        scope: AutoDist | None = OPEN.current
        if scope is None or (owner is not None and scope is not owner):
            name = getattr(python_function, "__name__", "the step")
            raise UsageError(
                f"`{name}` was called outside of {'a' if owner is None else 'its'} scope",
                hint=f"call it inside `with {'autodist' if owner is None else 'ad'}.scope():`",
            )
        if arrays is not False:
            called, dims = functools.partial(plain(), *args, **kwargs), None if arrays is True else tuple(arrays)
            return scope._engine.run_arrays(python_function, args, kwargs, called, dims)
        return plain()(*args, **kwargs)  # the scope intercepts it, and trains by it, or not

    return distributed


def _as_tf_function(step: Callable[..., Any]) -> Callable[..., Any]:
    import tensorflow as tf

    made: Callable[..., Any] = step if hasattr(step, "python_function") else tf.function(step)
    return made


def _resolve_spec(spec: str | os.PathLike[str] | ResourceSpec | None, worker: Worker) -> ResourceSpec:
    path = worker.environment.spec_path
    if path is not None:
        return ResourceSpec.from_json(path.read_text())
    if spec is None:
        return ResourceSpec.local()
    resolved = spec if isinstance(spec, ResourceSpec) else ResourceSpec.from_file(os.fspath(spec))
    if resolved.world_size > 1:
        raise UsageError(
            f"the spec has {resolved.world_size} workers, but this is a single process",
            hint=_way_to_workers(resolved),
        )
    return resolved


def _way_to_workers(spec: ResourceSpec) -> str:
    """Say how this program gets the workers of a spec."""
    shell = sys.modules.get("IPython")
    if shell is not None and shell.get_ipython() is not None:
        options = f"--workers {spec.world_size}" if all(host.is_local for host in spec.hosts) else "--spec FILE"
        return f"type `%load_ext autodist.notebook`, and begin the cell that has the training by `%%autodist {options}`"
    return f"start the script by `autodist run {sys.argv[0]} --spec FILE`"


def _permitted(
    wanted: str | os.PathLike[str] | StrategyBuilder | Strategy, worker: Worker, spec: ResourceSpec
) -> StrategyBuilder | Strategy:
    """The builder of the strategy, or the strategy itself; a builder that chooses does so among what the run allows."""
    chosen, permission = fitting(wanted, spec), worker.environment.permission
    permission.check_chosen(str(wanted), chosen, installed_communicators())
    return chosen if isinstance(chosen, Strategy) else chosen.confined(permission.carriers)


def _planned_replicas(chosen: StrategyBuilder | Strategy, spec: ResourceSpec) -> tuple[Device, ...]:
    """The devices among which batches will be split: builders take all."""
    if isinstance(chosen, Strategy):
        return tuple(Device.parse(name) for name in chosen.graph.replicas)
    return spec.replicas


def _log_to_stderr(worker: Worker) -> None:
    """Show what the engine says, unless the program has set up logging itself."""
    logger = logging.getLogger("autodist")
    if logger.handlers or logging.getLogger().handlers:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("autodist: %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO if worker.is_chief else logging.WARNING)
    logger.propagate = False
