"""Factor: let the sufficient factors of a dense gradient travel in its place (Poseidon; thesis chapter 3).

The mark of a gradient that is ``left^T right`` gives way to marks on the two factors, which have a row per example. The
product, and what is added to it, is computed after them, so that all that follows sees two tensors of rows to be
concatenated over replicas, and computes the gradient of the whole batch wherever the update needs it.

A factor with one-hot rows travels as the places of their ones, and the product is the sum of the other's rows by place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from autodist.errors import StrategyError
from autodist.graph import (
    ID_DTYPE,
    MARK,
    Factor,
    FactoredGradient,
    Gradient,
    GradientMark,
    GraphEditor,
    Ids,
    NodeList,
    Product,
    TrainingGraph,
    Variable,
    factors_of,
    node_of,
)
from autodist.kernels._base import Fact, Preparation
from autodist.kernels.shard import with_shape
from autodist.strategies import Strategy, VariableConfig


@dataclass(frozen=True)
class FactorGradients(Preparation):
    """Marks factors where the strategy asks for them, and removes the request from the strategy."""

    name: ClassVar[str] = "factor-gradients"
    needs: ClassVar[frozenset[Fact]] = frozenset({Fact.SHARDS})
    provides: ClassVar[frozenset[Fact]] = frozenset({Fact.FACTORS})

    def apply(self, graph: TrainingGraph, strategy: Strategy) -> tuple[TrainingGraph, Strategy]:
        """See the class; every gradient that S asks to factor can be factored."""
        wanted = {config.variable for config in strategy.variables if config.is_factored}
        if not wanted:
            return graph, strategy
        rewriting = _Factoring(graph)
        variables = tuple(rewriting.factored(v) if v.name in wanted else v for v in graph.variables)
        factored = replace(graph, graph_def=rewriting.editor.finish(), variables=variables)
        return factored, replace(strategy, variables=tuple(map(_without_encoder, strategy.variables)))


def _without_encoder(config: VariableConfig) -> VariableConfig:
    """The config of a variable after the factors have become messages of their own."""
    if not config.is_factored:
        return config
    return replace(config, shards=tuple(replace(shard, compressor=None) for shard in config.shards))


class _Factoring:
    """Rewrites a copy of the graph, gradient by gradient."""

    def __init__(self, graph: TrainingGraph) -> None:
        self._source = graph
        copy = type(graph.graph_def)()
        copy.CopyFrom(graph.graph_def)
        self.editor = GraphEditor(copy)

    def factored(self, variable: Variable) -> Variable:
        """The variable with factored gradients; the graph changes accordingly."""
        factors = factors_of(self._source, variable.name)
        if factors.obstacle is not None:
            raise StrategyError(
                f"`{variable.name}` can't be sent as sufficient factors: {factors.obstacle}",
                hint="give it another compressor, or none",
            )
        gradients = tuple(part for gradient in factors.gradients for part in self._gradient(gradient))
        return replace(variable, gradients=gradients)

    def _gradient(self, gradient: FactoredGradient) -> list[Gradient]:
        """Put marks before the products, and copies of the products and the tail after them."""
        out = self.editor
        prefix = f"autodist/factors/{gradient.mark}"
        mark = self._source.analysis.marks[gradient.mark]
        made: dict[str, str] = {}
        parts = []
        for number, product in enumerate(gradient.products):
            name = f"{prefix}/product_{number}"
            left = _marked(out, f"{name}/left", product, product.left, replace(mark, part="left"))
            right = _marked(out, f"{name}/right", product, product.right, replace(mark, part="right"))
            made[product.node] = _product(out, name, product, left, right)
            parts.append(Gradient(left=left, right=right))
        for tail in gradient.tail:  # the old ones remain for their other readers
            node = out[tail]
            inputs = [tensor if tensor.startswith("^") else made.get(node_of(tensor), tensor) for tensor in node.input]
            made[tail] = out.clone(node, f"{prefix}/{tail}", inputs, device=node.device, without=())
        node = out[gradient.mark]
        del node.attr[MARK]
        out.replace_input(gradient.mark, 0, made[node_of(node.input[0])])
        return parts


def _marked(out: NodeList, name: str, product: Product, factor: Factor, mark: GradientMark) -> str:
    """A factor as a matrix of rows, or of the places of the ones in them, after a mark."""
    dtype, width = product.message_dtype(factor), factor.message_width
    tensor = _rows(out, name, factor, dtype) if factor.ids is None else _places(out, name, factor.width, factor.ids)
    rows = with_shape(out, out.reshape(f"{name}/rows", tensor, [-1, width], dtype), (None, width))
    with_shape(out, out.identity(name, rows, dtype), (None, width))
    out.nodes[-1].attr[MARK].s = mark.encode()
    return name


def _rows(out: NodeList, name: str, factor: Factor, dtype: str) -> str:
    """The factor with its contracted dims first."""
    if factor.dims == tuple(range(len(factor.dims))):
        return factor.tensor
    return _transposed(out, f"{name}/rows_first", factor.tensor, factor.dims, dtype)


def _places(out: NodeList, name: str, width: int, ids: Ids) -> str:
    """The places of ones; those outside a row become -1, for which nothing is added."""
    place = out.cast(f"{name}/ids", ids.tensor, ids.dtype, "int64")
    none, end = out.constant(f"{name}/none", -1, "int64"), out.constant(f"{name}/end", width, "int64")
    is_within = out.add("Less", f"{name}/is_within", [place, end], T="int64")
    known = out.add("SelectV2", f"{name}/known", [is_within, place, none], T="int64")
    return out.cast(f"{name}/places", known, "int64", ID_DTYPE)


def _product(out: NodeList, name: str, product: Product, left: str, right: str) -> str:
    """The product of two matrices of rows, with the dims that the original has."""
    tensor = _multiplied(out, name, product, left, right)
    sizes = (*product.left.sizes, *product.right.sizes)
    if len(sizes) != 2:
        tensor = out.reshape(f"{name}/dims", tensor, sizes, product.dtype)
    if product.dims != tuple(range(len(product.dims))):
        tensor = _transposed(out, f"{name}/order", tensor, product.dims, product.dtype)
    return tensor


def _multiplied(out: NodeList, name: str, product: Product, left: str, right: str) -> str:
    """``left^T right``: with one-hot rows, the sums of the other's rows by the places of the ones."""
    value, dtype = f"{name}/value", product.dtype
    if product.left.ids is not None:
        return _summed_by_place(out, value, right, left, product.left.width, dtype)
    if product.right.ids is not None:
        columns = _summed_by_place(out, f"{value}/columns", left, right, product.right.width, dtype)
        return _transposed(out, value, columns, (1, 0), dtype)
    return out.add("MatMul", value, [left, right], T=dtype, transpose_a=True, transpose_b=False)


def _summed_by_place(out: NodeList, name: str, rows: str, places: str, count: int, dtype: str) -> str:
    flat = out.reshape(f"{name}/places", places, [-1], ID_DTYPE)
    number = out.constant(f"{name}/count", count, "int32")
    return out.add("UnsortedSegmentSum", name, [rows, flat, number], T=dtype, Tindices=ID_DTYPE, Tnumsegments="int32")


def _transposed(out: NodeList, name: str, tensor: str, dims: tuple[int, ...], dtype: str) -> str:
    order = out.constant(f"{name}/dims", list(dims), "int32")
    return out.add("Transpose", name, [tensor, order], T=dtype, Tperm="int32")
