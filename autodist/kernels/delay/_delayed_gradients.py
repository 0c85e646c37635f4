"""Delayed gradients: each step exchanges and applies the gradients of the step K before it, on all workers alike.

What a step computes is kept in a queue of its worker: the gradients, and what their update takes from the step besides,
such as the learning rate. K steps later they come out of it, meet those of the other workers, and are applied. So what
travels needs nothing of the step that it travels in, and is on its way while that one computes. A step's values lack
the updates of the last K steps, on all workers the same ones: results do not depend on which worker is how fast.

The first K steps find nothing to apply: they run the nodes that need nothing from the queue. Where all is to be
applied, as at the end of training, only those run that do; see :class:`~autodist.kernels.Turn`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from autodist.errors import StrategyError
from autodist.graph import StepAnalysis, data_inputs, node_of, normalize, tensor_dtype
from autodist.kernels._base import Combine, DistributedGraph, Fact, Kernel, SyncPoint
from autodist.kernels._delay import Delay
from autodist.kernels._update_regions import UnitRegion, UnitRegions
from autodist.kernels._updated_units import UpdatedUnit
from autodist.kernels.servers import Queues
from autodist.resource_spec import Device
from autodist.strategies import Strategy

_PREFIX = "autodist/delayed"


@dataclass(frozen=True)
class DelayedGradients(Kernel):
    """Keep the gradients of variables with a staleness for later steps.

    Attributes:
        strategy: Says how many steps later they are applied.
        step: Name of the compiled step, part of the queue's name.
    """

    name: ClassVar[str] = "delayed-gradients"
    needs: ClassVar[frozenset[Fact]] = frozenset({Fact.REPLICAS})
    provides: ClassVar[frozenset[Fact]] = frozenset({Fact.KEPT})
    strategy: Strategy
    step: str

    def apply(self, graph: DistributedGraph) -> DistributedGraph:
        """See the module's docstring."""
        steps = max((synchronizer.delay for _, synchronizer in self.strategy.synchronizers), default=0)
        if not steps or graph.layout.world_size == 1:
            return graph
        elsewhere = frozenset(self._elsewhere(graph))
        marks = {
            tensor: variable.name
            for variable in graph.variables
            if variable.name not in elsewhere
            for gradient in variable.gradients
            for tensor in gradient.tensors
            if tensor in graph.nodes
        }
        return _Rewriting(graph, marks, elsewhere, steps, self.step).apply() if marks else graph

    def _elsewhere(self, graph: DistributedGraph) -> Iterator[str]:
        """The variables of which other workers have the parts."""
        for config in self.strategy.variables:
            devices = config.synchronizer.devices
            if devices and graph.layout.rank not in map(graph.layout.rank_of, devices):
                yield config.variable


