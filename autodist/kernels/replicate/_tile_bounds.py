"""Where the parts of a tiled tensor begin and end."""

from __future__ import annotations

from itertools import pairwise

from autodist.errors import StrategyError
from autodist.graph import data_inputs, node_of, normalize, tensor_shape
from autodist.graph.layouts import Tile, bounds_of_part
from autodist.graph.operators import meaning
from autodist.kernels.replicate._shared_step import SharedStep


class TileBounds:
    """Bounds of parts, by tensor and layout.

    Args:
        step: The step.
    """

    def __init__(self, step: SharedStep) -> None:
        self._nodes, self._plan, self._layout = step.nodes, step.plan, step.layout

    def length(self, tensor: str, tile: Tile) -> int:
        """The length of the dim that is cut."""
        # In a step for one number of examples, a fixed length may by chance be a multiple of that number.
        length = (self._plan.shapes.cases[0].shape(tensor) or ())[tile.dim]
        if length is None:  # the program has said it while it was traced
            length = (tensor_shape(self._nodes, tensor) or ())[tile.dim]
        if length is None:
            length = self._beside(tensor, tile.dim)
        if length is None:
            name = node_of(tensor)
            raise StrategyError(
                f"parts of `{name}` are needed along dim {tile.dim}, and nothing says how long that is",
                hint="say it where it is made, by `tf.ensure_shape`, or keep variables whole, as by "
                "`Tiled(dims=('NAME=whole',))`",
            )
        return length

    def _beside(self, tensor: str, dim: int) -> int | None:
        """The length of what is added to a tensor: terms of a sum have one shape, even if one has an unknown length."""
        kinds = ((node, meaning(node.op)) for node in self._nodes.values())
        terms = (data_inputs(node) for node, kind in kinds if kind.has_one_shape and not kind.chooses)
        beside = {term for found in terms if tensor in map(normalize, found) for term in found}
        shapes = [self._plan.shapes.cases[0].shape(term) or () for term in sorted(beside)]
        lengths = [shape[dim] for shape in shapes if len(shape) > dim]
        return next((length for length in lengths if length is not None), None)

    def of(self, tensor: str, tile: Tile, replica: int) -> tuple[int, int]:
        """Where the part of a local replica begins and ends."""
        number = self._layout.first_replica + replica
        return bounds_of_part(self.length(tensor, tile), self._plan.tiled.parts, number)

    def own_sizes(self, tensor: str, tile: Tile) -> list[int]:
        """The lengths of the parts of this worker's replicas."""
        bounds = (self.of(tensor, tile, r) for r in range(len(self._layout.local_replicas)))
        return [end - begin for begin, end in bounds]

    def by_worker(self, tensor: str, tile: Tile) -> tuple[list[int], list[int]]:
        """By worker, where the parts of its replicas begin, and how long they are together."""
        layout, parts, length = self._layout, self._plan.tiled.parts, self.length(tensor, tile)
        numbers = [len(layout.copies(rank)) for rank in range(layout.world_size)]
        ends = [0, *(bounds_of_part(length, parts, sum(numbers[: k + 1]) - 1)[1] for k in range(len(numbers)))]
        return ends[:-1], [end - begin for begin, end in pairwise(ends)]
