"""How images lie in their tensors, and how windows move over them: for convolutions and pooling."""

from __future__ import annotations

from dataclasses import dataclass

from autodist.graph.operators._base import (
    WHOLE,
    Access,
    Affine,
    Describe,
    Expression,
    Lengths,
    Operand,
    Shape,
    Signature,
    Size,
)

SPACE = ("h", "w", "v")
WINDOW = ("i", "j", "l")
RANK_OF_IMAGES = 4


@dataclass(frozen=True)
class Images:
    """How images lie in their tensors, and how a window moves over them.

    Attributes:
        first: Whether channels precede height and width.
        strides: By spatial dim.
        dilations: By spatial dim.
        padding: What the attribute says.
        before: Explicit padding before each spatial dim.
    """

    first: bool
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    padding: str
    before: tuple[int, ...]

    @classmethod
    def of(cls, signature: Signature, rank: int) -> Images:
        first = signature.text("data_format").startswith("NC")
        space = slice(2, None) if first else slice(1, -1)
        strides = signature.list("strides") or (1,) * rank
        dilations = signature.list("dilations") or (1,) * rank
        explicit = signature.list("explicit_paddings")
        before = explicit[0::2][space] if explicit else (0,) * (rank - 2)
        return cls(first, strides[space], dilations[space], signature.text("padding"), before)

    def access(self, batch: str, places: list[Affine | None], channel: Affine | None) -> Access:
        """The dims of a tensor of images."""
        middle = (channel, *places) if self.first else (*places, channel)
        return Access((Affine.of(batch), *middle))

    def sizes(self, shape: tuple[Size, ...]) -> tuple[Size, tuple[Size, ...], Size]:
        """Number of images, sizes in space, and channels."""
        return (shape[0], shape[2:], shape[1]) if self.first else (shape[0], shape[1:-1], shape[-1])

    def pads(self, image: tuple[Size, ...], window: tuple[int, ...], result: tuple[Size, ...]) -> list[int | None]:
        """How far the first window begins before the image, by spatial dim; None where it is not known."""
        if self.padding == "VALID":
            return [0] * len(image)
        if self.padding == "EXPLICIT":
            return list(self.before)
        return [
            None if size is None or out is None else max((out - 1) * s + (k - 1) * d + 1 - size, 0) // 2
            for size, out, s, d, k in zip(image, result, self.strides, self.dilations, window, strict=True)
        ]

    def window(self, signature: Signature) -> tuple[int, ...]:
        """The size of the window of a pooling, by spatial dim."""
        sizes = signature.list("ksize")
        return sizes[2:] if self.first else sizes[1:-1]

    def fits(self, d: int, image: tuple[Size, ...], result: tuple[Size, ...], window: tuple[int, ...]) -> bool:
        """Whether all windows lie inside of the image along a spatial dim."""
        size, out = image[d], result[d]
        is_inside = size is not None and out is not None and (out - 1) * self.strides[d] + window[d] <= size
        return self.padding == "VALID" or (self.padding == "SAME" and is_inside)

    def moved(self, pads: list[int | None]) -> list[Affine | None]:
        """The places in the image that the window takes for each place of the result."""
        steps = zip(SPACE, self.strides, WINDOW, self.dilations, pads, strict=False)
        return [None if pad is None else Affine.of(n, s) + Affine.of(k, d) - pad for n, s, k, d, pad in steps]


def known_shapes(*shapes: Shape) -> tuple[tuple[Size, ...], ...] | None:
    found = tuple(shape for shape in shapes if shape is not None)
    return found if len(found) == len(shapes) else None


def named_sizes(batch: Size, space: tuple[Size, ...], window: tuple[Size, ...], **channels: Size) -> dict[str, Size]:
    names = zip((*SPACE[: len(space)], *WINDOW[: len(window)]), (*space, *window), strict=True)
    return {"n": batch, **dict(names), **channels}


def fixed_indices(places: list[Affine | None], dims: int) -> frozenset[str]:
    """The indices along which nothing can be cut: those of the window, and of space where padding is not known."""
    return frozenset((*WINDOW[:dims], *(SPACE[d] for d, place in enumerate(places) if place is None)))


def by_image(*taken: int, channels: bool = True, sizes_at: int | None = None) -> Describe:
    """Each image by itself, and perhaps each channel; of these inputs, the others being taken whole.

    One input may be the shape of the result.
    """

    def describe(signature: Signature) -> Expression | None:
        shape = signature.outputs[0]
        if shape is None or any(signature.inputs[k] is None for k in taken):
            return None
        first = signature.text("data_format").startswith("NC")
        channel = 1 if first else len(shape) - 1
        names = ["n", *(f"d{d}" for d in range(1, len(shape)))]
        whole: list[str | None] = [None] * len(shape)
        whole[0] = "n"
        if channels:
            whole[channel] = names[channel]
        joined = frozenset(name for d, name in enumerate(names) if d and not (channels and d == channel))
        inputs: list[Operand] = [Access.by(*whole) if k in taken else WHOLE for k in range(len(signature.inputs))]
        if sizes_at is not None:
            inputs[sizes_at] = Lengths(tuple(Affine.of(name) for name in names))
        return Expression(dict(zip(names, shape, strict=True)), (Access.by(*names),), tuple(inputs), {}, joined)

    return describe
