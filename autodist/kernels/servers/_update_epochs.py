"""Update epochs: the order of reads and updates of variables that live on another worker.

Most steps update a variable once, at their end. Some update it and go on with the new value: a generator is trained
against the critic that was just updated, an inner loop takes several gradients. Then there is an *epoch* for every
update that nodes on the other workers wait for: epoch 0 has the reads and gradients before any update, epoch 1 those
after the first, and so on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from autodist.graph import StepAnalysis


class UpdateEpochs:
    """The epochs of units of variables, the same on every worker.

    Args:
        analysis: The replicated step.
        writes: By node that changes a unit's variable, the unit.
        behind: By node, the units whose synchronized gradients its value depends on; as bits in the order of `units`.
        units: Names of the units.
        roots: The nodes for which the step is run: effects, outputs, gradients to be sent.
    """

    def __init__(
        self,
        analysis: StepAnalysis,
        writes: Mapping[str, str],
        behind: Mapping[str, int],
        units: Iterable[str],
        roots: Iterable[str],
    ) -> None:
        self._analysis = analysis
        self._bit = {unit: 1 << k for k, unit in enumerate(units)}
        self._writes = writes
        self._elsewhere = self._needed_elsewhere(roots, behind)
        self._levels: list[dict[str, int]] = []
        updates = dict(writes)
        while updates:
            level = self._reached(updates)
            self._levels.append(level)
            updates = {write: unit for write, unit in updates.items() if level.get(write, 0) & self._bit[unit]}

    def of(self, node: str, unit: str) -> int:
        """How many updates of a unit come before a node, as seen from another worker than the unit's own."""
        return sum(bool(level.get(node, 0) & self._bit[unit]) for level in self._levels)

    def _needed_elsewhere(self, roots: Iterable[str], behind: Mapping[str, int]) -> dict[str, int]:
        """By node, the units for which workers other than the unit's own run it."""
        everyone = sum(self._bit.values())
        needed = {root: everyone & ~behind.get(root, 0) for root in roots}
        for name in reversed(self._analysis.order):
            if name in self._writes:
                needed[name] = needed.get(name, 0) & ~self._bit[self._writes[name]]
            for source in self._analysis.index.needs[name] if needed.get(name) else ():
                needed[source] = needed.get(source, 0) | needed[name]
        return needed

    def _reached(self, updates: Mapping[str, str]) -> dict[str, int]:
        """By node, the units that have had one of these updates when another worker runs it."""
        reached: dict[str, int] = {}
        for name in self._analysis.order:
            bits = 0
            for source in self._analysis.index.needs[name]:
                bits |= reached.get(source, 0)
                if source in updates:
                    bits |= self._bit[updates[source]] & self._elsewhere.get(name, 0)
            if bits:
                reached[name] = bits
        return reached
