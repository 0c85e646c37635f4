"""The contract of kernels, and the graph they rewrite."""

from __future__ import annotations

import abc
import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

from autodist.carriers import Passed, Scattered
from autodist.graph import GraphEditor, GraphIndex, StepAnalysis, TrainingGraph, Variable
from autodist.graph.layouts import Exchanged
from autodist.kernels._delay import Delay, Turn, effects_in
from autodist.kernels._layout import Layout
from autodist.kernels._questions import QuestionSet
from autodist.strategies import Strategy

__all__ = [
    "Combine",
    "DistributedGraph",
    "Fact",
    "Kernel",
    "Layout",
    "Pass",
    "Preparation",
    "Refresher",
    "Serving",
    "SyncPoint",
]


class Combine(enum.Enum):
    """How the values of several replicas become one."""

    SUM = "sum"
    CONCAT = "concat"
    SCATTER = "scatter"
    """Each worker gets its own rows of the sum."""
    PASS = "pass"
    """Each worker gets the rows that others have for it."""


@dataclass(frozen=True)
class SyncPoint:
    """Where values of this worker's replicas become the value of the whole batch.

    ``synced[k]`` is an Identity whose input is ``local[k]`` until a kernel puts communication between the two. As long
    as none did, the graph is the valid step of a single worker.

    Attributes:
        name: Unique, and the same on every worker.
        variable: The trainable variable whose gradient it is, None for small state: losses, metrics, sizes.
        combine: How the workers' values become one.
        local: Tensors of this worker: one; two (values, indices) for a sparse gradient.
        synced: The Identity nodes that consumers read.
        dtypes: Dtypes of the tensors.
        shapes: Static shapes, None where not known.
        layer: The number of layers of points that it depends on: points of one layer don't wait for each other.
        awaited: Whether other points depend on it, so that the step goes on when its value has arrived.
        parts: Per local replica, its contribution to `local`; empty where `local` can't be taken apart.
        even: Whether the tensors to be concatenated have the same, static shape on all workers.
        scattered: If each worker gets only its own rows of a sum, this worker's term of the sum; `local` holds the
            worker's rows of that term.
        passed: If workers pass rows to each other, those of this worker. Then `synced` has an Identity for each value
            in `local`, which stays, and one for what each of the others passes to it.
        members: The workers that meet there, in ascending order; None for all.
    """

    name: str
    variable: str | None
    combine: Combine
    local: tuple[str, ...]
    synced: tuple[str, ...]
    dtypes: tuple[str, ...]
    shapes: tuple[tuple[int | None, ...] | None, ...]
    layer: int = 0
    awaited: bool = False
    parts: tuple[tuple[str, ...], ...] = ()
    even: bool = False
    scattered: Scattered | None = None
    passed: Passed | None = None
    members: tuple[int, ...] | None = None

    @property
    def given(self) -> tuple[str, ...]:
        """The tensors that this worker brings: those that stay, and the rows that it passes to others."""
        return self.local if self.passed is None else (*self.local, *self.passed.tensors)


@dataclass(frozen=True)
class Serving:
    """Updates that a parameter server applies alongside its worker's own steps, one round at a time.

    Attributes:
        name: Unique within the step.
        targets: Nodes to run for one round. They wait until the round's messages are there.
        stops: Nodes to run once at the end: they close the queues, so that a round that waits ends.
        variables: Names of the variables that a round updates.
        messages: How many messages each worker sends per step, by rank.
        per_round: How many of these messages a round takes.
    """

    name: str
    targets: tuple[str, ...]
    stops: tuple[str, ...]
    variables: tuple[str, ...]
    messages: tuple[int, ...]
    per_round: int


@dataclass(frozen=True)
class Refresher:
    """Sets this worker's copy of a variable that lives on another worker.

    Attributes:
        node: The node to run.
        feed: The placeholder of the value.
    """

    node: str
    feed: str


