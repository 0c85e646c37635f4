"""Completion of flat nodes: shapes of their results, and whether XLA has to compile them on CPUs."""

from __future__ import annotations

from typing import Any

from autodist.graph._graph_def import COMPILED, output_types, set_output_shapes
from autodist.graph._inferred_shapes import inferred_shapes
from autodist.graph.operators import meaning, signature_of


def complete(flat: Any) -> None:
    """Give all nodes the shapes of their results, and mark those that XLA has to compile on CPUs.

    Keras calls the latter in functions for XLA, and a flat graph has no calls.

    Args:
        flat: A flat graph, changed in place.
    """
    _fill_in_shapes(flat)
    nodes = {node.name: node for node in flat.node}
    for node in flat.node:
        needs = meaning(node.op).needs_compiler
        if needs is not None and needs(signature_of(node, nodes, lambda tensor: None)):
            node.attr[COMPILED].b = True


def _fill_in_shapes(flat: Any) -> None:
    """A function that a gradient goes through gives more results, and has renamed the nodes that are called like these.

    Tracing lists no shapes for renamed nodes.
    """
    lacking = [node for node in flat.node if not _has_shapes(node) and output_types(node)]
    inferred = inferred_shapes(flat) if lacking else {}
    for node in lacking:
        set_output_shapes(node, inferred[node.name])


def _has_shapes(node: Any) -> bool:
    return "_output_shapes" in node.attr and len(node.attr["_output_shapes"].list.shape) > 0
