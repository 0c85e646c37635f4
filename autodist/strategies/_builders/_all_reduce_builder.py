"""All-reduce with fused groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, final

from autodist.strategies._builders._assemble import assemble
from autodist.strategies._builders._collectives import (
    CHUNK_BYTES,
    AnyCommunicator,
    carrier_of,
    chunks,
    grouped,
    in_backward_order,
)
from autodist.strategies._builders._encoded_variables import encoder
from autodist.strategies._builders._parameters import CheckedBuilder

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph
    from autodist.resource_spec import ResourceSpec
    from autodist.strategies._strategy import Strategy


@final
@dataclass(frozen=True)
class AllReduce(CheckedBuilder):
    """All-reduce: every worker holds all variables, gradients are summed in groups in the order they become ready.

    Variables that follow each other in the backward pass make one group, up to ``chunk_size`` of them and up to
    ``chunk_bytes``, as far as they have one dtype and dense gradients; a sparse variable is a group of its own, whose
    gradients are gathered. Group 0 is ready first, and travels while the others are computed.

    Attributes:
        chunk_size: How many variables a group holds at most, >= 1.
        communicator: The carrier of the collectives; ``auto`` takes the fastest that is installed.
        compressor: Encoder of the gradients that it can encode, such as ``FP16``; None sends all as they are.
        chunk_bytes: How many bytes a group holds at most, >= 1; a larger variable is alone.
        staleness: How many steps after its own a gradient is reduced and applied, >= 0: above 0 it travels while the
            next steps compute, and a step's values lack the updates of so many steps before it.
    """

    name: ClassVar[str] = "AllReduce"
    chunk_size: int = 128
    communicator: AnyCommunicator = "auto"
    compressor: str | None = None
    chunk_bytes: int = CHUNK_BYTES
    staleness: int = 0

    def build(self, graph: TrainingGraph, spec: ResourceSpec) -> Strategy:
        """Build the strategy that the class describes."""
        carrier = carrier_of(self)
        groups = chunks(in_backward_order(graph), self.chunk_size, chunk_bytes=self.chunk_bytes)
        configs = {
            v.name: grouped(
                v, groups[v.name], carrier, compressor=encoder(v, self.compressor), staleness=self.staleness
            )
            for v in graph.trainable
        }
        return assemble(self, graph, spec, configs, carrier)
