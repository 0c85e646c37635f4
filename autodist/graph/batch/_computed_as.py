"""Which tensors are computed alike: masks that a program writes twice pick the same rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autodist.graph._graph_def import called_functions, data_inputs, is_stateful, split_tensor
from autodist.graph.operators import Passes, meaning, passes_on


class ComputedAs:
    """Names of tensors: two have one name only if they have one value, the same operators having made both.

    Args:
        nodes: The graph, or the body of a function.
        prefix: What names begin with, for those of a function.
    """

    def __init__(self, nodes: Mapping[str, Any], prefix: str = "") -> None:
        self._nodes = nodes
        self._prefix = prefix
        self._named: dict[str, str] = {}
        self._firsts: dict[tuple[Any, ...], str] = {}

    def of(self, tensor: str) -> str:
        """The name of a tensor."""
        name, index = split_tensor(tensor)
        stack = [name]
        while stack:
            node = self._nodes[stack[-1]]
            sources = [] if _is_by_itself(node) else [split_tensor(given)[0] for given in data_inputs(node)]
            unnamed = [source for source in sources if source not in self._named]
            if unnamed:
                stack.extend(unnamed)
            else:
                self._named[stack.pop()] = self._name(node)
        return f"{self._prefix}{self._named[name]}:{index}"

    def _name(self, node: Any) -> str:
        """The name of the first node that computes the same."""
        if _is_by_itself(node):
            return str(node.name)
        given = [split_tensor(tensor) for tensor in data_inputs(node)]
        if passes_on(node.op, Passes.SAME) and len(given) == 1 and not given[0][1]:
            return self._named[given[0][0]]
        attributes = ((k, v.SerializeToString(deterministic=True)) for k, v in node.attr.items() if k[0] != "_")
        key = (node.op, *sorted(attributes), *((self._named[name], index) for name, index in given))
        return self._firsts.setdefault(key, str(node.name))


def _is_by_itself(node: Any) -> bool:
    """Whether another node with the same inputs may have another value: it is fed, reads a state or calls functions."""
    if node.op == "Const":
        return False
    is_source = not data_inputs(node)
    return is_source or is_stateful(node.op) or meaning(node.op).calls_python or bool(list(called_functions(node)))
