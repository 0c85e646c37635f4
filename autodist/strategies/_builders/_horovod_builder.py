"""The strategy of Horovod."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, final

from autodist import carriers
from autodist.strategies._builders._assemble import assemble
from autodist.strategies._builders._collectives import AnyCommunicator, carrier_of, grouped, in_backward_order
from autodist.strategies._builders._encoded_variables import encoder
from autodist.strategies._builders._parameters import CheckedBuilder

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph, Variable
    from autodist.resource_spec import ResourceSpec
    from autodist.strategies._strategy import Communicator, Strategy


@final
@dataclass(frozen=True)
class Horovod(CheckedBuilder):
    """Horovod: all-reduce of dense gradients fused up to a number of bytes, all-gather of sparse ones.

    Reproduces Horovod (Sergeev and Del Balso 2018; thesis table 7.1: all-reduce and all-gather, fixed-size fusion,
    FP16, a reduction structure). Gradients of one dtype that follow each other in the backward pass are fused as long
    as they fit into ``fusion_bytes``; a larger one is alone, and so is each sparse one.

    Attributes:
        fusion_bytes: The most bytes of a fused buffer, >= 1; Horovod's own default, 64 MB.
        compressor: Encoder of the gradients that it can encode; Horovod has ``FP16``.
        communicator: The carrier of the collectives; ``auto`` takes Horovod where it is built, else the fastest.
    """

    name: ClassVar[str] = "Horovod"
    fusion_bytes: int = 64 * 1024 * 1024
    compressor: str | None = None
    communicator: AnyCommunicator = "auto"

    def _automatic(self, installed: Sequence[Communicator]) -> Communicator:
        """Return Horovod, whose name it has, where that is installed."""
        return carriers.Horovod.name if carriers.Horovod.name in installed else installed[0]

    def build(self, graph: TrainingGraph, spec: ResourceSpec) -> Strategy:
        """Build the strategy that the class describes."""
        carrier = carrier_of(self)
        groups = _fused(in_backward_order(graph), self.fusion_bytes)
        configs = {
            v.name: grouped(v, (groups[v.name],), carrier, compressor=encoder(v, self.compressor))
            for v in graph.trainable
        }
        return assemble(self, graph, spec, configs, carrier)


def _fused(variables: Iterable[Variable], fusion_bytes: int) -> dict[str, int]:
    """Per variable the number of its group; groups are numbered in the order of their first members."""
    groups: dict[str, int] = {}
    filled: dict[str, tuple[int, int]] = {}  # by dtype, the group that is being filled and its bytes
    count = 0
    for variable in variables:
        group, size_bytes = filled.get(variable.dtype, (count, 0))
        if variable.is_sparse:
            group = count
        else:
            fits = size_bytes + variable.size_bytes <= fusion_bytes
            group, size_bytes = (group, size_bytes) if fits and size_bytes else (count, 0)
            filled[variable.dtype] = group, size_bytes + variable.size_bytes
        groups[variable.name] = group
        count = max(count, group + 1)
    return groups
