"""Whether steps can run on parts of their batches, checked for each number of rows that occurs."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from autodist.graph import CapturedStep, refuse_fixed_beside_rows, refuse_left_out_rows
from autodist.kernels import refuse_fixed_batches
from autodist.runtime.data import Arguments

_MOST = 8
"""Numbers of rows that a step is looked at with: it takes a part of the time of tracing each time. One row, and more
than ever, are looked at in any case: what fits several numbers need not fit these."""


class PartChecks:
    """Checks steps, and remembers for which numbers of rows they were checked.

    Args:
        num_replicas: Into how many parts batches go.
        are_planned: Whether replicas share steps in which examples meet tensor by tensor.
    """

    def __init__(self, num_replicas: int, *, are_planned: bool) -> None:
        self._num_replicas = num_replicas
        self._are_planned = are_planned
        self._rows: WeakKeyDictionary[Any, set[int | None]] = WeakKeyDictionary()
        """Per step, the numbers of rows that it was checked for; None if it does not depend on the number."""

    def check(self, captured: CapturedStep, arguments: Arguments, rows: int | None) -> None:
        """Check a step for a batch of this many rows, unless that was done before.

        Args:
            captured: The step.
            arguments: Those of a call.
            rows: How many the batch of all replicas has.

        Raises:
            CaptureError: Replicas can't do with parts of such a batch what one device does with all of it.
        """
        seen = self._rows.setdefault(captured.concrete, set())
        if rows in seen or rows == 0:
            return
        is_first = not seen
        if rows == 1:
            refuse_left_out_rows(captured.graph, captured.line_of)
            seen.add(1)
        if None in seen or self._num_replicas == 1:
            return
        if len(seen) >= _MOST and 1 < (rows or 0) <= max(filter(None, seen)):
            return
        graph = captured.graph.with_batch_size(rows)
        planned = (captured.graph.batch_size or 0) if self._are_planned else None
        depends = refuse_fixed_batches(
            graph, self._num_replicas, arguments.names, captured.line_of, planned_rows=planned
        )
        if is_first:
            refuse_fixed_beside_rows(graph, arguments.names, captured.line_of)
        seen.add(rows if depends else None)
