"""Loops over `tf.range` whose turns are traced one after the other, as those over `range` are.

Replicas join gradients in the graph of a step, not within a loop. A step that takes gradients in turns of a known
number can be traced without the loop.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from autodist.graph._attribute_patches import Patches
from autodist.graph._graph_def import is_stateful
from autodist.graph.operators import Kind, is_kind

_MOST_TURNS = 64


@dataclass
class Unrolled:
    """The fate of the loops over `tf.range` in a trace.

    Attributes:
        loops: How many were unrolled.
        left: How many were not, since data, or the number of rows, say how often they turn.
    """

    loops: int = 0
    left: int = 0


@contextlib.contextmanager
def unrolling_ranges() -> Iterator[Unrolled]:
    """Trace the turns of loops over `tf.range` one by one, where their number is known and nothing ends them early."""
    from tensorflow.python.autograph.operators import control_flow
    from tensorflow.python.framework.smart_cond import smart_constant_value

    found = Unrolled()

    def wrap(original: Any) -> Any:
        @functools.wraps(original)
        def loop(iter_: Any, extra_test: Any, body: Any, *rest: Any) -> None:
            import tensorflow as tf

            bounds = [smart_constant_value(bound) for bound in iter_.op.inputs]
            is_known = iter_.dtype.is_integer and all(bound is not None for bound in bounds)
            turns = range(*map(int, bounds)) if is_known else None
            if turns is None or extra_test is not None or len(turns) > _MOST_TURNS:
                found.left += 1
                original(iter_, extra_test, body, *rest)
                return
            found.loops += 1
            for turn in turns:
                body(tf.constant(turn, iter_.dtype))

        return loop

    with Patches() as patches:
        patches.replace(control_flow, "_tf_range_for_stmt", wrap)
        yield found


def draws_by_order(graph_def: Any) -> bool:
    """Whether a step has random numbers that depend on how many operations were made before: a loop is one of them."""
    bodies = [graph_def.node, *(function.node_def for function in graph_def.library.function)]
    return any(is_kind(node.op, Kind.RANDOM) and is_stateful(node.op) for body in bodies for node in body)
