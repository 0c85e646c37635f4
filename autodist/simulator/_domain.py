"""A graph on a cluster, as arrays: the domain of thesis 8.3.1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from autodist.cost import direct_share, shares_of
from autodist.cost.operations import DEVICE_FLOPS, activation_bytes, node_costs
from autodist.resource_spec import BYTES_PER_GBIT
from autodist.simulator._pruned_graph import neighbours
from autodist.simulator.profiles import Profile
from autodist.strategies import DEFAULT_BATCH_SIZE, in_backward_order
from autodist.transport import CODED_SHARE, is_coded, reduction_shares

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph, Variable
    from autodist.resource_spec import Link, ResourceSpec
    from autodist.simulator._message_table import Bools, Floats

_SLOWEST_FLOPS = 5e10
"""Operations per second below which a measured product is overhead: a small one, or one whose time is a loop's."""


@dataclass(frozen=True)
class Domain:
    """The facts that don't depend on the strategy: G on D with a batch and a profile.

    Attributes:
        graph: G.
        spec: D; every device that can hold a replica holds one.
        batch_size: Examples in the global batch.
        profile: Profile of one device with the whole batch.
        floor_s: Seconds of a step in which all workers compute at once and none communicates, if they were measured.
            It replaces the profile's time, which was measured on a device without other load.
    """

    graph: TrainingGraph
    spec: ResourceSpec
    batch_size: int
    profile: Profile
    floor_s: float | None = None

    @classmethod
    def of(
        cls,
        graph: TrainingGraph,
        spec: ResourceSpec,
        *,
        batch_size: int | None = None,
        profile: Profile | None = None,
        floor_s: float | None = None,
    ) -> Domain:
        """The domain of a graph on a cluster.

        Args:
            graph: G.
            spec: D.
            batch_size: Examples in the global batch; by default the graph's own, else
                :data:`~autodist.strategies.DEFAULT_BATCH_SIZE`.
            profile: By default an estimate.
            floor_s: Seconds of a step in which all workers compute and none communicates, if they were measured.
        """
        if batch_size not in (None, graph.batch_size):
            graph = replace(graph, batch_size=batch_size)  # builders use it as well
        size = graph.batch_size or DEFAULT_BATCH_SIZE
        return cls(graph, spec, size, (profile or Profile.estimate(graph, size)).scaled(size), floor_s)

    @cached_property
    def variables(self) -> tuple[Variable, ...]:
        """The trainable variables in the order in which their gradients become ready."""
        return tuple(in_backward_order(self.graph))

    @cached_property
    def number_of(self) -> dict[str, int]:
        """By name, a variable's place among :attr:`variables`."""
        return {variable.name: number for number, variable in enumerate(self.variables)}

    @cached_property
    def neighbours(self) -> Bools:
        """Whether two variables follow each other in the dataflow; shape (variables, variables)."""
        return neighbours(self.graph, self.variables)

    @cached_property
    def ranks(self) -> dict[str, int]:
        """By name, a host's rank."""
        return {host.name: rank for rank, host in enumerate(self.spec.hosts)}

    @cached_property
    def replicas(self) -> Floats:
        """By host, its number of replicas."""
        return np.array([len(host.replica_devices) for host in self.spec.hosts], np.float32)

    @cached_property
    def examples(self) -> Floats:
        """By host, its number of examples in a batch."""
        replicas = {host.name: len(host.replica_devices) for host in self.spec.hosts}
        shares = shares_of(replicas, self.batch_size, of_examples=self.graph.shares_examples)
        return np.array([share.examples for share in shares.values()], np.float32)

    @cached_property
    def seconds_per_byte(self) -> Floats:
        """By sender and receiver, seconds per byte; 0 within a host. Shape (hosts, hosts)."""
        return self._between(lambda link: 1.0 / (link.bandwidth_gbps * BYTES_PER_GBIT))

    @cached_property
    def has_coded_links(self) -> bool:
        """Whether any link is so slow that AutoDist's own library encodes floats for it."""
        return bool((self.coded_s_per_byte != self.seconds_per_byte).any())

    @cached_property
    def coded_s_per_byte(self) -> Floats:
        """As :attr:`seconds_per_byte`, for floats that are encoded on slow links."""
        return self._between(lambda link: _coded_share(link.bandwidth_gbps) / (link.bandwidth_gbps * BYTES_PER_GBIT))

    @cached_property
    def own_share(self) -> Floats:
        """By host and peer, how long bytes keep the host's own link busy, as a share of the time that they take.

        A peer with a slow link leaves a fast host time for others. Shape (hosts, hosts).
        """
        between = self.seconds_per_byte
        own_s = np.where(between > 0, between, np.inf).min(1, keepdims=True)
        found: Floats = np.divide(own_s, between, out=np.ones_like(between), where=between > 0)
        return found

    @cached_property
    def ring_s_per_byte(self) -> float:
        """Time per byte of the slowest link on the ring of hosts by rank: 1 / b_m of equation 8.3."""
        return float(_ring(self.seconds_per_byte).max())

    @cached_property
    def ring_latency_s(self) -> float:
        """The longest latency on the ring of hosts."""
        return float(_ring(self.latency_s).max())

    @cached_property
    def direct_s_per_byte(self) -> float:
        """Seconds per byte of all hosts' data if each sends its part to each other: those of the slowest host."""
        return float(self.seconds_per_byte.mean(1).max())

    @cached_property
    def direct_coded_s_per_byte(self) -> float:
        """As :attr:`direct_s_per_byte`, for floats that are encoded on slow links."""
        return float(self.coded_s_per_byte.mean(1).max())

    @cached_property
    def divided_s_per_byte(self) -> float:
        """Seconds per byte of a tensor that AutoDist's own library sums: each host sums in proportion to its bandwidth.

        A host's bandwidth is that of the spec, but at most that of its best link.
        """
        return self._divided(self.seconds_per_byte, lambda rate: 1.0)

    @cached_property
    def divided_coded_s_per_byte(self) -> float:
        """As :attr:`divided_s_per_byte`, for floats that are encoded on slow links."""
        return self._divided(self.coded_s_per_byte, _coded_share)

    def _divided(self, seconds_per_byte: Floats, share: Callable[[float], float]) -> float:
        rates = [host.bandwidth_gbps or 1.0 for host in self.spec.hosts]
        best_s = np.where(np.eye(len(rates), dtype=bool), np.inf, seconds_per_byte).min(1)
        own_s = np.array([share(rate) / (rate * BYTES_PER_GBIT) for rate in rates])
        seconds = np.maximum(np.where(np.isinf(best_s), 0.0, best_s), own_s)
        return float((np.array([direct_share(len(rates), part) for part in reduction_shares(rates)]) * seconds).max())

    @cached_property
    def burst_s(self) -> Floats:
        """By link, those for sending by host, then those for receiving: seconds of what passes at once after a rest."""
        of_hosts = [host.burst_kb * 1e3 / (host.bandwidth_gbps * BYTES_PER_GBIT) for host in self.spec.hosts]
        return np.array(of_hosts * 2, np.float32)

    @cached_property
    def latency_s(self) -> Floats:
        """One-way latency in seconds; 0 within a host or without a link in the spec. Shape (senders, receivers)."""
        listed = {frozenset((link.a, link.b)) for link in self.spec.links}
        return self._between(lambda link: link.latency_ms / 1e3 if frozenset((link.a, link.b)) in listed else 0.0)

    def _between(self, of: Callable[[Link], float]) -> Floats:
        names = [host.name for host in self.spec.hosts]
        rows = [[0.0 if a == b else of(self.spec.link(a, b)) for b in names] for a in names]
        return np.array(rows, np.float32)

    @cached_property
    def compute_s(self) -> float:
        """Seconds of the computation of the replica with the most examples."""
        return self.profile.step_s * self._slowest

    @cached_property
    def needed_s(self) -> Floats:
        """By variable, seconds from the step's begin until the slowest replica needs its value."""
        times = [self.profile.needed_s.get(v.name, 0.0) for v in self.variables]
        return np.array(times, np.float32) * np.float32(self._slowest)

    @cached_property
    def ready_s(self) -> Floats:
        """By variable, seconds from the step's begin until the slowest replica has its gradient."""
        times = [self.profile.ready_s.get(v.name, self.profile.step_s) for v in self.variables]
        return np.array(times, np.float32) * np.float32(self._slowest)

    @cached_property
    def sizes_bytes(self) -> Floats:
        """By variable, bytes of its value."""
        return np.array([variable.size_bytes for variable in self.variables], np.float32)

    @cached_property
    def slot_bytes(self) -> Floats:
        """By variable, bytes of its optimizer slots; a slot of several variables is divided among them."""
        found = np.zeros(len(self.variables), np.float32)
        for slot in self._slots:
            for owner in slot.owners:
                found[self.number_of[owner]] += slot.size_bytes / len(slot.owners)
        return found

    @cached_property
    def other_bytes(self) -> int:
        """Bytes of each worker's other variables: statistics, counters, seeds."""
        known = {variable.name for variable in (*self.variables, *self._slots)}
        return sum(variable.size_bytes for variable in self.graph.variables if variable.name not in known)

    @property
    def _slots(self) -> list[Variable]:
        slots = [variable for variable in self.graph.variables if variable.role.value == "slot"]
        if any(len(slot.owners) > 1 for slot in slots) and self.graph.graph_def is not None:
            own = {v.name: v.owners for v in self.graph.in_parts.variables}  # what shares a norm shares no slots
            slots = [replace(slot, owners=own[slot.name] or slot.owners) for slot in slots]
        return [slot for slot in slots if slot.owners and all(owner in self.number_of for owner in slot.owners)]

    @cached_property
    def dense_gradients(self) -> Floats:
        """By variable, the number of its dense gradients."""
        counts = [sum(not gradient.is_sparse for gradient in v.gradients) for v in self.variables]
        return np.array(counts, np.float32)

    @cached_property
    def activation_bytes(self) -> float:
        """Estimated bytes of activations that the replica with the most examples keeps within a step."""
        replicas = int(self.replicas.sum())
        if self.graph.shares_examples:
            return activation_bytes(self.graph, self.batch_size) / replicas
        return activation_bytes(self.graph, -(-self.batch_size // replicas))

    @cached_property
    def memory_bytes(self) -> Floats:
        """By host, the bytes of memory that its worker may use; infinite where the spec does not say."""
        limits = [np.inf if host.memory_gb is None else host.memory_gb * 1e9 for host in self.spec.hosts]
        return np.array(limits, np.float32)

    @cached_property
    def flops_per_s(self) -> float:
        """The operations of a device per second in products of matrices, by the profile if it was measured."""
        taken_s = self.profile.op_s.get("MatMul", 0.0) if self.profile.source == "measured" else 0.0
        if not taken_s or self.graph.graph_def is None:
            return DEVICE_FLOPS
        nodes = self.graph.analysis.nodes
        costs = node_costs(self.graph, self.profile.batch_size).items()
        flops = sum(cost.flops for name, cost in costs if nodes[name].op == "MatMul")
        return max(_SLOWEST_FLOPS, flops / taken_s)

    @property
    def slowdown(self) -> float:
        """The ratio of the computation's time to that on a host that shares its cores with no other.

        It is at most the number of hosts that share cores, if that is known: other costs do not grow with the work.
        """
        found, shared = self._slowest / self._largest_share, self.spec.cores_shared_by
        return min(found, float(shared)) if shared > 1 else found

    @cached_property
    def state_messages(self) -> int:
        """The number of messages for all but gradients if each statistic travels alone: one is for losses and sizes."""
        return 1 + sum(variable.role.value == "statistic" for variable in self.graph.variables)

    @property
    def _slowest(self) -> float:
        """The time of the replica with the most examples as a fraction of the profile's, which ran alone."""
        if self.floor_s is not None and self.profile.step_s > 0:
            return self.floor_s / self.profile.step_s
        # Workers whose threads are as many as the cores take as long together as one alone with its threads.
        return self._largest_share * max(1.0, self.spec.cores_shared_by * self.profile.cores_share)

    @property
    def _largest_share(self) -> float:
        replicas = int(self.replicas.sum())
        return 1 / replicas if self.graph.shares_examples else -(-self.batch_size // replicas) / self.batch_size


def _ring(between: Floats) -> Floats:
    """Entries between each host and the next one by rank, of a matrix of all hosts."""
    ranks = np.arange(len(between))
    found: Floats = between[ranks, np.roll(ranks, -1)]
    return found


def _coded_share(bandwidth_gbps: float) -> float:
    return CODED_SHARE if is_coded(bandwidth_gbps) else 1.0
