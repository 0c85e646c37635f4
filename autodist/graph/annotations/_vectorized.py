"""Gradients of many tensors at once, by ``tape.jacobian`` and ``tf.vectorized_map``: where the program gets them.

A vectorized loop makes new operators for all of its turns, without attributes, so the marks of gradients are lost.
Their names are kept, and so are the operators of one turn, which nothing uses any more: they have the marks.
"""

from __future__ import annotations

import re
from typing import Any

from autodist.graph.annotations._by_tensors import by_of
from autodist.graph.annotations._gradient_marks import MARK, parse_mark
from autodist.graph.batch import RETURNED

_NAME = re.compile(r"(.*autodist_(?:gradient/\w+|by_tensor(?:_\d+)?))(?:/pfor/IdentityN?(?:_\d+)?)+$")


def mark_vectorized(graph_def: Any) -> None:
    """Mark the gradients that come out of the vectorized loops of a traced graph by what they were taken of."""
    _mark(graph_def.node, "")
    for function in graph_def.library.function:
        _mark(function.node_def, ":output:0")


def _mark(nodes: Any, output: str) -> None:
    """Mark the gradients among some nodes.

    Args:
        nodes: The nodes of a graph or a function.
        output: The suffix by which inputs name a node's output.
    """
    found = [(node, match) for node in nodes if (match := _NAME.match(node.name))]
    of_one_turn = {node.name: node for node in nodes} if found else {}
    for node, match in found:
        if node.op == "IdentityN":  # of the gradient and its source
            gradient = nodes.add(name=f"{node.name}/gradient", op="Identity", input=node.input[:1])
            gradient.attr["T"].type = node.attr["T"].list.type[0]
            if "_output_shapes" in node.attr:
                gradient.attr["_output_shapes"].list.shape.add().CopyFrom(node.attr["_output_shapes"].list.shape[0])
            node.input[0] = gradient.name + output
        else:
            gradient = node
        gradient.attr[RETURNED].s = str(_target(of_one_turn.get(match[1]))).encode()


def _target(node: Any) -> int:
    """The number of the differentiation that a marked gradient comes from, -1 if that is not known."""
    if node is None:
        return -1
    by = by_of(node)
    return by.target if by is not None else parse_mark(node.attr[MARK].s).target if MARK in node.attr else -1
