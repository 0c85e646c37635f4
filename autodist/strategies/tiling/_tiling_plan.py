"""How the variables of a step lie on a mesh, and what that costs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from autodist.errors import AutoDistError, StrategyError
from autodist.resource_spec import Mesh
from autodist.strategies.tiling._tensor_layout import TensorLayout


@dataclass(frozen=True)
class TilingPlan:
    """How the variables of a step lie on a mesh.

    Attributes:
        mesh: The mesh.
        variables: By name, the layout of each variable and slot.
        moved_bytes: Predicted bytes that all devices together send each other in a step.
        device_bytes: Predicted bytes that each device keeps.
        gathered: The variables that are cut, but gathered before some operator takes them, or whose gradients some
            operator makes as terms of sums: sharded data parallelism. Operators take all others as they lie.
        whole: The nodes that can't be cut, as far as is known: they run whole on every device.

    Example:
        >>> mesh = Mesh((("device", 2),), ("a:CPU:0", "a:CPU:1"))
        >>> plan = TilingPlan(mesh, {"w": TensorLayout.parse("*,device")}, moved_bytes=64.0)
        >>> TilingPlan.from_json(plan.to_json()) == plan
        True
    """

    mesh: Mesh
    variables: Mapping[str, TensorLayout]
    moved_bytes: float = 0.0
    device_bytes: float = 0.0
    gathered: frozenset[str] = frozenset()
    whole: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "gathered", frozenset(self.gathered))
        object.__setattr__(self, "variables", MappingProxyType(dict(self.variables)))

    def cut_dims(self) -> dict[str, int]:
        """By name of each variable that is cut along one dim and computed with as it lies, that dim.

        Example:
            >>> mesh = Mesh((("device", 2),), ("a:CPU:0", "a:CPU:1"))
            >>> layouts = {"w": TensorLayout.parse("*,device"), "b": TensorLayout.parse("*")}
            >>> TilingPlan(mesh, layouts).cut_dims()
            {'w': 1}
        """
        used = {name: layout for name, layout in self.variables.items() if name not in self.gathered}
        cut = {name: [d for d, axes in enumerate(layout.dims) if axes] for name, layout in used.items()}
        return {name: dims[0] for name, dims in cut.items() if len(dims) == 1}

    def to_json(self) -> str:
        """Return one line of JSON, which :meth:`from_json` reads."""
        return json.dumps(
            {
                "mesh": json.loads(self.mesh.to_json()),
                "variables": {name: str(layout) for name, layout in self.variables.items()},
                "moved_bytes": self.moved_bytes,
                "device_bytes": self.device_bytes,
                "gathered": sorted(self.gathered),
                "whole": self.whole,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> TilingPlan:
        """Return the plan that :meth:`to_json` wrote.

        Raises:
            StrategyError: The text is none.
            SpecError: Its mesh is none.
        """
        try:
            data = json.loads(text)
            layouts = {str(name): TensorLayout.parse(layout) for name, layout in data["variables"].items()}
            sizes = float(data["moved_bytes"]), float(data["device_bytes"])
            gathered, whole = frozenset(map(str, data["gathered"])), tuple(map(str, data["whole"]))
            return cls(Mesh.from_json(json.dumps(data["mesh"])), layouts, *sizes, gathered, whole)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            if isinstance(error, AutoDistError):
                raise
            raise StrategyError(
                f"the tiling plan is damaged ({error!r}), expected what `TilingPlan.to_json()` writes"
            ) from None
