"""Mean and variance over the examples, in one meeting of the workers instead of two.

A variance needs the mean first, so that replicas would meet for the one, and then for the other. Instead each replica
takes the variance around the mean of its own rows, and all replicas get both. From them follow those of all rows, by
the formula of Chan, Golub and LeVeque ("Updating formulae and a pairwise algorithm for computing sample variances",
1979), which loses no more digits than the two passes of one device do; the difference of two large squares would.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from autodist.graph import data_inputs, node_of, tensor_dtype
from autodist.graph.layouts import WHOLE, BatchPlan, Cut, Exchange, Partial
from autodist.graph.operators import Passes, passes_on
from autodist.kernels._base import Combine
from autodist.kernels.replicate._shared_step import AddsToStep

_MOST_REPLICAS = 8
"""Each replica's moments go to all others: with more replicas than this, two sums send less."""
_DTYPES = ("float32", "float64")


@dataclass(frozen=True)
class Moments:
    """A mean, and the mean of the squared distances from it.

    Attributes:
        mean: Its node.
        variance: Its node.
        given: The tensor with the examples whose moments they are.
        dims: The tensor with the dims over which they are taken.
    """

    mean: str
    variance: str
    given: str
    dims: str


def moments_in(nodes: dict[str, Any], plan: BatchPlan, num_replicas: int) -> dict[str, Moments]:
    """The pairs of a step that replicas find together, by the mean's node.

    Args:
        nodes: The flat step, by name.
        plan: How its tensors are shared.
        num_replicas: The number of replicas.
    """
    if not 1 < num_replicas <= _MOST_REPLICAS or plan.tiled.parts:
        return {}
    found = (_pair(nodes, plan, name) for name in plan.order if _is_put_together(nodes, plan, name))
    return {pair.mean: pair for pair in found if pair is not None}


def _is_put_together(nodes: dict[str, Any], plan: BatchPlan, name: str) -> bool:
    """Whether a node is a mean over the examples that every worker needs whole."""
    return (
        nodes[name].op == "Mean"
        and tensor_dtype(nodes, name) in _DTYPES
        and Exchange(name, Partial(), WHOLE) in plan.exchanges.get(name, ())
        and [(type(way.inputs[0]), way.outputs) for way in plan.ways[name]] == [(Cut, (Partial(),))]
    )


def _pair(nodes: dict[str, Any], plan: BatchPlan, variance: str) -> Moments | None:
    distances = nodes[node_of(nodes[variance].input[0])]
    if distances.op != "SquaredDifference":
        return None
    given, mean = (tensor.removesuffix(":0") for tensor in data_inputs(distances))
    while mean in nodes and passes_on(nodes[mean].op, Passes.SAME):
        mean = nodes[mean].input[0].removesuffix(":0")
    if mean not in plan.ways or not _is_put_together(nodes, plan, mean):
        return None
    of_mean, dims = (tensor.removesuffix(":0") for tensor in data_inputs(nodes[mean]))
    is_same = given == of_mean and nodes[mean].attr["keep_dims"].b
    over, others = (plan.shapes.numbers(tensor) for tensor in (dims, nodes[variance].input[1]))
    sizes = [plan.shapes.shape(name) for name in (mean, variance)]
    is_known = all(isinstance(size, int) for shape in sizes for size in shape or (None,))
    return Moments(mean, variance, given, dims) if is_same and over == others is not None and is_known else None


