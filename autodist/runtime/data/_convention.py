"""The meaning of a batch and a loss in a scope."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from autodist.errors import UsageError


@dataclass(frozen=True)
class Convention:
    """The meaning of a batch and a loss.

    Attributes:
        batch: ``"global"``: a step receives the whole batch, on every worker the same; ``"local"``: each worker brings
            its own part.
        gradient_reduction: ``"mean"`` for losses that are means over the batch, ``"sum"`` for sums; ``"auto"`` decides
            for each gradient, by the loss whose gradient it is.
        evaluation: ``"shared"``: the replicas share the batches of Keras' ``evaluate`` and ``predict``; ``"whole"``:
            every worker runs them on its own.
        batch_norm: What batch normalization in training normalizes by: ``"replica"``, its replica's part of the batch,
            or ``"synchronized"``, the whole batch.
    """

    batch: Literal["global", "local"] = "global"
    gradient_reduction: Literal["auto", "mean", "sum"] = "auto"
    evaluation: Literal["shared", "whole"] = "shared"
    batch_norm: Literal["replica", "synchronized"] = "replica"

    def brings_own(self, is_part: bool) -> bool:
        """Whether each worker brings a batch of its own.

        Args:
            is_part: Whether what it has is known to be its part of a global batch.
        """
        return self.batch == "local" and not is_part


def check_convention(batch: str, gradient_reduction: str, evaluation: str, batch_norm: str = "replica") -> Convention:
    """The convention of these names.

    Raises:
        UsageError: Some of them are unknown; all mistakes are listed.
    """
    mistakes = []
    if batch not in ("global", "local"):
        mistakes.append(f"`batch` is {batch!r}, allowed: 'global', 'local'")
    if gradient_reduction not in ("auto", "mean", "sum"):
        mistakes.append(f"`gradient_reduction` is {gradient_reduction!r}, allowed: 'auto', 'mean', 'sum'")
    if evaluation not in ("shared", "whole"):
        mistakes.append(f"`evaluation` is {evaluation!r}, allowed: 'shared', 'whole'")
    if batch_norm not in ("replica", "synchronized"):
        mistakes.append(f"`batch_norm` is {batch_norm!r}, allowed: 'replica', 'synchronized'")
    if mistakes:
        raise UsageError("; ".join(mistakes), hint="see `help(autodist.AutoDist)` for what they mean")
    return Convention(batch, gradient_reduction, evaluation, batch_norm)  # type: ignore[arg-type]
