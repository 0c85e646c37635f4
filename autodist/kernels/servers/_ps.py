"""Parameter servers: one device holds the variable and its slots, and its own worker applies the update.

A worker sends each gradient as soon as it exists; the destination's worker receives one of each other worker, combines
them in rank order (so that a run can be replayed bit by bit), applies the update and hands every worker a token. Reads
of the next step come after the token, and no update starts before every worker has read and pushed, so that the step is
bulk-synchronous (thesis 7.3.2). Where a step itself goes on with the new value, that holds for each of its
:class:`UpdateEpochs`.

Variables whose updates can't be separated (a global norm, a loss scale) form one *unit* with one destination.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from autodist.graph import node_of, tensor_dtype
from autodist.kernels._base import Combine, DistributedGraph, Fact, Kernel, SyncPoint
from autodist.kernels._updated_units import units_of_handles, writes_of
from autodist.kernels.servers._channels import Streams
from autodist.kernels.servers._deferred_acknowledgements import deferred_units
from autodist.kernels.servers._proxy_streams import ProxyStreams
from autodist.kernels.servers._units import GradientPart, ServedUnit, parts_of, units_of
from autodist.kernels.servers._update_epochs import UpdateEpochs
from autodist.strategies import PSSynchronizer, Strategy, Synchronizer


@dataclass(frozen=True)
class ParameterServers(Kernel):
    """Move the variables that the strategy gives to PS, with their slots and updates, to their destinations.

    Attributes:
        strategy: Says which variables, and where to.
        step: Name of the compiled step, part of the streams' names.
        container: Resource container of the variables.
    """

    name: ClassVar[str] = "parameter-servers"
    needs: ClassVar[frozenset[Fact]] = frozenset({Fact.MESSAGES, Fact.STREAMED})
    provides: ClassVar[frozenset[Fact]] = frozenset({Fact.SERVED})
    synchronizer: ClassVar[type[Synchronizer]] = PSSynchronizer
    strategy: Strategy
    step: str
    container: str = ""

    def apply(self, graph: DistributedGraph) -> DistributedGraph:
        """See the module's docstring."""
        alone = graph.layout.world_size == 1  # no worker is ahead of another then
        units = [u for u in units_of(graph, self.strategy) if alone or not u.synchronizer.is_asynchronous]
        if not units:
            return graph
        placement = {name: graph.layout.tf_device(u.destination) for u in units for name in u.members}
        graph = graph.replace(placement=graph.placement | placement)
        if alone:
            return graph
        return _Rewriting(graph, units, self).apply()


