"""The order of dynamic programming over the breadth-first levels of a coarse graph."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from autodist.search.tilings._coarse_graph import CoarseGraph, CoarseOperator
from autodist.search.tilings._elimination import most_cells


def level_order(graph: CoarseGraph, sizes: Sequence[int]) -> list[int]:
    """Tensors in the order of the breadth-first levels of the operators that they bind (SoyBean, section 4.2.2).

    A tensor binds operators of at most two adjacent levels, so going through them in turn is dynamic programming over
    levels. Among some operators to begin with, the one with the smallest tables is taken.
    """
    users: list[list[int]] = [[] for _ in graph.tensors]
    for number, operator in enumerate(graph.operators):
        for tensor in set(operator.operands):
            users[tensor].append(number)
    count = len(graph.operators)
    scopes = [tuple(set(operator.operands)) for operator in graph.operators]
    orders = [
        _order_from(root, graph.operators, users) for root in dict.fromkeys((0, count // 2, count - 1)) if count
    ] or [list(range(len(sizes)))]
    return min(orders, key=lambda order: most_cells(scopes, sizes, order))


def _order_from(root: int, operators: Sequence[CoarseOperator], users: Sequence[Sequence[int]]) -> list[int]:
    level: dict[int, int] = {}
    for start in (root, *range(len(operators))):  # unconnected tensors come last
        if start in level:
            continue
        level[start] = max(level.values(), default=-1) + 1
        queue = deque([start])
        while queue:
            number = queue.popleft()
            for other in (u for t in operators[number].operands for u in users[t]):
                if other not in level:
                    level[other] = level[number] + 1
                    queue.append(other)
    last = [max((level[number] for number in using), default=0) for using in users]
    first = [min((level[number] for number in using), default=0) for using in users]
    return sorted(range(len(users)), key=lambda t: (last[t], first[t]))
