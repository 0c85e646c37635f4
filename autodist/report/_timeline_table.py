"""A traced step as a table: where its time goes on each worker."""

from __future__ import annotations

from collections.abc import Sequence

from autodist.report._cells import fitted, megabytes, table_console
from autodist.report._search_console import milliseconds
from autodist.timeline import WorkerSummary


def show_timeline(workers: Sequence[WorkerSummary], step_s: float) -> None:
    """Show where the time of a traced step goes, on standard output.

    Args:
        workers: By rank.
        step_s: Seconds of a step that is not traced.
    """
    console = table_console()
    columns = {
        "Worker": [str(rank) for rank in range(len(workers))],
        "Host": [worker.host for worker in workers],
        "Step ms": [milliseconds(worker.step_s) for worker in workers],
        "Compute": [_share(worker.compute_s, worker) for worker in workers],
        "Exposed": [_share(worker.exposed_s, worker) for worker in workers],
        **_unless_none("Serving", [_share(w.serve_s, w) for w in workers], any(w.serve_s for w in workers)),
        "Idle": [_share(worker.idle_s, worker) for worker in workers],
        "Transfer ms": [milliseconds(worker.communication_s) for worker in workers],
        **_unless_none("In MB", [megabytes(w.received_bytes) for w in workers], any(w.received_bytes for w in workers)),
        **_unless_none("Out MB", [megabytes(w.sent_bytes) for w in workers], any(w.sent_bytes for w in workers)),
    }
    right = [title for title in columns if title != "Host"]
    console.print(fitted(columns, console.width, right=right, shrink={"Host": 8}))
    traced_s = max(worker.step_s for worker in workers)
    console.print(
        f"a step takes {milliseconds(step_s)} ms, traced {milliseconds(traced_s)} ms; exposed is communication that "
        "nothing hides, transfer all of it",
        soft_wrap=True,
    )


def _unless_none(title: str, cells: list[str], has_any: bool) -> dict[str, list[str]]:
    """A column, unless it has nothing to say about any worker."""
    return {title: cells} if has_any else {}


def _share(time_s: float, worker: WorkerSummary) -> str:
    return f"{time_s / worker.step_s:.0%}" if worker.step_s else "-"
