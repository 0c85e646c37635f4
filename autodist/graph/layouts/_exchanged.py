"""The tensors that replicas exchange in a step before its gradients: for reports, files, and a warning."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from autodist.graph._graph_def import node_of
from autodist.graph._training_graph import TrainingGraph
from autodist.graph.layouts._base import Partial, Stretch, Whole, is_all_to_all
from autodist.graph.layouts._batch_plan import BatchPlan, Exchange, neighbours_bytes

_ROUNDS = {"gathered": 1, "added up": 2, "added up by rows": 1, "given to neighbours": 1}
"""By kind of exchange, how often the bytes of a tensor pass through a host, except its own part of them."""
_ALL_TO_ALL = "sent all to all"
"""Each host sends of its part what is in another one's part along the other dim."""


@dataclass(frozen=True)
class Exchanged:
    """A tensor that replicas exchange in each step.

    Attributes:
        node: The node that computes it.
        op: The type of that node.
        line: The user's ``file:line``; empty where it is not known.
        how: ``gathered``, ``added up``, ``added up by rows``, each replica getting the sum of its own, ``given
            to neighbours``, each replica getting what it needs around its part, or ``sent all to all``, parts along
            one dim for parts along another.
        size_bytes: Bytes of the tensor for the whole batch; of one that is given to neighbours, the bytes that are
            sent over a border between two replicas.

    Example:
        >>> Exchanged("tower/dense/BiasAdd", "BiasAdd", "train.py:31", "gathered", 4_000_000).sent_bytes(4)
        3000000.0
    """

    node: str
    op: str
    line: str
    how: str
    size_bytes: int

    @property
    def is_gathered(self) -> bool:
        """Whether each host gets the whole tensor, assembled from its parts."""
        return self.how == "gathered"

    def sent_bytes(self, hosts: int) -> float:
        """The least number of bytes that each of this many hosts has to send for it."""
        if self.how == _ALL_TO_ALL:
            return self.size_bytes * (hosts - 1) / hosts**2
        return _ROUNDS[self.how] * self.size_bytes * (hosts - 1) / hosts

    @staticmethod
    def save(exchanged: Iterable[Exchanged], path: Path) -> None:
        """Write some exchanges to a file."""
        path.write_text(json.dumps({"schema_version": 1, "exchanged": [asdict(one) for one in exchanged]}, indent=2))

    @classmethod
    def load(cls, path: Path) -> tuple[Exchanged, ...]:
        """Read what :meth:`save` wrote.

        Raises:
            ValueError: It is no such file.
        """
        try:
            found = json.loads(path.read_text())
            return tuple(cls(**fields) for fields in found["exchanged"])
        except (OSError, KeyError, TypeError) as error:
            raise ValueError(f"{path}: {error}") from error


def exchanged_in(graph: TrainingGraph, plan: BatchPlan) -> tuple[Exchanged, ...]:
    """The exchanges of a step's replicas, the largest first.

    Args:
        graph: The step, with the number of examples that sizes are for.
        plan: How replicas share it.
    """
    found = _found(graph, plan)
    return tuple(sorted(found, key=lambda one: (-one.size_bytes, one.node)))


def _found(graph: TrainingGraph, plan: BatchPlan) -> Iterator[Exchanged]:
    nodes = graph.analysis.nodes
    for tensor, exchanges in plan.exchanges.items():
        for exchange in exchanges:
            if not exchange.travels:
                continue
            name = node_of(tensor)
            size = plan.bytes_of(tensor, graph.batch_size or graph.fixed_rows or 0) * _copies(exchange, plan)
            if isinstance(exchange.target, Stretch):
                stretches = plan.stretches_of(tensor)
                if exchange.target != stretches[0]:
                    continue  # all stretches of a tensor are one exchange
                size = round(neighbours_bytes(stretches, size))
            yield Exchanged(name, nodes[name].op, graph.lines.get(name, ""), _kind(exchange), size)


def _copies(exchange: Exchange, plan: BatchPlan) -> int:
    """How many tensors of the full size are gathered for one: one per replica for a maximum or a similar reduction."""
    is_compared = isinstance(exchange.source, Partial) and exchange.source != Partial()
    return max(1, plan.tiled.parts) if is_compared else 1


def _kind(exchange: Exchange) -> str:
    if isinstance(exchange.target, Stretch):
        return "given to neighbours"
    if is_all_to_all(exchange.source, exchange.target):
        return _ALL_TO_ALL
    if exchange.source != Partial():
        return "gathered"
    return "added up" if isinstance(exchange.target, Whole) else "added up by rows"