class _Rewriting:
    """Rewrites one worker's graph.

    Args:
        graph: The graph.
        marks: By mark of a gradient, the variable.
        elsewhere: The variables of which other workers have the parts; their updates will go.
        steps: How many steps later gradients are applied.
        step: Name of the compiled step.
    """

    def __init__(
        self, graph: DistributedGraph, marks: Mapping[str, str], elsewhere: frozenset[str], steps: int, step: str
    ) -> None:
        self._graph = graph
        self._marks = marks
        self._elsewhere = elsewhere
        self._steps = steps
        self._unit = _unit(graph, marks.values())
        self._analysis: StepAnalysis = graph.analyze()
        own = graph.replace(effects=tuple(effect for effect in graph.effects if not self._will_go(effect)))
        regions = UnitRegions(own, [self._unit], {self._unit.name: list(self._gradients())})
        self._region: UnitRegion = regions.region(self._unit.name)
        self._constants = regions.constants
        self._own = {variable.handle for variable in graph.variables if variable.name in self._unit.members}
        host = graph.layout.hosts[graph.layout.rank]
        self._editor = graph.edit(graph.layout.tf_device(Device(host, "CPU", 0)))
        self._queue = Queues(self._editor, self._editor.device, _PREFIX, f"{step}/delayed", steps + 1)

    def _gradients(self) -> Iterator[SyncPoint]:
        """Where workers meet for gradients; one that each worker has whole is as one where they don't."""
        met = {name for point in self._graph.points for name in point.synced}
        yield from (point for point in self._graph.points if self._is_gradient(point))
        for mark, variable in self._marks.items():
            if mark not in met:
                dtype, given = tensor_dtype(self._graph.nodes, mark), self._graph.nodes[mark].input[0]
                yield SyncPoint(mark, variable, Combine.SUM, (given,), (mark,), (dtype,), (None,))

    def _is_gradient(self, point: SyncPoint) -> bool:
        return not self._marks.keys().isdisjoint(point.synced)

    def apply(self) -> DistributedGraph:
        """The graph in which gradients go through the queue."""
        self._refuse_changed_meanwhile()
        self._refuse_slots_of_gradients()
        gradients = list(self._gradients())
        given = [tensor for point in gradients for tensor in point.local]
        tensors = list(dict.fromkeys(map(normalize, (*given, *self._region.crossing))))
        dtypes = [tensor_dtype(self._graph.nodes, tensor) for tensor in tensors]
        # Nothing of a step that is to fail is kept.
        kept = self._queue.put("gradients", "keep", tensors, dtypes, self._graph.checks)
        taken = self._queue.take("gradients", "take", dtypes)
        later = {tensor: f"{taken}:{k}" for k, tensor in enumerate(tensors)}
        for name in self._region.nodes:
            node = self._graph.nodes[name]
            inputs = [later.get(normalize(tensor), tensor) for tensor in data_inputs(node)]
            self._editor.set_inputs(name, [*inputs, *(tensor for tensor in node.input if tensor.startswith("^"))])
        for point in gradients:
            for name, tensor in zip(point.synced, point.local, strict=True):
                self._editor.replace_input(name, 0, later[normalize(tensor)])
        for name in self._region.roots:  # also what changes a variable without its gradient, such as a decay
            self._editor.wait_for(name, [taken])
        late, read, waiting = self._late(taken)
        self._separate(late, waiting, tensors)
        always = tuple(effect for effect in self._graph.effects if effect not in late)
        points = (self._later(one, later) if self._is_gradient(one) else one for one in self._graph.points)
        return self._graph.edited(
            self._editor,
            effects=tuple(dict.fromkeys((*self._graph.effects, *self._region.roots, kept))),
            points=tuple(points),
            delay=Delay(self._steps, (taken,), self._variables(read), always),
            notes=(*self._graph.notes, _note(self._steps)),
        )

    def _later(self, point: SyncPoint, later: Mapping[str, str]) -> SyncPoint:
        return replace(point, local=tuple(later[normalize(tensor)] for tensor in point.local), parts=())

    def _refuse_changed_meanwhile(self) -> None:
        """Refuse an update that reads, in a branch of its own, what later steps will have changed by then.

        Outside of branches, it is read in time, and goes through the queue.
        """
        updates = {*self._region.nodes}
        changed = {h for name, write in self._analysis.writes.items() if name not in updates for h in write.handles}
        for name in self._region.nodes:
            read = changed.intersection(self._analysis.touched_by(name)) - self._own
            if read:
                told = f"updates in a branch that reads `{min(self._variables(read))}`, as it is by then"
                raise _refusal(self._graph, name, told)

    def _refuse_slots_of_gradients(self) -> None:
        """Refuse gradients that are computed with what updates change besides weights, as with the scale of a loss."""
        slots = {v.handle for v in self._graph.variables if v.name in self._unit.slots}
        before = self._editor.index.ancestors(node_of(tensor) for point in self._gradients() for tensor in point.local)
        for name in sorted(before - self._updates()):
            read = slots.intersection(self._analysis.touched_by(name))
            if read:
                told = f"computes gradients with `{min(self._variables(read))}`, which their update reads later"
                raise _refusal(self._graph, name, told)

    def _variables(self, handles: Collection[str]) -> tuple[str, ...]:
        return tuple(variable.name for variable in self._graph.variables if variable.handle in handles)

    def _separate(self, late: Collection[str], waiting: Iterable[str], kept: Iterable[str]) -> None:
        """Part updates, which wait for the queue, from all other nodes: these run in steps that apply nothing.

        Raises:
            StrategyError: The step uses a value that has been updated, or what depends on a gradient.
        """
        for tensor in kept:
            if node_of(tensor) in late:
                raise _refusal(self._graph, node_of(tensor), "goes on with a gradient before it applies it")
        for tensor in (*self._graph.outputs, *self._graph.local_outputs):
            if node_of(tensor) in late:
                raise _refusal(self._graph, node_of(tensor), "returns what comes of a gradient or an update")
        for name in waiting:
            self._stop_waiting(name, late)
        # Of a step, updates only await the reads of what they change: these run again when what is left is applied.
        updates = {*late, *self._updates()}
        for name in (*updates, *self._touching_own(self._waits(updates).difference(late))):
            waits = self._waits([name]).difference(late)
            self._stop_waiting(name, waits - self._touching_own(waits))
        for name in sorted(self._editor.index.ancestors(late).difference(late).intersection(self._effects())):
            raise _refusal(self._graph, name, "reads a variable together with what has other effects")

    def _late(self, taken: str) -> tuple[set[str], set[str], list[str]]:
        """The nodes that need the queue, the handles that they only read, and those that only wait for such nodes."""
        index, sources, updates = self._editor.index, self._editor.index.sources, self._updates()
        late, after, touched, changed, waiting = {taken}, set[str](), set[str](), set(self._own), list[str]()
        for name in index.order:
            own = set(self._analysis.touched_by(name))
            needs, takes = not late.isdisjoint(index.needs[name]), not late.isdisjoint(sources[name])
            reads = needs and not changed.isdisjoint(own)
            if not takes and not (needs and name in updates) and not reads:
                if needs:
                    waiting.append(name)
                continue
            if name not in updates and self._is_after(sources[name], after):
                after.add(name)  # as a mean of weights over time, it is computed of what has been updated
            elif name not in updates and (reads or name in self._effects()) and not self._will_go(name):
                raise _refusal(self._graph, name, self._told_of(name))
            late.add(name)
            touched |= own
            changed.update(self._analysis.writes[name].handles if name in self._analysis.writes else ())
        return late, touched - changed, waiting

    def _will_go(self, name: str) -> bool:
        """Whether a node only changes parts of other workers."""
        handles = self._analysis.writes[name].handles if name in self._analysis.writes else ()
        variables = [variable for variable in self._graph.variables if variable.handle in handles]
        return bool(variables) and all({v.name, *v.owners} & self._elsewhere for v in variables)

    def _told_of(self, name: str) -> str:
        mixed = "what an update reads or makes together with other values"
        written = self._analysis.writes.get(name)
        return f"uses {mixed}" if written is None else f"changes `{min(self._variables(written.handles))}` by {mixed}"

    def _is_after(self, sources: Iterable[str], after: Collection[str]) -> bool:
        """Whether a node takes nothing but what is read after updates, variables and constants."""
        return all(s in after or s in self._analysis.handle_of or s in self._constants for s in sources)

    def _waits(self, names: Iterable[str]) -> set[str]:
        """The nodes that some nodes wait for, without their data."""
        return {node_of(tensor) for name in names for tensor in self._editor[name].input if tensor.startswith("^")}

    def _touching_own(self, names: Iterable[str]) -> set[str]:
        """Those of some nodes that read or change what the updates change."""
        return {name for name in names if self._own.intersection(self._analysis.touched_by(name))}

    def _stop_waiting(self, name: str, gone: Collection[str]) -> None:
        inputs = self._editor[name].input
        kept = [tensor for tensor in inputs if not tensor.startswith("^") or node_of(tensor) not in gone]
        if len(kept) < len(inputs):
            self._editor.set_inputs(name, kept)

    def _updates(self) -> set[str]:
        return {*self._region.nodes, *self._region.roots, *self._marks}

    def _effects(self) -> set[str]:
        return {*self._graph.effects, *self._analysis.writes}


def _unit(graph: DistributedGraph, variables: Iterable[str]) -> UpdatedUnit:
    """Variables that are updated together, with their slots."""
    names = tuple(dict.fromkeys(variables))
    slots = tuple(v.name for v in graph.variables if v.name not in names and not {*names}.isdisjoint(v.owners))
    return UpdatedUnit(min(names), names, slots)


def _note(steps: int) -> str:
    later = "a step" if steps == 1 else f"{steps} steps"
    return (
        f"gradients are applied {later} later than on one device (`staleness`), so weights differ from its weights; "
        "leave out `staleness` to have the same"
    )


def _refusal(graph: DistributedGraph, name: str, what: str) -> StrategyError:
    op = graph.nodes[name].op if name in graph.nodes else "Identity"
    return StrategyError(
        f"gradients are applied some steps later, but the step {what}: op `{name}` ({op})",
        hint="leave out `staleness`, or do that in a step of its own",
    )
