"""The least bytes of a coarse graph, found in two other ways: by trying everything, and by an integer program."""

import itertools
from collections import defaultdict
from math import inf

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_matrix

from autodist.cost.resharding import shares_between
from autodist.search.tilings import Tables


def _share(graph, lengths, tiles, tensor, source, target):
    dims = graph.dims[tensor]
    at = [tuple(dims.index(s) if s >= 0 else s for s in states) for states in (source, target)]
    return shares_between(lengths, max(1, len(dims)), tiles).between(*at)


def _operand_costs(graph, lengths, tiles, operator, place, combination, states):
    tensor = operator.operands[place]
    needed = tuple(form.states[place] for form in combination)
    way = (states, needed) if place < len(operator.inputs) else (needed, states)
    return _share(graph, lengths, tiles, tensor, *way) * graph.tensors[tensor].size_bytes * operator.count


def by_trying_all(graph, lengths, domains, tiles):
    """The least sum over operators, over all layouts of all tensors."""
    tables = Tables(graph, lengths, tiles)
    scopes = [tuple(dict.fromkeys(operator.operands)) for operator in graph.operators]
    costs = []
    for operator, scope in zip(graph.operators, scopes, strict=True):
        found = {}
        for layouts in itertools.product(*(domains[t] for t in scope)):
            at = dict(zip(scope, layouts, strict=True))
            found[layouts] = min(
                sum(
                    _operand_costs(graph, lengths, tiles, operator, place, c, at[t])
                    for place, t in enumerate(operator.operands)
                )
                for c in tables.combinations(operator)
            )
        costs.append(found)
    best = inf
    for layouts in itertools.product(*domains):
        best = min(best, sum(f[tuple(layouts[t] for t in scope)] for f, scope in zip(costs, scopes, strict=True)))
    return best


def by_integer_program(graph, lengths, domains, tiles):
    """The same by HiGHS: a layout per tensor, a combination per operator, and flows that couple the two."""
    tables = Tables(graph, lengths, tiles)
    cost, rows, integral = [], [], []

    def column(price, whole):
        cost.append(price)
        integral.append(whole)
        return len(cost) - 1

    lays = [{states: column(0.0, 1) for states in domain} for domain in domains]
    rows += [(dict.fromkeys(lay.values(), 1.0), 1.0) for lay in lays]
    scale = max(t.size_bytes for t in graph.tensors)
    for operator in graph.operators:
        among = tables.combinations(operator)
        chosen = {c: column(0.0, 1) for c in among}
        rows.append((dict.fromkeys(chosen.values(), 1.0), 1.0))
        for place, tensor in enumerate(operator.operands):
            by_layout, by_need = defaultdict(dict), defaultdict(dict)
            needs = {}
            for c in among:
                needs.setdefault(tuple(form.states[place] for form in c), c)
            for states, (need, c) in itertools.product(domains[tensor], needs.items()):
                price = _operand_costs(graph, lengths, tiles, operator, place, c, states)
                if price < inf:
                    number = column(price / scale, 0)
                    by_layout[states][number] = by_need[need][number] = 1.0
            for states, number in lays[tensor].items():
                rows.append(({**by_layout[states], number: -1.0}, 0.0))
            for need in needs:
                users = [k for c, k in chosen.items() if tuple(form.states[place] for form in c) == need]
                rows.append(({**by_need[need], **dict.fromkeys(users, -1.0)}, 0.0))
    entries = [(r, c, v) for r, (row, _) in enumerate(rows) for c, v in row.items()]
    at, columns, values = zip(*entries, strict=True)
    matrix = coo_matrix((values, (at, columns)), (len(rows), len(cost))).tocsr()
    right = np.array([value for _, value in rows])
    result = milp(
        np.array(cost), constraints=LinearConstraint(matrix, right, right), bounds=Bounds(0, 1),
        integrality=np.array(integral), options={"mip_rel_gap": 0.0},
    )  # fmt: skip
    assert result.success, result.message
    return result.fun * scale