class MomentsOfReplicas(AddsToStep):
    """Adds the nodes that find such pairs.

    Args:
        step: The step.
    """

    @cached_property
    def pairs(self) -> dict[str, Moments]:
        """See :func:`moments_in`."""
        return moments_in(self._nodes, self._plan, self._layout.num_replicas)

    def made(self, pair: Moments, given: Sequence[str], means: Sequence[str], dims: str) -> tuple[str, str]:
        """The mean and the variance of all rows.

        Args:
            pair: The mean and the variance.
            given: The tensor whose moments they are, by local replica.
            means: By local replica, its part of the mean: the sum of its elements over the number of all.
            dims: The tensor with the dims over which they are taken.
        """
        size = prod(size for size in self._plan.shapes.shape(pair.mean) or () if isinstance(size, int))
        dtype = tensor_dtype(self._nodes, pair.mean)
        rows = [self._row(pair, r, given[r], means[r], dims, (size, dtype)) for r in range(len(means))]
        local = self._out.concat(f"autodist/local/{pair.mean}", rows, dtype)
        gathered = self._points.at(f"{pair.mean}/moments", Combine.CONCAT, local, dtype, None)
        return self._of_all(pair, gathered, size, dtype)

    def _row(self, pair: Moments, replica: int, given: str, mean: str, dims: str, kind: tuple[int, str]) -> str:
        """A replica's part of the mean, that of the variance around its own mean, and its share of the rows."""
        (size, dtype), name = kind, f"replica_{replica}/autodist/moments/{pair.mean}"
        device = self._layout.replica_device(replica)
        share = self._rows.share(replica, dtype)
        own = self._out.add("DivNoNan", f"{name}/own", [mean, share], T=dtype, device=device)
        distances = self._out.add("SquaredDifference", f"{name}/distances", [given, own], T=dtype, device=device)
        kinds: dict[str, Any] = {"T": dtype, "Tidx": tensor_dtype(self._nodes, pair.dims), "keep_dims": True}
        summed = self._out.add("Sum", f"{name}/sum", [distances, dims], device=device, **kinds)
        count = self._rows.elements(pair.given, pair.mean, dtype, self._plan.shapes)
        variance = self._out.add("RealDiv", f"{name}/variance", [summed, count], T=dtype, device=device)
        parts = [
            self._out.reshape(f"{name}/{what}/row", part, [1, length], dtype)
            for what, part, length in (("mean", mean, size), ("variance", variance, size), ("share", share, 1))
        ]
        return self._out.concat(f"{name}/row", parts, dtype, 1)

    def _of_all(self, pair: Moments, gathered: str, size: int, dtype: str) -> tuple[str, str]:
        means, variances, shares = self._columns(gathered, (size, size, 1), dtype)
        out, first = self._out, self._out.constant(f"{gathered}/first", [0], "int32")
        kinds: dict[str, Any] = {"T": dtype, "Tidx": "int32", "keep_dims": True}
        mean = out.add("Sum", f"{gathered}/mean", [means, first], **kinds)
        own = out.add("DivNoNan", f"{gathered}/own", [means, shares], T=dtype)
        apart = out.add("SquaredDifference", f"{gathered}/apart", [own, mean], T=dtype)
        weighted = out.add("Mul", f"{gathered}/weighted", [apart, shares], T=dtype)
        both = out.add("AddV2", f"{gathered}/both", [variances, weighted], T=dtype)
        variance = out.add("Sum", f"{gathered}/variance", [both, first], **kinds)
        return self._like(pair.mean, mean, dtype), self._like(pair.variance, variance, dtype)

    def _columns(self, gathered: str, sizes: Sequence[int], dtype: str) -> Iterator[str]:
        lengths = self._out.constant(f"{gathered}/lengths", sizes, "int32")
        dim = self._out.constant(f"{gathered}/columns/dim", 1, "int32")
        kinds: dict[str, Any] = {"T": dtype, "Tlen": "int32", "num_split": len(sizes)}
        split = self._out.add("SplitV", f"{gathered}/columns", [gathered, lengths, dim], **kinds)
        return (f"{split}:{k}" if k else split for k in range(len(sizes)))

    def _like(self, node: str, found: str, dtype: str) -> str:
        shape = [size for size in self._plan.shapes.shape(node) or () if isinstance(size, int)]
        return self._out.reshape(f"autodist/synced/{node}", found, shape, dtype)