@dataclass(frozen=True)
class DistributedGraph:
    """A step on its way from G to what one worker runs.

    Attributes:
        graph_def: The graph as it is now; valid after every kernel.
        variables: The variables of G.
        layout: This worker among all.
        outputs: Tensors to fetch, one per output of the step.
        local_outputs: The same for batches that each worker brought itself: per-example outputs are those of this
            worker's examples.
        effects: Nodes to run.
        feeds: ``feeds[k][r]`` is the placeholder of input k on local replica r, None where it isn't needed. Inputs that
            are not split have the same placeholder for all replicas.
        borrowed: ``borrowed[k]`` is the placeholder of an example of input k, to be fed instead of batches where
            no local replica has any: they compute with it, or with no rows if no worker has any. None as in `feeds`.
        rows: The placeholder for the numbers of examples of the local replicas; None if there is one replica in all.
        total: The tensor to feed with the size of the global batch where it is known without asking the others.
        batches: The placeholder of two numbers that represent the batch, and must be equal on all workers: else a
            step fails before it changes anything. None if workers do not wait for each other.
        checks: Nodes that fail on all workers alike before the step changes anything. A server then sends nothing of
            what follows an update, so whatever receives that has to wait for them.
        points: Where replicas meet.
        placement: By variable name, the TensorFlow device that holds it.
        initializers: Nodes to run once, before the first step: they set the variables that kernels have added.
        refreshers: By variable name, what brings its value to this worker's copy of it. To be run when something else
            than this step has changed the variable.
        outstanding_sends: By rank of another worker, the nodes that send the values from which it computes gradients:
            without them no gradient arrives from there.
        serving: The updates that this worker runs for others repeatedly, alongside its own steps.
        asks: The questions that this worker asks others during steps; the others must know them before.
        asynchronous: Names of the variables that change alongside the steps, here or on another worker.
        waits: Whether a step needs other workers to take one as well.
        exchanged: The tensors that replicas exchange before their gradients, the largest first.
        loss_meets: Whether a loss combines examples of the batch, although each replica has only its part of them.
        delay: How many steps after its own a gradient is exchanged and applied; None for none.
        warnings: What a user should know about this rewriting.
        notes: Documented differences from one device.
        valid: The GraphDef that is known to have unique nodes and all inputs: `graph_def`, unless a kernel has made it
            without an editor.
    """

    graph_def: Any
    variables: tuple[Variable, ...]
    layout: Layout
    outputs: tuple[str, ...]
    local_outputs: tuple[str, ...]
    effects: tuple[str, ...]
    feeds: tuple[tuple[str | None, ...], ...]
    borrowed: tuple[str | None, ...] = ()
    rows: str | None = None
    total: str | None = None
    batches: str | None = None
    checks: tuple[str, ...] = ()
    points: tuple[SyncPoint, ...] = ()
    placement: dict[str, str] = field(default_factory=dict)
    initializers: tuple[str, ...] = ()
    refreshers: dict[str, Refresher] = field(default_factory=dict)
    outstanding_sends: dict[int, tuple[str, ...]] = field(default_factory=dict)
    serving: tuple[Serving, ...] = ()
    asks: tuple[QuestionSet, ...] = ()
    asynchronous: tuple[str, ...] = ()
    waits: bool = True
    exchanged: tuple[Exchanged, ...] = ()
    loss_meets: bool = False
    delay: Delay | None = None
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    valid: Any = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, graph: TrainingGraph, layout: Layout) -> DistributedGraph:
        """G as it is: one replica, nothing synchronized."""
        outputs = tuple(output.tensor for output in graph.outputs)
        feeds = tuple((step_input.tensor,) for step_input in graph.inputs)
        graph_def = graph.graph_def
        return cls(graph_def, graph.variables, layout, outputs, outputs, graph.effects, feeds, valid=graph_def)

    @property
    def kept(self) -> tuple[str, ...]:
        """The nodes, besides effects and outputs, that are run at some time."""
        served = (node for serving in self.serving for node in (*serving.targets, *serving.stops))
        return (*self.initializers, *(refresher.node for refresher in self.refreshers.values()), *served)

    @cached_property
    def late(self) -> frozenset[str]:
        """The nodes that can only run once an earlier step's gradients are there; none without a delay."""
        return frozenset() if self.delay is None else self.delay.late(self.index)

    def effects_in(self, turn: Turn) -> tuple[str, ...]:
        """The nodes with effects that run in a turn of the step."""
        return effects_in(turn, self.effects, self.late)

    @cached_property
    def index(self) -> GraphIndex:
        """The nodes by name, and what each of them needs."""
        return GraphIndex.of(self.graph_def)

    @property
    def nodes(self) -> dict[str, Any]:
        """The nodes by name."""
        return self.index.nodes

    @property
    def has_tiles(self) -> bool:
        """Whether replicas compute with parts of variables."""
        return any(v.piece is not None and v.piece.tiled_for is not None for v in self.variables)

    def analyze(self) -> StepAnalysis:
        """An index of the graph."""
        return StepAnalysis(self.graph_def, [v.handle for v in self.variables], (), self.index)

    def rewired(self, inputs: Mapping[str, str], added: Iterable[Any]) -> DistributedGraph:
        """A copy with more nodes, in which the first input of some nodes is another tensor.

        Args:
            inputs: By node, such as one that a point has `synced`, what it reads from now on.
            added: The nodes that come with it.
        """
        editor = self.edit()
        editor.extend(added)
        return self.edited(editor, inputs)

    def edit(self, device: str = "") -> GraphEditor:
        """An editor of a copy of the graph, whose nodes are added on a device."""
        copy = type(self.graph_def)()
        copy.CopyFrom(self.graph_def)
        return GraphEditor(copy, device, self.index.of_copy(copy))

    def edited(self, editor: GraphEditor, inputs: Mapping[str, str] | None = None, **changes: Any) -> DistributedGraph:
        """A copy with the graph that an editor has changed.

        Args:
            editor: The editor from :meth:`edit`, after all changes.
            inputs: By node, such as one that a point has `synced`, what its first input is from now on.
            changes: New values of other fields.
        """
        for name, tensor in (inputs or {}).items():
            editor.replace_input(name, 0, tensor)
        return self.remade(editor, **changes)

    def remade(self, editor: GraphEditor, **changes: Any) -> DistributedGraph:
        """A copy with the graph of an editor, whatever that began with; `changes` are new values of other fields."""
        graph_def = editor.finish()
        found = self.replace(graph_def=graph_def, valid=graph_def, **changes)
        found.__dict__["index"] = editor.index  # a cached property
        return found

    def indexed_anew(self) -> DistributedGraph:
        """A copy whose index is made of the graph itself, for one that may have been changed past its editor."""
        return replace(self)

    def replace(self, **changes: Any) -> DistributedGraph:
        """A copy with some fields changed."""
        found = replace(self, **changes)
        if found.graph_def is self.graph_def and "index" in self.__dict__:
            found.__dict__["index"] = self.index
        return found


