"""A simulator's expectations of strategies, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autodist.report._cells import fitted, table_console
from autodist.report._search_console import against, milliseconds, money


@dataclass(frozen=True)
class PredictionRow:
    """A strategy as a line.

    Attributes:
        origin: What proposed it, or what users call it.
        predicted_s: Seconds of a step; None if it was not looked at.
        mixture: What the strategy consists of, in words.
        note: Why it was not looked at; may be empty.
        cost: What training costs with it; None if that is not known.
        hosts: How many hosts it uses, where they are not all.
    """

    origin: str
    predicted_s: float | None
    mixture: str = ""
    note: str = ""
    cost: float | None = None
    hosts: str = ""


def show_predictions(
    rows: Sequence[PredictionRow],
    reference_s: float | None = None,
    *,
    unit: str = "",
    reference_cost: float | None = None,
) -> None:
    """Show predictions in the order given, on standard output.

    Args:
        rows: The strategies.
        reference_s: Seconds of a step to which others are compared; None leaves that out.
        unit: What costs are for.
        reference_cost: To which the costs of others are compared instead of their steps.
    """
    console = table_console()
    columns = {
        "From": [row.origin for row in rows],
        "Predicted ms/step": ["-" if row.predicted_s is None else milliseconds(row.predicted_s) for row in rows],
        f"Cost/{unit}": [money(row.cost) for row in rows],
        "Against": [_against(row, reference_s, reference_cost) for row in rows],
        "Hosts": [row.hosts for row in rows],
        "Strategy": [row.mixture for row in rows],
        "Note": [row.note for row in rows],
    }
    right = ("Predicted ms/step", "Against", f"Cost/{unit}")
    shrink = {"From": 16, "Strategy": 24, "Note": 24}
    console.print(fitted(columns, console.width, right=right, shrink=shrink, ends=False))


def _against(row: PredictionRow, reference_s: float | None, reference_cost: float | None) -> str:
    return against(row.predicted_s, reference_s) if reference_cost is None else against(row.cost, reference_cost)