class _Rewriting:
    """Rewrites one worker's graph for all units in one pass."""

    def __init__(self, graph: DistributedGraph, units: list[ServedUnit], kernel: ParameterServers) -> None:
        self.graph = graph
        self.layout = graph.layout
        self.nodes = graph.edit()
        self.units = {unit.name: unit for unit in units}
        self.bit = {name: 1 << k for k, name in enumerate(self.units)}
        self.channels = {unit.name: self._channels(number, unit, kernel) for number, unit in enumerate(units)}
        self.owners = {unit.name: self.layout.rank_of(unit.destination) for unit in units}
        self.served = [name for name, owner in self.owners.items() if owner == self.layout.rank]
        self.remote = [name for name, owner in self.owners.items() if owner != self.layout.rank]
        self.others = [rank for rank in range(self.layout.world_size) if rank != self.layout.rank]
        unit_of_variable = {name: unit.name for unit in units for name in unit.members}
        self.unit_of_handle = units_of_handles(units, graph.variables)
        self.points: dict[str, list[SyncPoint]] = {name: [] for name in self.units}
        for point in graph.points:
            if point.variable in unit_of_variable:
                self.points[unit_of_variable[point.variable]].append(point)
        self.analysis = graph.analyze()
        self.copies = ProxyStreams(
            self.nodes, self.layout, graph.variables, kernel.container, self.analysis, kernel.step
        )
        self.writes = writes_of(self.analysis, self.unit_of_handle)
        self.behind = self._behind_gradients()
        self.epochs = self._epochs()
        self.updates: dict[str, list[tuple[int, str]]] = {name: [] for name in self.units}
        """By unit, the nodes that change its variables, each with its epoch."""
        for write, unit in self.writes.items():
            self.updates[unit].append((self.epochs.of(write, unit), write))
        self.num_epochs = {name: self._count_epochs(name) for name in self.units}
        self.deferred = self._deferred()
        self.joint = [
            Streams(self.nodes, "", f"autodist/ps/of_{rank}", f"{kernel.step}/of_{rank}", self.layout.main_device)
            for rank in (range(self.layout.world_size) if self.deferred else ())
        ]

    def _channels(self, number: int, unit: ServedUnit, kernel: ParameterServers) -> Streams:
        # A number, because a variable's name is not always allowed as a node's name.
        prefix, shared = f"autodist/ps/{number}", f"{kernel.step}/{unit.name}"
        device = self.layout.tf_device(unit.destination)
        return Streams(self.nodes, device, prefix, shared, self.layout.main_device)

    def apply(self) -> DistributedGraph:
        inputs: dict[str, str] = {}
        arrivals: dict[str, list[list[str]]] = {}
        for name in self.served:
            inputs |= self._collect(name)
            arrivals[name] = self._arrivals(name)
        tokens = self._take_tokens()
        updated = {name: self._updated(name, tokens[name]) for name in self.remote}
        exports = self._exports()
        outputs = self._imported_outputs()
        effects = self._staying_effects()
        effects += self._hand_all_tokens()
        taken = [node for of_unit in (*tokens.values(), *updated.values()) for node in of_unit]
        self._rewire(inputs, arrivals, updated)
        alive = [*effects, *exports, *taken, *self._points_alive(), *self.graph.kept]
        self.nodes.prune([*map(node_of, outputs), *alive])
        pushes = self._pushes() + self._receive_values(updated)
        local_outputs = [
            new if new != old else local
            for old, new, local in zip(self.graph.outputs, outputs, self.graph.local_outputs, strict=True)
        ]
        gone = {point.name for name in self.remote for point in self.points[name]}
        return self.graph.edited(
            self.nodes,
            outputs=outputs,
            local_outputs=tuple(local_outputs),
            effects=(*effects, *exports, *pushes, *taken),
            points=tuple(p for p in self.graph.points if p.name not in gone),
        )

    # What belongs where ------------------------------------------------------------------------------------------

    def _behind_gradients(self) -> dict[str, int]:
        """By node, which units' synchronized gradients it needs, as a bit set in the order of `units`."""
        bits = {s: bit for name, bit in self.bit.items() for p in self.points[name] for s in p.synced}
        return self.analysis.gradient_bits(bits)

    def _epochs(self) -> UpdateEpochs:
        sent = [node_of(tensor) for point in self.graph.points for tensor in point.given]
        state = [name for point in self.graph.points if point.variable is None for name in point.synced]
        roots = [*self.graph.effects, *map(node_of, self.graph.outputs), *sent, *state]
        return UpdateEpochs(self.analysis, self.writes, self.behind, self.units, roots)

    def _epoch(self, unit: str, point: SyncPoint) -> int:
        return max(self.epochs.of(node_of(tensor), unit) for tensor in point.local)

    def _count_epochs(self, unit: str) -> int:
        return 1 + max([0, *self._changing_epochs(unit), *(self._epoch(unit, point) for point in self.points[unit])])

    def _deferred(self) -> frozenset[str]:
        """The units whose updates nothing waits for within the step, reads of copies included."""
        late = {
            unit
            for name, handles in self.analysis.reads.items()
            for unit in {self.unit_of_handle.get(handle, "") for handle in handles} & self.units.keys()
            if self.units[unit].proxied and self.epochs.of(name, unit) > 0
        }
        single = {unit for unit, count in self.num_epochs.items() if count == 1}
        return deferred_units(self.analysis, self.graph.points, self.writes) & single - late

    def _mask(self, names: list[str]) -> int:
        return sum(self.bit[name] for name in names)

    @staticmethod
    def _token(epoch: int, rank: int, verb: str) -> tuple[str, str]:
        """Channel and node of a token."""
        return f"token_{epoch}_to_{rank}", f"{verb}_token_{epoch}_to_{rank}"

    # What the destination's worker does --------------------------------------------------------------------------

    def _collect(self, unit: str) -> dict[str, str]:
        """Take every worker's gradients; returns what the synced nodes read."""
        inputs: dict[str, str] = {}
        channels = self.channels[unit]
        for number, point in enumerate(self.points[unit]):
            sent: list[Sequence[str]] = []
            for part in self._parts(unit, point):
                if part.rank == self.layout.rank:
                    sent.append(part.tensors(point))
                else:
                    channel = f"gradient_{number}_from_{part.label}"
                    after = [*self._own(unit, point), *self.graph.outstanding_sends.get(part.rank, ())]
                    name = channels.take(channel, _taken(number, part), point.dtypes, part.rank, after)
                    sent.append([f"{name}:{k}" for k in range(len(point.dtypes))])
            self.nodes.device = channels.device
            join = self.nodes.sum if point.combine is Combine.SUM else self.nodes.concat
            for k, synced in enumerate(point.synced):
                combined = f"{channels.prefix}/gradient_{number}/combined_{k}"
                inputs[synced] = join(combined, [tensors[k] for tensors in sent], point.dtypes[k])
        return inputs

    def _parts(self, unit: str, point: SyncPoint) -> list[GradientPart]:
        return parts_of(self.units[unit], point, self.layout)

    def _mine(self, unit: str, point: SyncPoint) -> list[GradientPart]:
        return [part for part in self._parts(unit, point) if part.rank == self.layout.rank]

    def _arrivals(self, unit: str) -> list[list[str]]:
        """By epoch, the nodes that have run when all workers are done with it."""
        channels = self.channels[unit]
        arrivals: list[list[str]] = []
        for epoch in range(self.num_epochs[unit]):
            numbers = [k for k, point in enumerate(self.points[unit]) if self._epoch(unit, point) == epoch]
            parts = [(k, part) for k in numbers for part in self._parts(unit, self.points[unit][k])]
            gradients = [f"{channels.prefix}/{_taken(k, part)}" for k, part in parts if part.rank != self.layout.rank]
            bare = [rank for rank in self.others if rank not in {part.rank for _, part in parts}]
            signals = [
                channels.take(f"stage_{epoch}_from_{r}", f"take_stage_{epoch}_from_{r}", ["bool"], r, ()) for r in bare
            ]
            arrivals.append(gradients + signals)
        return arrivals

    def _hand_all_tokens(self) -> list[str]:
        """Tell the other workers that updates are done; one message is for all updates that no node waits for."""
        handed = [token for name in self.served if name not in self.deferred for token in self._hand_tokens(name)]
        deferred = {name for name in self.served if name in self.deferred}
        done = [write for write, owner in self.writes.items() if owner in deferred]
        if deferred:
            own = self.joint[self.layout.rank]
            handed += [own.signal(*self._token(0, rank, "hand"), done, rank) for rank in self.others]
        for name in (name for name in self.served if name in deferred):
            handed += self.copies.send(self.units[name], 0, self._updates(name, 0), self.others)
        return handed

    def _hand_tokens(self, unit: str) -> list[str]:
        """Tell the other workers, epoch by epoch, that the updates are done and the values for their copies sent."""
        handed, sent = [], list[str]()
        for epoch in range(self.num_epochs[unit]):
            done = self._updates(unit, epoch)
            if epoch in self._changing_epochs(unit):
                # Before the token: what comes after it may change the variable again.
                sent += self.copies.send(self.units[unit], epoch, done, self.others)
            tell = self.channels[unit].signal
            handed += [tell(*self._token(epoch, rank, "hand"), [*done, *sent], rank) for rank in self.others]
        return handed

    def _updates(self, unit: str, epoch: int) -> list[str]:
        """The changes of a unit's variables up to the end of an epoch."""
        return [write for at, write in self.updates[unit] if at <= epoch]

    def _changing_epochs(self, unit: str) -> list[int]:
        return sorted({at for at, _ in self.updates[unit]})

    def _exports(self) -> list[str]:
        """Give the other workers those outputs that need synchronized gradients."""
        added = []
        for name in self.served:
            for number in self._outputs_behind(name):
                tensor = self.graph.outputs[number]
                dtype = tensor_dtype(self.graph.nodes, tensor)
                for rank in self.others:
                    channel = f"output_{number}_to_{rank}"
                    added.append(self.channels[name].put(channel, f"give_{channel}", [tensor], [dtype], (), rank))
        return added

    def _outputs_behind(self, unit: str) -> list[int]:
        mask = self._mask([unit])
        return [k for k, tensor in enumerate(self.graph.outputs) if self.behind.get(node_of(tensor), 0) & mask]

    # What every other worker does --------------------------------------------------------------------------------

    def _take_tokens(self) -> dict[str, list[str]]:
        """By unit and epoch, the node that has run when the unit's worker says that its updates are done."""
        own, checks = self.layout.rank, self.graph.checks
        owners = dict.fromkeys(self.owners[name] for name in self.remote if name in self.deferred)
        joint = {
            owner: self.joint[owner].take(
                *self._token(0, own, "take"), ["bool"], owner, [*self._sent_to(owner), *checks]
            )
            for owner in owners
        }
        tokens = {name: [joint[self.owners[name]]] for name in self.remote if name in self.deferred}
        for name in self.remote:
            if name not in self.deferred:
                epochs, owner = range(self.num_epochs[name]), self.owners[name]
                take = self.channels[name].take
                tokens[name] = [take(*self._token(s, own, "take"), ["bool"], owner, checks) for s in epochs]
        return tokens

    def _updated(self, unit: str, tokens: Sequence[str]) -> list[str]:
        """By epoch, the node after which a unit's variables, or this worker's copies of them, have their values."""
        if unit in self.deferred or not self.units[unit].proxied:
            return list(tokens)
        prefix = self.channels[unit].prefix
        self.nodes.device = self.layout.main_device
        return [self.nodes.add("NoOp", f"{prefix}/updated_{k}", [f"^{token}"]) for k, token in enumerate(tokens)]

    def _receive_values(self, updated: Mapping[str, Sequence[str]]) -> list[str]:
        """Set this worker's copies to the values that come after updates."""
        reads, received = self._reads(), []
        for name in (name for name in self.remote if self.units[name].proxied):
            for epoch in self._changing_epochs(name):
                before = [read for (unit, at), found in reads.items() if unit == name and at <= epoch for read in found]
                after = [*self._sent_of(name, epoch), *self.graph.checks]
                found = self.copies.receive(self.units[name], epoch, after, before)
                if name not in self.deferred:
                    self.nodes.wait_for(updated[name][epoch], found)
                received += found
        return received

    def _sent_of(self, unit: str, epoch: int) -> list[str]:
        """The makers of this worker's gradients of a unit, up to those of an epoch."""
        points = [point for point in self.points[unit] if self._epoch(unit, point) <= epoch]
        return [node for point in points for node in self._own(unit, point)]

    def _sent_to(self, owner: int) -> list[str]:
        """The makers of this worker's gradients that go to a worker."""
        units = [name for name in self.remote if self.owners[name] == owner]
        return [node for name in units for node in self._sent_of(name, self.num_epochs[name])]

    def _own(self, unit: str, point: SyncPoint) -> list[str]:
        """The makers of this worker's parts of a gradient."""
        return list(dict.fromkeys(node_of(t) for part in self._mine(unit, point) for t in part.tensors(point)))

    def _imported_outputs(self) -> tuple[str, ...]:
        outputs = list(self.graph.outputs)
        for name in self.remote:
            for number in self._outputs_behind(name):
                dtype = tensor_dtype(self.graph.nodes, self.graph.outputs[number])
                channel = f"output_{number}_to_{self.layout.rank}"
                outputs[number] = self.channels[name].take(
                    channel, f"take_output_{number}", [dtype], self.owners[name], self.graph.checks
                )
        return tuple(outputs)

    def _staying_effects(self) -> list[str]:
        """Effects on a unit's variables, or of its synchronized gradients, happen at its destination alone."""
        elsewhere = self._mask(self.remote)
        here = [e for e in self.graph.effects if not self.behind.get(e, 0) & elsewhere]
        return [e for e in here if not self.bit.get(self.writes.get(e, ""), 0) & elsewhere]

    def _rewire(
        self, inputs: dict[str, str], arrivals: dict[str, list[list[str]]], tokens: dict[str, list[str]]
    ) -> None:
        """Let synced nodes read what arrived, updates wait for arrivals, and others for tokens of remote updates."""
        for synced, combined in inputs.items():
            self.nodes.replace_input(synced, 0, combined)
        instead = {
            f"^{write}": f"^{tokens[unit][self.epochs.of(write, unit)]}"
            for write, unit in self.writes.items()
            if unit in tokens
        }
        self.nodes.redirect(instead)
        for write, unit in self.writes.items():
            before = arrivals.get(unit, [])[: self.epochs.of(write, unit) + 1]
            self.nodes.wait_for(write, [arrival for epoch in before for arrival in epoch])

    def _points_alive(self) -> list[str]:
        """The nodes that pruning must keep: this worker's parts of remote gradients, and points of other kernels."""
        mine = [
            node_of(tensor)
            for name in self.remote
            for point in self.points[name]
            for part in self._mine(name, point)
            for tensor in part.tensors(point)
        ]
        ours = {point.name for points in self.points.values() for point in points}
        served = [synced for name in self.served for point in self.points[name] for synced in point.synced]
        foreign = [p for p in self.graph.points if p.name not in ours]
        return mine + served + [n for p in foreign for n in (*p.synced, *map(node_of, p.given))]

    def _pushes(self) -> list[str]:
        """Push this worker's gradients after it has read their variables, or a signal if it has no gradients."""
        reads = self._reads()
        added = []
        for name in self.remote:
            channels, empty = self.channels[name], set(range(self.num_epochs[name]))
            for number, point in enumerate(self.points[name]):
                epoch = self._epoch(name, point)
                for part in self._mine(name, point):
                    empty.discard(epoch)
                    waits = reads.get((name, epoch), [])
                    channel, node = f"gradient_{number}_from_{part.label}", _pushed(number, part)
                    added.append(
                        channels.put(channel, node, part.tensors(point), point.dtypes, waits, self.owners[name])
                    )
            for epoch in sorted(empty):
                channel, waits = f"stage_{epoch}_from_{self.layout.rank}", reads.get((name, epoch), [])
                added.append(channels.signal(channel, f"push_stage_{epoch}", waits, self.owners[name]))
        return added

    def _reads(self) -> dict[tuple[str, int], list[str]]:
        """By unit and epoch, the reads of its variables among the nodes that are left."""
        units = set(self.remote)
        found: dict[tuple[str, int], list[str]] = {}
        for name, handles in self.analysis.reads.items():
            for unit in units & {self.unit_of_handle.get(h, "") for h in handles} if name in self.nodes else ():
                found.setdefault((unit, self.epochs.of(name, unit)), []).append(name)
        return found


def _taken(number: int, part: GradientPart) -> str:
    return f"gradient_{number}/take_from_{part.label}"


def _pushed(number: int, part: GradientPart) -> str:
    return f"push_gradient_{number}" + ("" if part.replica is None else f"_of_{part.replica}")