class Fact(enum.Enum):
    """A fact that a pass may rely on, because an earlier one has established it; the values are words for errors."""

    SHARDS = "each part of a variable is a variable of its own"
    FACTORS = "gradients that travel as factors are marked there"
    PLACED = "variables of earlier steps are where those have put them"
    REPLICAS = "the step is there once per local replica, with the points where these meet"
    KEPT = "gradients that are applied in a later step go through the queue"
    PARTS = "a worker has nothing of the parts of tiled variables that others have"
    HOST_SUMS = "what leaves a host for a server is the sum of its replicas"
    MESSAGES = "gradients at points are in the form in which they travel"
    BESIDE = "servers that apply updates apart from the steps have taken their gradients"
    STREAMED = "no worker asks for what streams bring from servers"
    SERVED = "servers have taken their gradients, and their variables are placed"
    COPIES = "what a worker has a copy of is read there"
    REDUCED = "gradients of variables that every worker has are reduced"
    SPREAD = "factors have gone to all workers"
    STATE = "all that is not a gradient has met"
    DEVICES = "every node has a device"
    OWN = "no node is on a device that this worker can't reach"


class Pass(abc.ABC):
    """One step of the way from G and S to what a worker runs."""

    name: ClassVar[str]
    needs: ClassVar[frozenset[Fact]] = frozenset()
    """Facts that earlier passes have to establish."""
    provides: ClassVar[frozenset[Fact]] = frozenset()
    """Facts that it establishes for all later passes."""


class Preparation(Pass):
    """A rewriting of G and S together, before any worker's share is cut out of them.

    It turns what a strategy says about parts of variables and gradients into a G that has these parts, and into an S
    that speaks of each part as a variable of its own. It is done once for a step, and is the same on all workers.
    """

    @abc.abstractmethod
    def apply(self, graph: TrainingGraph, strategy: Strategy) -> tuple[TrainingGraph, Strategy]:
        """G and S as rewritten; the arguments themselves where there is nothing to do."""


class Kernel(Pass):
    """One rewriting of a graph: it takes a valid graph and returns a valid graph.

    A kernel is a frozen dataclass; its options are its fields. What all kernels need (checking the result, timing,
    dumping) is the pipeline's business.
    """

    @abc.abstractmethod
    def apply(self, graph: DistributedGraph) -> DistributedGraph:
        """The rewritten graph; the argument is left as it is."""
