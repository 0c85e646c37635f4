"""Tiling plans in words: a line for each repeated block, differences between plans, reasons why one does not fit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autodist.errors import StrategyError
from autodist.strategies._problem import Problem
from autodist.strategies.tiling._tensor_layout import TensorLayout, layout_problems
from autodist.strategies.tiling._tiling_plan import TilingPlan
from autodist.wording import counted, size_text

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph, Variable

_NUMBERS = re.compile(r"_?\d+")
_MOST_WHOLE = 5
"""The most operators that are named among those that run whole."""


@dataclass(frozen=True)
class TiledBlock:
    """Variables of repeated layers that have one shape and one layout.

    Attributes:
        names: Their names, in the order of the step.
        shape: Shape of each.
        layout: How each lies.
        size_bytes: Size of all of them together, with the slots that lie as they do.
        device_bytes: Bytes of them that a device keeps.
        why: Why they lie so.
        slots: How many slots each has that lie as it does.

    Example:
        >>> layout = TensorLayout.parse("*,device")
        >>> print(TiledBlock(("a/kernel", "a_1/kernel"), (8, 4), layout, 256, 128.0, "operators take it as it lies"))
        a/kernel to a_1/kernel (2), (8, 4): *,device, 256 bytes, 128 bytes on each device, operators take it as it lies
    """

    names: tuple[str, ...]
    shape: tuple[int, ...]
    layout: TensorLayout
    size_bytes: int
    device_bytes: float
    why: str
    slots: int = 0

    def __str__(self) -> str:
        several = f"{self.names[0]} to {self.names[-1]} ({len(self.names)})" if len(self.names) > 1 else self.names[0]
        several += f" with {counted(self.slots, 'slot')}" if self.slots else ""
        kept = f"{size_text(self.size_bytes)}, {size_text(self.device_bytes)} on each device"
        return f"{several}, {self.shape}: {self.layout}, {kept}, {self.why}"


@dataclass(frozen=True)
class PlanDifference:
    """One aspect in which two plans differ.

    Attributes:
        variable: The variable; None if it is about the plan.
        aspect: What differs.
        a: The value in the first plan; None if it has none.
        b: The value in the second one, likewise.
    """

    variable: str | None
    aspect: str
    a: str | None
    b: str | None

    def __str__(self) -> str:
        subject = f"`{self.variable}`: " if self.variable is not None else ""
        return f"{subject}{self.aspect}: {self.a or 'nothing'} or {self.b or 'nothing'}"


def tiled_blocks(plan: TilingPlan, graph: TrainingGraph) -> tuple[TiledBlock, ...]:
    """The variables of a plan by repeated block, the largest first.

    Args:
        plan: The plan.
        graph: The step that it is for.

    Raises:
        StrategyError: It does not fit the step; all mistakes are listed.
    """
    mistakes = tiling_problems(plan, graph)
    if mistakes:
        lines = "\n".join(f"  - {problem}" for problem in mistakes)
        raise StrategyError(f"the tiling plan does not fit the step:\n{lines}")
    slots = {variable.name: _slots_alike(plan, graph, variable) for variable in graph.trainable}
    shown = {slot.name for found in slots.values() for slot in found}
    groups: dict[object, list[Variable]] = {}
    for variable in (v for v in graph.variables if v.name not in shown):
        layout, is_gathered = plan.variables[variable.name], variable.name in plan.gathered
        kept = len(slots.get(variable.name, ()))
        kind = _NUMBERS.sub("", variable.name), variable.shape, variable.dtype, layout, is_gathered, kept
        groups.setdefault(kind, []).append(variable)
    found = [_block(plan, members, slots.get(members[0].name, ())) for members in groups.values()]
    return tuple(sorted(found, key=lambda block: -block.size_bytes))


def _slots_alike(plan: TilingPlan, graph: TrainingGraph, variable: Variable) -> tuple[Variable, ...]:
    """The slots of a variable that have its shape and lie as it does."""
    layout, slots = plan.variables[variable.name], graph.slots_of(variable.name)
    alike = (s for s in slots if s.shape == variable.shape and s.owners == (variable.name,))
    return tuple(slot for slot in alike if plan.variables[slot.name] == layout)


def _block(plan: TilingPlan, members: Sequence[Variable], slots: Sequence[Variable]) -> TiledBlock:
    first, lengths = members[0], plan.mesh.length_of
    layout = plan.variables[first.name]
    size = len(members) * sum(variable.size_bytes for variable in (first, *slots))
    kept: float = size
    for parts in layout.parts(lengths):
        kept /= parts
    why = _why(layout, first, lengths, is_gathered=first.name in plan.gathered)
    return TiledBlock(tuple(v.name for v in members), first.shape, layout, size, kept, why, len(slots))


def _why(layout: TensorLayout, variable: Variable, lengths: Mapping[str, int], *, is_gathered: bool) -> str:
    if not layout.is_whole:
        return "gathered where operators take it" if is_gathered else "operators take it as it lies"
    counts = [length for length in lengths.values() if length > 1]
    fitting = [size for size in variable.shape if any(size >= count for count in counts)]
    return "fewer bytes move if it is whole" if fitting else "it has no dim as long as an axis of the mesh"


def explain_tiling(plan: TilingPlan, graph: TrainingGraph) -> str:
    """Text with a line for each repeated block of a plan: bytes, where, why.

    Raises:
        StrategyError: The plan does not fit the step.
    """
    lines = [
        f"mesh {plan.mesh.text}: {size_text(plan.moved_bytes)} are moved in a step, a device keeps "
        f"{size_text(plan.device_bytes)}",
        *map(str, tiled_blocks(plan, graph)),
    ]
    if plan.whole:
        named = ", ".join(plan.whole[:_MOST_WHOLE])
        more = f" and {len(plan.whole) - _MOST_WHOLE} more" if len(plan.whole) > _MOST_WHOLE else ""
        lines.append(
            f"{counted(len(plan.whole), 'operator')} can't be cut and run whole on every device: {named}{more}"
        )
    return "\n".join(lines)


def diff_tilings(one: TilingPlan, other: TilingPlan) -> tuple[PlanDifference, ...]:
    """Differences between two plans.

    Example:
        >>> from autodist.resource_spec import Mesh
        >>> mesh = Mesh((("device", 2),), ("a:CPU:0", "a:CPU:1"))
        >>> plans = [TilingPlan(mesh, {"w": TensorLayout.parse(text)}, 64.0) for text in ("*,device", "device,*")]
        >>> print(*diff_tilings(*plans))
        `w`: layout: *,device or device,*
    """
    return tuple(_differences(one, other))


def _differences(one: TilingPlan, other: TilingPlan) -> Iterator[PlanDifference]:
    aspects = {
        "mesh": (one.mesh.text, other.mesh.text),
        "devices": (", ".join(one.mesh.devices), ", ".join(other.mesh.devices)),
        "moved in a step": (size_text(one.moved_bytes), size_text(other.moved_bytes)),
        "kept by a device": (size_text(one.device_bytes), size_text(other.device_bytes)),
        "operators that run whole": (str(len(one.whole)), str(len(other.whole))),
    }
    yield from (PlanDifference(None, aspect, a, b) for aspect, (a, b) in aspects.items() if a != b)
    for name in dict.fromkeys((*one.variables, *other.variables)):
        a, b = (None if name not in plan.variables else str(plan.variables[name]) for plan in (one, other))
        if a != b:
            yield PlanDifference(name, "layout", a, b)
        elif (name in one.gathered) != (name in other.gathered):
            how = {True: "gathered", False: "taken as it lies"}
            yield PlanDifference(name, "use", how[name in one.gathered], how[name in other.gathered])


def tiling_problems(plan: TilingPlan, graph: TrainingGraph) -> tuple[Problem, ...]:
    """All reasons why a plan does not fit a step."""
    return tuple(_problems(plan, graph))


def _problems(plan: TilingPlan, graph: TrainingGraph) -> Iterator[Problem]:
    shapes = {variable.name: variable.shape for variable in graph.variables}
    for name in shapes.keys() - plan.variables.keys():
        yield Problem(name, "layout", "none", "one for each variable of the step", "the plan does not name it")
    for name, layout in plan.variables.items():
        if name not in shapes:
            yield Problem(name, "layout", str(layout), "variables of the step", "the step has no such variable")
            continue
        yield from layout_problems(name, layout, shapes[name], plan.mesh)
        if layout.partial:
            yield Problem(name, "layout", str(layout), "no `+`", "variables are kept, not summed up in each step")
    for name in sorted(plan.gathered - plan.variables.keys()):
        yield Problem(name, "gathered", "yes", "variables of the plan", "the plan has no layout for it")
