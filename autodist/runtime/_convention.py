"""What a batch and a loss mean in a scope."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from autodist.errors import UsageError

__all__ = ["Convention", "check_convention"]


@dataclass(frozen=True)
class Convention:
    """What a batch and a loss mean.

    Attributes:
        batch: ``"global"``: a step receives the whole batch, on every worker the same; ``"local"``: each worker brings
            its own part.
        gradient_reduction: ``"mean"`` for losses that are means over the batch, ``"sum"`` for sums; ``"auto"`` finds
            out for each gradient from what it was taken of.
        evaluation: ``"shared"``: the replicas share the batches of Keras' ``evaluate`` and ``predict``; ``"whole"``:
            every worker runs them on its own.
    """

    batch: Literal["global", "local"] = "global"
    gradient_reduction: Literal["auto", "mean", "sum"] = "auto"
    evaluation: Literal["shared", "whole"] = "shared"


def check_convention(batch: str, gradient_reduction: str, evaluation: str) -> Convention:
    """The convention of these names.

    Raises:
        UsageError: One of them is unknown; all mistakes are listed.
    """
    mistakes = []
    if batch not in ("global", "local"):
        mistakes.append(f"`batch` is {batch!r}, allowed: 'global', 'local'")
    if gradient_reduction not in ("auto", "mean", "sum"):
        mistakes.append(f"`gradient_reduction` is {gradient_reduction!r}, allowed: 'auto', 'mean', 'sum'")
    if evaluation not in ("shared", "whole"):
        mistakes.append(f"`evaluation` is {evaluation!r}, allowed: 'shared', 'whole'")
    if mistakes:
        raise UsageError("; ".join(mistakes), hint="see `help(autodist.AutoDist)` for what they mean")
    return Convention(batch, gradient_reduction, evaluation)  # type: ignore[arg-type]
