"""Weights of replicas' gradients, so that they add up to that of the whole batch.

It is the replica's share of the batch if the loss is a mean, and 1 if it is a sum. A gradient with which
replicas compute is weighted at once: see `graph/annotations/_by_tensors.py`.
"""

from __future__ import annotations

from functools import cached_property

from autodist.errors import CaptureError
from autodist.graph import ROWLIKE, Reduction, StepAnalysis
from autodist.kernels.replicate._demand import NodeDemand


class GradientWeights:
    """Finds the weight of each gradient: ``share`` or ``active``, as :meth:`BatchShares.scalar` takes them.

    Args:
        analysis: The flat step.
        demand: Which tensors are joined.
        gradient_reduction: ``auto``, ``mean`` or ``sum``.
    """

    def __init__(self, analysis: StepAnalysis, demand: NodeDemand, gradient_reduction: str) -> None:
        self._analysis = analysis
        self._demand = demand
        self._gradient_reduction = gradient_reduction

    def of(self, gradient: str) -> str:
        """The weight of a gradient, with respect to a variable or to a tensor."""
        return self._of(self._analysis.reduction(gradient))

    def _of_target(self, target: int) -> str:
        """The weight of all gradients of one differentiation."""
        return self._of(self._analysis.reduction_of_target(target))

    def behind(self, name: str) -> str:
        """The weight of the gradients that depend on a joined value.

        Raises:
            CaptureError: They have none in common.
        """
        if name in self._analysis.by_tensors:
            return self.of(name)
        weights = self._behind[name]
        if len(weights) > 1:
            raise CaptureError(
                f"the gradients of a mean and of a sum over the batch are both made of the value of op `{name}`, which "
                "the replicas exchange once",
                hint="take both losses as means, or both as sums, or take each gradient in a step of its own",
            )
        return next(iter(weights))

    def exchanged(self, name: str) -> str | None:
        """The op that applies the share of the batch to a gradient that replicas compute with; None if none does."""
        if name in self._analysis.by_tensors and self._analysis.scaling(name) in ROWLIKE:
            weights = (self.of(name), "active")
        elif name in self._analysis.ratios:
            inner, outer = self._analysis.ratios[name]
            weights = (self._of_target(inner), self._of_target(outer))
        else:
            return None
        return {("share", "active"): "Mul", ("active", "share"): "DivNoNan"}.get(weights)

    def _of(self, reduction: Reduction | None) -> str:
        chosen = reduction if self._gradient_reduction == "auto" else self._gradient_reduction
        return "active" if chosen == "sum" else "share"

    @cached_property
    def _behind(self) -> dict[str, set[str]]:
        """By node at which gradients are joined in the step, the weights of the gradients that depend on it."""
        analysis = self._analysis
        names = sorted(analysis.joined)
        behind = analysis.reached(names, analysis.marks)
        marks = [(behind.get(m, 0), self.of(m)) for m in self._demand.cuts if m in analysis.marks and names]
        return {name: {w for bits, w in marks if bits >> k & 1} or {"share"} for k, name in enumerate(names)}
