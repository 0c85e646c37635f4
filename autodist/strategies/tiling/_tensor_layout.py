"""How one tensor lies on a mesh."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from autodist.errors import StrategyError
from autodist.resource_spec import Mesh
from autodist.strategies._problem import Problem
from autodist.wording import counted

_WHOLE, _SCALAR = "*", "()"


@dataclass(frozen=True)
class TensorLayout:
    """Which mesh axes cut which dims of a tensor, and over which its devices hold terms of a sum.

    A device's tile is one contiguous box. Along an axis that is named nowhere, all devices hold the same.

    Attributes:
        dims: Per dim, the axes that cut it: the first into large parts, the next one these into smaller ones.
        partial: The axes along which devices hold terms of a sum that is the tensor.

    Example:
        >>> layout = TensorLayout((("host", "device"), ()), partial=("group",))
        >>> str(layout)
        'host.device,* +group'
        >>> layout.tile_shape((8, 3), {"host": 2, "device": 2, "group": 2})
        (2, 3)
    """

    dims: tuple[tuple[str, ...], ...]
    partial: tuple[str, ...] = ()

    @classmethod
    def whole(cls, rank: int) -> TensorLayout:
        """The layout of a tensor that every device has whole."""
        return cls(((),) * rank)

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes that are named, those of partial sums last."""
        return (*(axis for cutting in self.dims for axis in cutting), *self.partial)

    @property
    def is_whole(self) -> bool:
        """Whether every device has all of the tensor."""
        return not self.axes

    def parts(self, lengths: Mapping[str, int]) -> tuple[int, ...]:
        """Per dim, into how many parts it is cut, on a mesh whose axes have these lengths."""
        return tuple(prod(lengths[axis] for axis in cutting) for cutting in self.dims)

    def tile_shape(self, shape: Sequence[int], lengths: Mapping[str, int]) -> tuple[int, ...]:
        """The shape of the largest tile: all are equal if the dims can be cut evenly."""
        return tuple(-(-size // parts) for size, parts in zip(shape, self.parts(lengths), strict=True))

    def __str__(self) -> str:
        dims = ",".join(".".join(cutting) or _WHOLE for cutting in self.dims) or _SCALAR
        return dims + "".join(f" +{axis}" for axis in self.partial)

    @classmethod
    def parse(cls, text: str) -> TensorLayout:
        """Return the layout of a text that ``str`` gave.

        Raises:
            StrategyError: The text is none.

        Example:
            >>> TensorLayout.parse("*,host +device")
            TensorLayout(dims=((), ('host',)), partial=('device',))
        """
        dims, *partial = text.split(" +")
        names = [] if dims == _SCALAR else [[] if d == _WHOLE else d.split(".") for d in dims.split(",")]
        if not all(axis.isidentifier() for axis in (*(axis for dim in names for axis in dim), *partial)):
            raise StrategyError(
                f"`{text}` is not a layout of a tensor, expected for each dim `*` or axes of the mesh, such as "
                "`host.device,* +group`"
            )
        return cls(tuple(map(tuple, names)), tuple(partial))


def layout_problems(name: str, layout: TensorLayout, shape: Sequence[int], mesh: Mesh) -> tuple[Problem, ...]:
    """All reasons why a tensor can't lie so on a mesh.

    Args:
        name: The name of the tensor in the sentences.
        layout: The layout.
        shape: The tensor's.
        mesh: The mesh.

    Example:
        >>> mesh = Mesh((("host", 2),), ("a", "b"))
        >>> print(*layout_problems("w", TensorLayout((("host",), ())), (1, 4), mesh))
        `w`: layout is host,*, allowed: up to 1 part of dim 0 (host=2 makes 2)
    """
    return tuple(_problems(name, layout, shape, mesh))


def _problems(name: str, layout: TensorLayout, shape: Sequence[int], mesh: Mesh) -> Iterator[Problem]:
    def problem(allowed: str, reason: str) -> Problem:
        return Problem(name, "layout", str(layout), allowed, reason)

    if len(layout.dims) != len(shape):
        yield problem(f"{len(shape)} dims", f"the tensor's shape is {tuple(shape)}")
    for axis, count in Counter(layout.axes).items():
        if axis not in mesh.length_of:
            yield problem(f"the axes {', '.join(mesh.names)}", f"the mesh has no axis `{axis}`")
        elif count > 1:
            yield problem("each axis once", f"`{axis}` stands there {count} times")
    if len(layout.dims) != len(shape) or not set(layout.axes) <= mesh.length_of.keys():
        return
    for dim, (cutting, size, parts) in enumerate(zip(layout.dims, shape, layout.parts(mesh.length_of), strict=True)):
        if size < parts:
            axes = " x ".join(f"{axis}={mesh.length_of[axis]}" for axis in cutting)
            yield problem(f"up to {counted(size, 'part')} of dim {dim}", f"{axes} makes {parts}")
